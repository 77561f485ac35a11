"""One unit in the last place is that of the dtype: 2^-7 at 1 in bfloat16, 2^-23 in each part of complex64."""

import numpy as np

from tensoraudit.audit.variations import move, resize
from tensoraudit.probes.bfloat16 import bfloat16, is_bfloat16


def test_an_element_moves_by_one_unit_of_bfloat16():
    moved = move({"x": bfloat16(np.ones(64)), "k": {"value": 2}}, 0)
    assert is_bfloat16(moved["x"]) and moved["k"] == {"value": 2}
    assert set(moved["x"].tolist()) == {1.0078125, 0.99609375}


def test_both_parts_of_a_complex_number_move():
    moved = move({"x": np.full(64, 1 + 1j, np.complex64)}, 0)["x"]
    units = {1 + 2.0**-23, 1 - 2.0**-24}
    assert moved.dtype == np.complex64 and set(moved.real.tolist()) == set(moved.imag.tolist()) == units


def test_what_keeps_its_shape_is_returned_as_it_is():
    sample = {"x": np.ones((2, 3), np.complex64), "y": bfloat16(np.ones((2, 3)))}
    made = resize(sample, {"x": {0: "batch"}, "y": {0: "other"}}, {"batch": 5, "other": 2}, 0)
    assert made["x"].shape == (5, 3) and made["x"].dtype == np.complex64
    assert made["y"] is sample["y"]
