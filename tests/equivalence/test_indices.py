from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensoraudit.equivalence.comparison import compare_arrays
from tensoraudit.equivalence.indices import Scores, check_ties, find_scores, scores_for
from tensoraudit.equivalence.verdict import Verdict

RNG = np.random.default_rng(3)
SCORES = RNG.standard_normal((4, 6, 5)).astype(np.float32)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("extreme", [np.argmax, np.argmin])
def test_an_argument_of_an_extreme_finds_its_scores(axis: int, kept: bool, extreme: object) -> None:
    indices = extreme(SCORES, axis=axis, keepdims=kept)  # type: ignore[operator]
    found = find_scores(indices, {"noise": RNG.standard_normal((4, 6, 5)), "s": SCORES})
    assert found is not None
    assert (found.name, found.kind, found.axis, found.kept) == ("s", "arg", axis, kept)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("largest", [True, False])
def test_a_sorted_top_k_finds_its_scores(axis: int, largest: bool) -> None:
    order = np.argsort(-SCORES if largest else SCORES, axis=axis)
    indices = np.take(order, range(3), axis=axis)
    found = find_scores(indices, {"noise": -(SCORES[::-1] ** 3), "s": SCORES})
    assert found is not None
    assert (found.name, found.kind, found.axis) == ("s", "top-k", axis)


def test_the_values_of_a_top_k_stand_in_for_scores_that_are_no_output() -> None:
    indices = np.argsort(-SCORES, axis=-1)[..., :3]
    values = np.take_along_axis(SCORES, indices, axis=-1)
    found = find_scores(indices, {"v": values})
    assert found is not None
    assert found.kind == "values"


def test_unrelated_floats_are_no_scores() -> None:
    assert find_scores(np.array([1, 2, 3]), {"x": RNG.standard_normal((3, 5)), "z": np.empty((0, 3))}) is None
    assert find_scores(np.array(5), {"x": np.array(2.0)}) is None


def test_given_scores_must_explain_the_indices() -> None:
    with pytest.raises(ValueError, match="do not explain the indices"):
        scores_for("s", np.array([[0, 0, 0]]), SCORES)


def _scores(*rows: list[float]) -> Scores:
    return Scores("s", "top-k", np.array(rows, np.float32), axis=1, kept=True)


def test_gaps_are_taken_between_the_two_chosen_scores() -> None:
    scores = _scores([9, 5, 5, 1], [8, 7, 6, 5])
    check = check_ties(scores, np.array([[0, 1], [0, 1]]), np.array([[0, 2], [1, 0]]), tie=0.5)
    assert (check.differing, check.untied, check.largest_gap) == (3, 2, 1.0)


@pytest.mark.parametrize("bad", [[0, 4], [0, -1], [2, 2]])
def test_an_invalid_list_never_ties(bad: list[int]) -> None:
    check = check_ties(_scores([1, 1, 1, 1]), np.array([[0, 1]]), np.array([bad]), tie=100.0)
    assert check.untied == len([1 for a, b in zip([0, 1], bad, strict=True) if a != b])


def test_with_values_only_an_index_from_outside_must_tie_with_the_last_place() -> None:
    values = Scores("v", "values", np.array([[9.0, 5.0, 5.0]]), axis=1, kept=True)
    reference = np.array([[10, 20, 30]])
    assert check_ties(values, reference, np.array([[10, 30, 20]]), tie=0.1).untied == 0
    outsider = check_ties(values, reference, np.array([[10, 20, 77]]), tie=0.1)
    assert (outsider.untied, outsider.open, outsider.shown) == (0, 1, False)
    assert check_ties(values, reference, np.array([[77, 20, 30]]), tie=0.1).untied == 1
    assert check_ties(values, reference, np.array([[20, 10, 30]]), tie=0.1).untied == 2


def test_a_nan_score_never_ties() -> None:
    scores = Scores("s", "arg", np.array([[np.nan, 1.0]]), axis=1, kept=False)
    assert check_ties(scores, np.array([0]), np.array([1]), tie=1.0).untied == 1


