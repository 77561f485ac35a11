"""One row of edge values beside the batch of them, on a pool that knows what each run gives."""

import numpy as np
import pytest

from tensoraudit.audit.alone import run_alone
from tensoraudit.audit.state import Audit, Run, Sample, Side
from tensoraudit.options import Options
from tensoraudit.probes.outcome import Outcome

BATCH = {"x": {"0": "batch"}}


class Workers:
    """Keeps arrays, and answers a run with what `model` makes of the rows that it is given."""

    def __init__(self, model):
        self.model, self.arrays, self.asked = model, [], []

    def put(self, array):
        self.arrays.append(array)
        return {"file": len(self.arrays) - 1}

    def get(self, ref):
        return self.arrays[ref["file"]]

    def outputs(self, arrays):
        return {name: self.put(array) for name, array in self.model(arrays).items()}

    def run(self, role, job, params):
        self.asked.append((job, params))
        rows = [
            {"input": each["name"], "outputs": self.outputs({n: self.get(r) for n, r in each["arrays"].items()})}
            for each in params["inputs"]
        ]
        return Outcome("ok", {"runs": rows})


def audit_of(model, samples, dynamic=BATCH):
    pool = Workers(model)
    runs = {each.name: Run(each.name, pool.outputs(each.arrays), {}, perturbed=({},)) for each in samples}
    side = Side("pytorch", "pytorch.run", {}, "pytorch/cpu")
    return Audit(
        Options(), lambda text: None, pool=pool, reference=side, samples=samples, reference_runs=runs, dynamic=dynamic
    )


def edge(rows, kind="edge"):
    return Sample("edge-zeros", {"x": np.full((rows, 3), 0.5, np.float32)}, kind)


def drifting(arrays):
    """A model whose rounding depends on the size of the batch, with one output that has no batch."""
    rows = len(arrays["x"])
    return {"y": arrays["x"] + np.float32(0.25 * (rows > 1)), "table": np.arange(4.0)}


def test_what_a_row_alone_gives_counts_as_a_moved_run():
    before = audit_of(drifting, (edge(3),))
    run = run_alone(before).reference_runs["edge-zeros"]
    draw = {name: before.pool.get(ref) for name, ref in run.perturbed[-1].items()}
    assert len(run.perturbed) == 2
    assert np.array_equal(draw["y"], np.full((3, 3), 0.5)) and np.array_equal(draw["table"], np.arange(4.0))
    ((_, params),) = before.pool.asked
    assert (params["perturbations"], params["oracle"], params["repeat"]) == (0, False, 1)


@pytest.mark.parametrize(
    ("sample", "dynamic"),
    [
        (edge(1), BATCH),
        (edge(3, "random"), BATCH),
        (edge(3), {}),
        (Sample("edge-zeros", {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}, "edge"), BATCH),
    ],
)
def test_one_row_other_sets_and_rows_that_differ_are_left(sample, dynamic):
    before = audit_of(drifting, (sample,), dynamic)
    assert run_alone(before) is before and not before.pool.asked


def test_a_row_that_the_reference_refuses_says_nothing():
    before = audit_of(drifting, (edge(2),))
    before.pool.run = lambda role, job, params: Outcome("crashed", None, "gone")
    assert run_alone(before).reference_runs == before.reference_runs
