from __future__ import annotations

import pytest

from tensoraudit.probes.onnxruntime.pairing import pair
from tensoraudit.probes.onnxruntime.tensors import MismatchError

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