def test_many_indices_are_checked_at_once() -> None:
    values = RNG.integers(0, 3, (20_000, 9)).astype(np.float32)
    reference = values.argmax(axis=1)
    candidate = 8 - values[:, ::-1].argmax(axis=1)  # the last of the largest instead of the first
    scores = find_scores(reference, {"s": values})
    assert scores is not None
    check = check_ties(scores, reference, candidate, tie=0.0)
    assert check.differing == int((reference != candidate).sum()) > 1000
    assert check.untied == 0


def _verdicts(values: object, reference: object, candidate: object, **known: object) -> tuple[Verdict, str]:
    left = {"v": np.asarray(values, np.float32), "n": np.asarray(reference)}
    right = {"v": left["v"].copy(), "n": np.asarray(candidate)}
    found = compare_arrays(left, right, **known).outputs[1]  # type: ignore[arg-type]
    return found.verdict, found.reason


@pytest.mark.parametrize(
    ("values", "reference", "candidate"),
    [
        ([[0.9, 0.5, 0.1]], [[4, 7, 2]], [[4, 7, 999]]),
        ([0.0, 1.0, 2.0], [10, 20, 30], [10, 20, 3_000_000]),
        ([9.0, 5.0, 5.0], [10, 20, 30], [77, 20, 30]),
        ([9.0, 5.0, 5.0], [10, 20, 30], [10, 30, 30]),
        ([-2.0, -1.5, 0.5], [-3, -2, 0], [-2, -1, 0]),
    ],
)
def test_a_wrong_integer_beside_sorted_values_is_a_break_and_no_index(values, reference, candidate) -> None:
    verdict, reason = _verdicts(values, reference, candidate)
    assert verdict is Verdict.BREAK
    assert "indices" not in reason and "inf" not in reason


@pytest.mark.parametrize(
    ("values", "reference", "candidate"),
    [
        ([0.0, 0.0, 0.0], [10, 20, 30], [1, 2, 3]),
        ([0.0, 0.0, 0.0], [10, 20, 30], [30, 20, 10]),
        ([9.0, 5.0, 5.0], [10, 20, 30], [10, 20, 77]),
        ([0.0, 0.0, 0.0], 0, 1),  # any number fits the argmax of scores that all tie
    ],
)
def test_ties_that_no_output_shows_are_no_pass_and_no_break(values, reference, candidate) -> None:
    assert _verdicts(values, reference, candidate)[0] is Verdict.UNVERIFIED


def test_the_references_own_integers_show_a_tie_at_the_end_of_a_list() -> None:
    values, reference, candidate = [9.0, 5.0, 4.0], [10, 20, 30], [10, 20, 77]
    assert _verdicts(values, reference, candidate)[0] is Verdict.BREAK
    moved = {"n": np.array([10, 20, 77])}
    assert _verdicts(values, reference, candidate, perturbed=[moved])[0] is Verdict.UNVERIFIED
    assert _verdicts(values, reference, candidate, oracle=moved)[0] is Verdict.UNVERIFIED
    elsewhere = {"n": np.array([20, 10, 30])}
    assert _verdicts(values, reference, candidate, perturbed=[elsewhere])[0] is Verdict.BREAK


def _swaps_ties_only(values: list[int], reference: list[int], candidate: list[int]) -> bool:
    """The same by a list of pairs: each index has, on both sides, the same value beside it."""
    return sorted(zip(values, reference, strict=True)) == sorted(zip(values, candidate, strict=True))


@given(
    values=st.lists(st.integers(0, 3), min_size=2, max_size=5).map(lambda v: sorted(v, reverse=True)),
    reference=st.permutations(range(8)),
    candidate=st.lists(st.integers(-2, 9), min_size=5, max_size=5) | st.permutations(range(8)),
)
def test_only_swaps_within_ties_ever_pass(values: list[int], reference: list[int], candidate: list[int]) -> None:
    ours, theirs = reference[: len(values)], candidate[: len(values)]
    if _verdicts(values, ours, theirs)[0].passes:
        assert _swaps_ties_only(values, ours, theirs)


@given(scores=st.lists(st.integers(0, 2), min_size=3, max_size=6), candidate=st.integers(-2, 8))
def test_only_an_argument_with_the_same_score_ever_passes(scores: list[int], candidate: int) -> None:
    best = scores.index(max(scores))
    if _verdicts(scores, best, candidate)[0].passes:
        assert 0 <= candidate < len(scores) and scores[candidate] == scores[best]
