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


SAMPLES = Sample("s0", {}, "user"), Sample("edge-large", {}, "edge")
SCORES, SATURATED = np.float32([[0.9, 0.5, 0.1]]), np.ones((1, 3), np.float32)
PLACES, OTHERS = np.array([[4, 7, 2]]), np.array([[1, 2, 3]])


@pytest.mark.parametrize(
    ("ordinary", "edge", "verdicts", "at_edge", "noted"),
    [
        (PLACES, OTHERS, {"identical"}, "unverified", True),
        (OTHERS, OTHERS, {"break"}, "unverified", False),
        (PLACES, -OTHERS, {"identical", "break"}, "break", False),
    ],
)
def test_edge_inputs_that_tell_nothing_take_nothing_from_the_others(ordinary, edge, verdicts, at_edge, noted):
    """All scores are 1 there: which of them are the first three is anybody's choice, though no place is below 0."""
    ours = {"s0": run({"v": SCORES, "i": PLACES}), "edge-large": run({"v": SATURATED, "i": PLACES})}
    theirs = {"s0": run({"v": SCORES, "i": ordinary}), "edge-large": run({"v": SATURATED, "i": edge})}
    made = Audit(Options(target=("jax",)), lambda text: None, pool=Arrays(), samples=SAMPLES)
    shipped = Candidate("route", "jax", {}, "jax", ships=True)
    after = judge(made.add(candidates=(shipped,), reference_runs=ours, candidate_runs={"route/cpu": theirs}))
    measured = {row.value for row in after.measurements if (row.metric, row.subject) == ("output.verdict", "i")}
    assert measured == verdicts
    (row,) = [row for row in after.equivalence if (row.inputs, row.tensor) == ("edge-large", "i")]
    assert row.verdict == at_edge
    assert any("edge-large tells nothing of output i" in note for note in after.notes) is noted


def test_whatever_else_edge_inputs_cannot_tell_is_measured():
    """NaN everywhere on both sides there: no tie that anybody could choose between."""
    nan = np.full((1, 3), np.nan, np.float32)
    side = {"s0": run({"v": SCORES}), "edge-large": run({"v": nan})}
    made = Audit(Options(target=("jax",)), lambda text: None, pool=Arrays(), samples=SAMPLES)
    shipped = Candidate("route", "jax", {}, "jax", ships=True)
    after = judge(made.add(candidates=(shipped,), reference_runs=side, candidate_runs={"route/cpu": side}))
    edges = {row.verdict for row in after.equivalence if row.inputs == "edge-large"}
    assert set(told(after, "output.verdict")) == {"identical", *edges}
    assert not any("tells nothing" in note for note in after.notes)


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


def level_of(reference, disable, other):
    shipped = Candidate("file", "onnxruntime", {}, "onnx", ships=True)
    made = Audit(Options(), lambda text: None, pool=Arrays(), samples=(Sample("s0", {}, "user"),))
    runs = {"file/level:disable": {"s0": run({"y": disable})}, "file/level:all": {"s0": run({"y": other})}}
    audit = judge(made.add(candidates=(shipped,), reference_runs={"s0": reference}, candidate_runs=runs))
    (level,) = [row for row in audit.measurements if row.metric == "levels.verdict"]
    return level.value


def test_levels_that_write_a_complex_output_in_pairs_have_the_floor_of_the_reference():
    """The reference lies 4e-3 from its oracle in one part: a quarter of that is noise, ten times as much is not."""
    exact = np.array([[0.5 + 1.5j, 1.25 - 2j]])
    own = run({"y": (exact + 4e-3).astype(np.complex64)}, oracle={"y": {"array": exact}})
    plain = np.float32([[[0.504, 1.5], [1.254, -2.0]]])
    moved = np.float32([[[0.001, 0.0], [0.0, 0.0]]])
    assert level_of(own, plain, plain) == "identical"
    assert level_of(own, plain, plain + moved) == "noise"
    assert level_of(own, plain, plain + 40 * moved) in {"drift", "break"}


def test_levels_of_complex_numbers_are_unverified():
    numbers = np.array([0.5 + 1.5j], np.complex64)
    assert level_of(run({"y": numbers}), numbers, numbers) == "unverified"


@pytest.mark.parametrize("pairs", [False, True])
def test_an_output_beside_a_complex_one_is_compared_all_the_same(pairs):
    numbers = np.array([[0.5 + 1.5j, 2j]], np.complex64)
    own, real = {"a": numbers, "b": np.float32([[1.0, -2.0]])}, np.float32([[[0.5, 1.5], [0.0, 2.0]]])
    exact = {"a": {"array": numbers.astype(np.complex128)}, "b": {"array": np.float64([[1.0, -2.0]])}}
    reference = run(own, oracle=exact, perturbed=({name: {"array": array} for name, array in own.items()},))
    other = {"y0": real if pairs else numbers, "y1": np.float32([[1.0, 2.0]])}
    rows = {row.tensor: row for row in judged(reference, run(other)).equivalence}
    assert {name: row.verdict for name, row in rows.items()} == {"a": "unverified", "b": "break"}
    assert "output a is complex64" in rows["a"].reason
