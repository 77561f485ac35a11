from __future__ import annotations

import numpy as np
import pytest

from tensoraudit.equivalence.pairing import Pairs, distance, pair_outputs

RNG = np.random.default_rng(5)
CONTOUR = RNG.random((1, 172, 264)).astype(np.float32)
NOTE, ONSET = RNG.random((2, 1, 172, 88)).astype(np.float32)


def _told(pairs: Pairs) -> list[tuple[str, str, str]]:
    return [(pair.reference, pair.candidate, pair.how) for pair in pairs.pairs]


def test_names_come_first_whatever_the_order() -> None:
    pairs = pair_outputs({"a": NOTE, "b": ONSET}, {"b": ONSET, "a": NOTE})
    assert _told(pairs) == [("a", "a", "name"), ("b", "b", "name")]


def test_names_that_differ_are_paired_by_position() -> None:
    pairs = pair_outputs({"contour": CONTOUR, "note": NOTE, "onset": ONSET}, {":0": CONTOUR, ":1": NOTE, ":2": ONSET})
    assert _told(pairs) == [("contour", ":0", "position"), ("note", ":1", "position"), ("onset", ":2", "position")]


def test_values_overrule_the_position_of_outputs_of_one_shape() -> None:
    """Note and onset have one shape, so that position alone would compare the wrong ones."""
    reference = {"note": NOTE, "onset": ONSET, "contour": CONTOUR}
    candidate = {":0": CONTOUR + 1e-6, ":2": ONSET + 1e-6, ":1": NOTE + 1e-6}
    assert _told(pair_outputs(reference, candidate)) == [
        ("note", ":1", "value"),
        ("onset", ":2", "value"),
        ("contour", ":0", "value"),
    ]


def test_a_wrong_output_keeps_its_position_when_no_other_fits() -> None:
    pairs = pair_outputs({"note": NOTE, "onset": ONSET}, {"x": NOTE, "y": ONSET**2})
    assert _told(pairs) == [("note", "x", "position"), ("onset", "y", "position")]


def test_one_output_left_on_each_side_is_a_pair_even_with_another_shape() -> None:
    assert _told(pair_outputs({"a": NOTE, "b": CONTOUR}, {"a": NOTE, "c": NOTE.T})) == [
        ("a", "a", "name"),
        ("b", "c", "position"),
    ]


def test_surplus_outputs_are_missing_or_extra() -> None:
    pairs = pair_outputs({"note": NOTE}, {"x": ONSET, "y": NOTE})
    assert (_told(pairs), pairs.extra) == ([("note", "y", "value")], ("x",))
    pairs = pair_outputs({"note": NOTE, "contour": CONTOUR}, {"x": NOTE})
    assert (_told(pairs), pairs.missing) == ([("note", "x", "value")], ("contour",))
    pairs = pair_outputs({"note": NOTE}, {})
    assert (pairs.pairs, pairs.missing) == ((), ("note",))


def test_without_agreeing_values_a_surplus_is_paired_by_shape() -> None:
    pairs = pair_outputs({"note": NOTE}, {"x": CONTOUR, "y": ONSET})
    assert (_told(pairs), pairs.extra) == ([("note", "y", "position")], ("x",))


def test_equal_outputs_stay_at_their_positions() -> None:
    zeros = np.zeros((3, 4), np.float32)
    assert _told(pair_outputs({"a": zeros, "b": zeros}, {"x": zeros, "y": zeros})) == [
        ("a", "x", "position"),
        ("b", "y", "position"),
    ]


def test_a_pairing_reads_as_a_sentence() -> None:
    assert str(pair_outputs({"a": NOTE}, {"b": NOTE}).pairs[0]) == "a is compared with b, paired by position"


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (np.array([0.0, 2.0]), np.array([0.0, 2.0]), 0.0),
        (np.array([0.0, 2.0]), np.array([1.0, 2.0]), 0.5),
        (np.array([1.0, 1.0]), np.array([1.0, 2.0]), np.inf),
        (np.array([1, 2]), np.array([1.0, 2.0]), np.inf),
        (np.array([np.nan, 2.0]), np.array([1.0, 2.0]), np.inf),
        (np.array([np.nan, 2.0]), np.array([np.nan, 2.0]), 0.0),
        (np.empty(0), np.empty(0), 0.0),
        (np.array(3.0), np.array(3.0), 0.0),
        (np.array([1e308, -1e308]), np.array([-1e308, 1e308]), np.inf),
    ],
)
def test_distance_is_relative_to_the_spread(a: np.ndarray, b: np.ndarray, expected: float) -> None:
    found = distance(a, b)
    assert found == expected or (np.isnan(found) and expected == np.inf)


def test_given_pairs_come_before_names() -> None:
    pairs = pair_outputs({"a": NOTE, "b": ONSET}, {"a": ONSET, "b": NOTE}, {"a": "b", "none": "a"})
    assert _told(pairs) == [("a", "b", "map"), ("b", "a", "position")]


def test_wrong_outputs_of_one_shape_go_to_the_nearest_one() -> None:
    """One weight changed by 1 % moves every output: they agree with none, and still are nearer to their own."""
    reference = {"note": NOTE, "onset": ONSET}
    candidate = {":2": ONSET + 0.05 * RNG.random(ONSET.shape), ":1": NOTE + 0.05 * RNG.random(NOTE.shape)}
    assert _told(pair_outputs(reference, candidate)) == [("note", ":1", "value"), ("onset", ":2", "value")]


def test_wrong_outputs_that_are_near_to_both_keep_their_position() -> None:
    middle = (NOTE + ONSET) / 2
    pairs = pair_outputs({"note": NOTE, "onset": ONSET}, {"x": middle, "y": middle + 1e-3})
    assert _told(pairs) == [("note", "x", "position"), ("onset", "y", "position")]


def test_a_broken_output_goes_to_its_shape_whatever_its_position() -> None:
    """One conv of basic-pitch changed by 1 %: the position would compare the contour with a note."""
    reference = {"contour": CONTOUR, "note": NOTE}
    pairs = pair_outputs(reference, {":1": 1 - NOTE, ":0": 1 - CONTOUR})
    assert _told(pairs) == [("contour", ":0", "shape"), ("note", ":1", "shape")]
