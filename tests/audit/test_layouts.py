from dataclasses import replace

import numpy as np
import pytest

from tensoraudit.audit.layouts import as_candidate, as_reference, output_pairs
from tensoraudit.audit.ported import _with_outputs, convention
from tensoraudit.audit.state import Candidate, Run, Sample
from tensoraudit.options import make_options
from tensoraudit.probes.pool import Pool
from tensoraudit.steps import new_audit

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


def test_a_namesake_keeps_its_place_where_another_has_none():
    sample = Sample("s", {"ids": X, "mask": X[0]}, "user")
    arrays = as_candidate(candidate(), ["mask", "tokens"], sample).arrays
    assert arrays["tokens"] is X and arrays["mask"].shape == X[0].shape


def test_a_map_that_exchanges_two_names_goes_before_namesakes():
    sample = Sample("s", {"a": X, "b": X[0]}, "user")
    arrays = as_candidate(candidate(inputs=("b", "a")), ["a", "b"], sample).arrays
    assert arrays["b"] is X and arrays["a"].shape == X[0].shape


SPACE = np.random.default_rng(2).standard_normal((2, 3, 5, 7))
PAIRS = np.random.default_rng(2).standard_normal((2, 5, 5))


@pytest.mark.parametrize(
    ("given", "orders", "reference", "own", "turned"),
    [
        (X[0, 0], {}, PAIRS, PAIRS.transpose(0, 2, 1), False),
        (X, {"a": (0, 2, 3, 1)}, PAIRS, PAIRS.transpose(0, 2, 1), False),
        (PAIRS, {"a": (0, 2, 1)}, PAIRS, PAIRS.transpose(0, 2, 1), True),
        (X[0, 0], {}, SPACE, SPACE.transpose(0, 2, 3, 1), True),
        (X, {}, SPACE, SPACE.transpose(0, 2, 3, 1), False),
    ],
    ids=["pairs-of-ids", "pairs-of-an-image", "sequence", "image-of-a-vector", "image-as-it-is"],
)
def test_an_output_is_turned_only_as_an_input_was(tmp_path, given, orders, reference, own, turned):
    with Pool() as pool:
        audit = new_audit(make_options({}, folder=tmp_path), "x").add(pool=pool)
        runs = {"s": Run("s", {"y": pool.put(reference)}, {})}
        audit = replace(audit, reference_runs=runs)
        tried = candidate(layouts={"inputs": orders})
        found = _with_outputs(audit, tried, Sample("s", {"a": given}, "user"), {"y": own}, to_last=True)
    assert bool(found.layouts.get("outputs")) is turned


def test_a_flag_that_a_converter_made_part_of_the_model_is_left_out():
    sample = Sample("s", {"train": {"value": False}, "x": X}, "user")
    assert list(as_candidate(candidate(inputs=("args_0",)), ["args_0"], sample).arrays) == ["args_0"]
