"""Edge values once more in a batch of one: noise that inputs moved by one ULP cannot show.

Zeros do not move, and a model may be at its worst there (logarithms divided by a range that is 0 or one unit in the
last place). All rows of such an input set are equal, so whatever a model does with its batch, each row of its answer is
that of a row alone; what differs is rounding, and counts in the noise floor like a run with moved inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tensoraudit.audit.execute import usable_samples
from tensoraudit.audit.probing import read_runs, wire
from tensoraudit.audit.samples import batch_labels
from tensoraudit.audit.state import Audit, Run, Sample
from tensoraudit.probes.pool import Pool


def run_alone(audit: Audit) -> Audit:
    """Run one row of every usable edge set by the reference, and add what differs to the moved runs of the set."""
    samples = [alone for sample in usable_samples(audit) if (alone := _alone(sample, audit.dynamic)) is not None]
    if not samples or audit.reference is None or audit.pool is None:
        return audit
    params = {
        **audit.reference.params,
        "inputs": [wire(audit.pool, sample) for sample in samples],
        "repeat": 1,
        "oracle": False,
        "perturbations": 0,
        "seed": audit.options.seed,
    }
    rows = read_runs(audit.pool.run(audit.reference.role, audit.reference.job, params).result)
    return audit.add(reference_runs=dict(_widened(audit.pool, audit.reference_runs, rows)))


def _alone(sample: Sample, dynamic: Mapping[str, Mapping[str, str]]) -> Sample | None:
    """The first row of an edge set; None for other sets, and where there is one row alone or the rows differ."""
    labels = batch_labels({name: dict(each) for name, each in dynamic.items()})
    axes = {name: int(axis) for name, each in dynamic.items() for axis, label in each.items() if label in labels}
    arrays = {name: sample.arrays[name] for name in axes if isinstance(sample.arrays.get(name), np.ndarray)}
    rows = {name: array.take([0], axis=axes[name]) for name, array in arrays.items()}
    if sample.kind != "edge" or all(array.shape[axes[name]] == 1 for name, array in arrays.items()):
        return None
    if not all(np.array_equal(array, np.broadcast_to(rows[name], array.shape)) for name, array in arrays.items()):
        return None
    return replace(sample, arrays={**sample.arrays, **rows})


def _widened(pool: Pool, runs: Mapping[str, Run], rows: Mapping[str, Run]) -> Iterator[tuple[str, Run]]:
    for name, row in rows.items():
        run = runs[name]
        if not row.error and row.outputs.keys() == run.outputs.keys():
            draw = {output: _repeated(pool, ref, row.outputs[output]) for output, ref in run.outputs.items()}
            yield name, replace(run, perturbed=(*run.perturbed, draw))


def _repeated(pool: Pool, whole: Mapping[str, Any], row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer of a row, once for each row of the batch; the whole answer where it has no such axis."""
    wanted, found = pool.get(whole), pool.get(row)
    same_rank = wanted.ndim == found.ndim and not whole.get("logical")
    axes = [axis for axis in range(wanted.ndim) if wanted.shape[axis] != found.shape[axis]] if same_rank else []
    if len(axes) != 1 or found.shape[axes[0]] != 1:
        return whole
    reference: Mapping[str, Any] = pool.put(np.repeat(found, wanted.shape[axes[0]], axis=axes[0]))
    return reference
