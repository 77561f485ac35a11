"""What is said beside the verdicts."""

import numpy as np
import pytest

from tensoraudit.audit.judge import constant_outputs, judge
from tensoraudit.audit.state import Audit, Candidate, Run, Sample
from tensoraudit.options import Options

TENTH = np.full((2, 10), 0.1, np.float32)


def test_an_output_that_nothing_moves_is_named():
    (note,) = constant_outputs([{"y": TENTH, "z": TENTH + np.arange(10)}, {"y": TENTH[:1], "z": TENTH}])
    assert note.startswith("output y is 0.1 in every element for every input set")


def test_an_output_that_is_always_empty_is_named():
    (note,) = constant_outputs([{"y": np.zeros((0, 3))}, {"y": np.zeros((0, 3))}])
    assert note == "output y has no element for any input set, so that nothing of it is compared"


@pytest.mark.parametrize(
    "runs",
    [
        [],
        [{"y": TENTH}],
        [{"y": TENTH}, {"y": TENTH * 2}],
        [{"y": TENTH.astype(int)}, {"y": TENTH.astype(int)}],
        [{"y": np.float32([1])}, {"y": np.float32([1])}],
        [{"y": np.full(3, np.nan)}, {"y": np.full(3, np.nan)}],
        [{"y": np.zeros((0, 3))}, {"y": np.arange(3.0)}],
    ],
    ids=["none", "one set", "moved", "whole numbers", "one number each", "nan", "empty once"],
)
def test_others_are_not(runs):
    assert list(constant_outputs(runs)) == []


class Arrays:
    """A pool whose references are the arrays themselves."""

    def get(self, reference):
        return reference["array"]


def run(outputs, **more):
    refs = {name: {"array": array} for name, array in outputs.items()}
    return Run("s0", refs, more.pop("repeat", {}), **more)


def judged(reference, candidate):
    sample = Sample("s0", {}, "user")
    made = Audit(Options(target=("jax",)), lambda text: None, pool=Arrays(), samples=(sample,))
    shipped = Candidate("route", "jax", {}, "jax", ships=True)
    runs = {"route/cpu": {"s0": candidate}}
    return judge(made.add(candidates=(shipped,), reference_runs={"s0": reference}, candidate_runs=runs))


def told(audit, metric):
    return [row.value for row in audit.measurements if row.metric == metric]


def test_a_side_that_was_not_run_twice_is_not_called_deterministic():
    once = run({"y": TENTH})
    after = judged(once, once)
    assert not told(after, "candidate.deterministic") and not told(after, "reference.deterministic")


def test_a_second_run_that_fails_is_not_the_same_result():
    twice = run({"y": TENTH}, repeat={"y": {"array": TENTH}})
    after = judged(twice, run({"y": TENTH}, repeat_error="ValueError: only once"))
    assert told(after, "reference.deterministic") == [True]
    assert told(after, "candidate.deterministic") == [False]


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_numbers_that_cannot_be_compared_are_unverified_on_either_side(side):
    sides = {"reference": run({"y": TENTH}), "candidate": run({"y": TENTH})} | {side: run({"y": TENTH + 0j})}
    (row,) = judged(**sides).equivalence
    assert row.verdict == "unverified" and "complex64" in row.reason


def test_levels_have_the_floor_of_the_reference_whatever_the_file_calls_its_outputs():
    """A quarter of what one unit in the last place of the inputs moves is noise, though far over the tolerance."""
    exact = np.linspace(1, 2, 12).reshape(3, 4)
    plain, moved, other = (np.float32(exact + by) for by in (0, 4e-3, 1e-3))
    reference = run(
        {"contour": plain}, oracle={"contour": {"array": exact}}, perturbed=({"contour": {"array": moved}},)
    )
    sides = {"disable": run({"StatefulPartitionedCall:0": plain}), "all": run({"StatefulPartitionedCall:0": other})}
    made = Audit(Options(), lambda text: None, pool=Arrays(), samples=(Sample("s0", {}, "user"),))
    shipped = Candidate("file", "onnxruntime", {}, "onnx", ships=True)
    runs = {f"file/level:{name}": {"s0": each} for name, each in sides.items()}
    audit = judge(made.add(candidates=(shipped,), reference_runs={"s0": reference}, candidate_runs=runs))
    (level,) = [row for row in audit.measurements if row.metric == "levels.verdict"]
    assert (level.subject, level.value) == ("all", "noise")


def test_an_output_that_drifts_and_breaks_at_another_size_breaks():
    """Otherwise the table shows a break beside a finding that says drift; right at the first size, it is no fault."""
    one, many = np.float32([[3.0, 2.0]]), np.float32([[3.0, 2.0], [1.0, 1.0001]])
    turned = np.float32([[3.0, 2.001], [1.0002, 1.0001]])
    samples = (Sample("s0", {}, "user"), Sample("s1", {}, "size"))
    made = Audit(Options(target=("jax",)), lambda text: None, pool=Arrays(), samples=samples)
    shipped = Candidate("route", "jax", {}, "jax", ships=True)
    reference = {"s0": run({"y": one}), "s1": run({"y": many})}
    for first, verdict in ((one + np.float32([[0, 1e-3]]), "break"), (one, "identical")):
        runs = {"route/cpu": {"s0": run({"y": first}), "s1": run({"y": turned})}}
        audit = judge(made.add(candidates=(shipped,), reference_runs=reference, candidate_runs=runs))
        assert told(audit, "output.verdict") == [verdict]
