"""The step of an audit: which candidates are looked at, by names or by values, and what the rows say."""

import sys
from dataclasses import replace
from pathlib import Path
from runpy import run_path

import pytest

from tensoraudit.audit.execute import run_candidates, run_reference
from tensoraudit.audit.judge import judge
from tensoraudit.audit.localise import localise
from tensoraudit.audit.prepare import choose_samples, describe_reference, identify_artifacts, start_workers
from tensoraudit.audit.state import Candidate
from tensoraudit.options import make_options
from tensoraudit.probes.pool import Pool
from tensoraudit.steps import new_audit

sys.path.append(str(Path(__file__).parent))
from localise_graphs import write_small

FILE = Path(__file__).parents[2] / "fixtures" / "localise" / "small_models.py"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """An audit with three shipping candidates, one right and two wrong in different places."""
    folder = tmp_path_factory.mktemp("ports")
    model = run_path(str(FILE))["make_small"]()
    options = make_options({"input": ["image:float32[2,3,11,13]"], "reproducer": str(folder / "reproducer")})
    with Pool(threads=1) as pool:
        audit = new_audit(replace(options, root=FILE.parent), f"{FILE}:make_small").add(pool=pool)
        for prepare in (identify_artifacts, start_workers, describe_reference, choose_samples):
            audit = prepare(audit)
        faults = {"right": {}, "epsilon": {"epsilon": 1e-5}, "weight": {"scale": 1.01}}
        paths = {name: write_small(model, folder / f"{name}.onnx", **fault) for name, fault in faults.items()}
        candidates = tuple(
            Candidate(name, "onnxruntime", {"path": str(path)}, "onnx", True, path, inputs=("img",))
            for name, path in paths.items()
        )
        audit = audit.add(candidates=candidates)
        for step in (run_reference, run_candidates, judge):
            audit = step(audit)
        yield localise(audit)


def test_every_shipping_candidate_that_fails_is_looked_at(judged):
    found = {name: first.candidate_node for name, first in judged.divergences.items()}
    assert found == {"epsilon": "n1", "weight": "n3"}
    assert [row.status for row in judged.probes if row.name == "localise"] == ["ok", "ok"]


def test_the_rows_carry_both_sides_lines_errors_and_a_reproducer(judged):
    first = judged.divergences["weight"]
    assert first.reference_node == "inner (aten.convolution.default)"
    path, _, line = first.source_line.partition(":")
    assert path == "small_models.py" and "self.inner(x)" in FILE.read_text().splitlines()[int(line) - 1]
    assert first.local_error == pytest.approx(first.cumulative_error, rel=1e-3)
    assert first.local_error > 1e-4
    assert {file.name for file in Path(first.reproducer).iterdir()} >= {"model.onnx", "inputs.npz", "expected.npz"}
    rows = [row for row in judged.equivalence if row.first_divergence == first]
    assert rows and all(row.candidate.startswith("weight@") and row.verdict in {"drift", "break"} for row in rows)


def test_the_error_of_the_operation_alone_is_measured(judged):
    measured = {row.subject: row.value for row in judged.measurements if row.metric == "node.local_error_ratio"}
    assert measured.keys() == {"n1", "n3"} and min(measured.values()) > 8


def test_a_candidate_that_cannot_be_traced_is_said_to_be(judged):
    row = next(
        row for row in judged.equivalence if row.candidate.startswith("weight@") and row.verdict in {"drift", "break"}
    )
    other = replace(judged.candidates[2], name="other", framework="python", label="onnxruntime/cpu")
    audit = replace(
        judged, candidates=(other,), probes=(), equivalence=(replace(row, candidate="other@onnxruntime/cpu"),)
    )
    probes = localise(audit).probes
    assert [(probe.name, probe.status) for probe in probes] == [("localise", "unsupported")]
    assert "does not trace" in probes[0].reason
