from __future__ import annotations

import pytest

from tensoraudit.probes.onnxruntime.pairing import pair, real_view, real_view_notes
from tensoraudit.probes.onnxruntime.tensors import MismatchError
from tensoraudit.probes.protocol import JobUnsupported

ARRAY = {"file": "t-1.bin", "dtype": "float32", "shape": []}


def test_names_win_over_positions():
    pairing = pair(["b", "a"], {"a": ARRAY, "b": ARRAY})
    assert pairing.arguments == {"b": "b", "a": "a"}
    assert pairing.by_position == []


def test_what_has_no_common_name_is_paired_in_order():
    pairing = pair(["a", "in.1", "in.2"], {"x": ARRAY, "a": ARRAY, "y": ARRAY})
    assert pairing.arguments == {"a": "a", "in.1": "x", "in.2": "y"}
    assert pairing.by_position == ["in.1", "in.2"]


def test_scalars_are_no_candidates_when_the_arrays_suffice():
    pairing = pair(["in.1"], {"flag": {"value": True}, "x": ARRAY})
    assert pairing.arguments == {"in.1": "x"}
    assert pairing.built_in == ["flag"]


def test_scalars_fill_inputs_when_both_counts_fit():
    assert pair(["in.1", "in.2"], {"x": ARRAY, "k": {"value": 2}}).arguments == {"in.1": "x", "in.2": "k"}


def test_none_is_absent():
    pairing = pair(["x"], {"x": ARRAY, "mask": {"value": None}})
    assert pairing == ({"x": "x"}, [], [], [])


def test_an_open_choice_is_no_guess():
    with pytest.raises(MismatchError, match=r"inputs 'in\.1' are not in the sample, which has 'x', 'y'"):
        pair(["in.1"], {"x": ARRAY, "y": ARRAY})


COMPLEX = {"file": "t-1.bin", "dtype": "complex64", "shape": [2, 4]}


def test_a_complex_array_feeds_an_input_of_its_two_parts():
    view = real_view("x", COMPLEX, "tensor(float)", ["b", 4, 2])
    assert view == {"file": "t-1.bin", "dtype": "float32", "shape": [2, 4, 2]}
    assert real_view_notes({"x": COMPLEX, "y": ARRAY}, {"x": view, "y": ARRAY}) == {"real_views": ["x"]}
    assert real_view("x", ARRAY, "tensor(float)", []) is ARRAY


@pytest.mark.parametrize(
    ("wanted", "shape"),
    [
        ("tensor(float)", ["b", 4]),
        ("tensor(float)", ["b", 4, 3]),
        ("tensor(double)", ["b", 4, 2]),
        ("tensor(complex64)", ["b", 4]),
    ],
)
def test_other_inputs_take_no_complex_array(wanted, shape):
    with pytest.raises(JobUnsupported, match=r"input 'x' is complex64 of shape \[2, 4\].* takes tensor"):
        real_view("x", COMPLEX, wanted, shape)
