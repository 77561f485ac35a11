import numpy as np
import pytest

from tensoraudit.audit.layouts import as_candidate, as_reference, output_pairs
from tensoraudit.audit.ported import convention
from tensoraudit.audit.state import Candidate, Sample
from tensoraudit.probes.pool import Pool

X = np.arange(2 * 3 * 5 * 7).reshape(2, 3, 5, 7)


def candidate(**more):
    return Candidate("candidate", "pytorch:target", {}, "pytorch", True, **more)


def test_names_go_by_position_where_not_all_fit():
    sample = Sample("s", {"a": X, "b": {"value": 3}}, "user")
    assert list(as_candidate(candidate(), ["p", "q"], sample).arrays) == ["p", "q"]
    assert list(as_candidate(candidate(), ["b", "a", "c"], sample).arrays) == ["a", "b"]
    assert list(as_candidate(candidate(), [], sample).arrays) == ["a", "b"]
    assert list(as_candidate(candidate(), ["p"], sample).arrays) == ["a", "b"]


def test_inputs_are_turned_under_the_candidates_own_names():
    turned = candidate(layouts={"inputs": {"p": (0, 3, 1, 2)}})
    sample = as_candidate(turned, ["p", "q"], Sample("s", {"a": X, "b": X[0]}, "user"))
    np.testing.assert_array_equal(sample.arrays["p"], X.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(sample.arrays["q"], X[0])
    assert sample.arrays["p"].flags.c_contiguous


def test_outputs_are_turned_back():
    turned = candidate(layouts={"outputs": {"y": (0, 3, 1, 2)}})
    with Pool() as pool:
        refs = {"y": pool.put(X.transpose(0, 3, 1, 2)), "z": pool.put(X)}
        for array in as_reference(pool, turned, refs).values():
            np.testing.assert_array_equal(array, X)
        assert as_reference(pool, None, refs)["y"].shape == (2, 7, 3, 5)


def test_known_names_of_outputs():
    assert output_pairs(candidate(outputs=("p", "")), {"a": 0, "b": 0}) == {"a": "p"}
    assert output_pairs(candidate(outputs=("p",)), {"a": 0, "b": 0}) == {}
    assert output_pairs(None, {"a": 0}) == {}


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_the_conventions_undo_each_other(rank):
    to_last, to_first = convention(rank, to_last=True), convention(rank, to_last=False)
    assert tuple(np.array(to_last)[list(to_first)]) == tuple(range(rank))
    assert to_last[-1] == 1 and to_first[1] == rank - 1
