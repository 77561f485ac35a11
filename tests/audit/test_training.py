"""The step measure_training: when it runs, what it makes of every end of the job, and that it changes nothing else."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.artifacts.artifact import Artifact
from tensoraudit.audit.conclude import conclude, match_and_settle
from tensoraudit.audit.execute import run_reference
from tensoraudit.audit.observe import collect_facts
from tensoraudit.audit.prepare import choose_samples, describe_reference, identify_artifacts
from tensoraudit.audit.state import Audit, Run, Sample, Side
from tensoraudit.audit.training import JITTER, measure_training, rows_of
from tensoraudit.extract.python_source import read_python_text
from tensoraudit.language.load import RuleSet, parse_rules
from tensoraudit.options import Options
from tensoraudit.pipeline import SCAN, run
from tensoraudit.probes.limits import Limits
from tensoraudit.probes.outcome import Outcome
from tensoraudit.probes.pool import Pool
from tensoraudit.steps import LINT, new_audit

RULE = """
id: TST-001
title: A region forgets its random state
severity: critical
layer: graph
source: [pytorch]
certainty: suspected
match:
  call: torch.utils.checkpoint.checkpoint
message: m
why: w
remedy: r
confirm:
  probe: training
  confirmed: {measurement: training.gradient_verdict, value: [drift, break]}
  refuted:
    all:
      - {measurement: training.gradient_verdict, value: [identical, equivalent, noise], quantifier: every}
      - {measurement: training.gradients_missing, value: 0, quantifier: every}
examples:
  - python: |
      from torch.utils.checkpoint import checkpoint
      checkpoint(f, x)  # suspect
  - python: |
      f(x)
"""

MODEL = """
import os
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    p = 0.5

    def __init__(self):
        super().__init__()
        self.block, self.norm = nn.Sequential(nn.Linear(4, 32), nn.Dropout(self.p), nn.Linear(32, 4)), nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(checkpoint(self.block, x, use_reentrant=False, preserve_rng_state=False))


class Quiet(Net):
    p = 0.0


class Dies(Quiet):
    def forward(self, x):
        if self.training:
            os.abort()
        return super().forward(x)


class Sleeps(Quiet):
    def forward(self, x):
        while self.training:
            pass
        return super().forward(x)


class Labels(Quiet):
    def forward(self, x):
        if self.training:
            raise ValueError("labels are required")
        return super().forward(x)


def Handed():
    return Net().eval()


def sample_inputs():
    return (torch.linspace(-1, 1, 24).reshape(6, 4),)
"""

CODE = "from torch.utils.checkpoint import checkpoint\ny = checkpoint(f, x)\n"


def rules(text=RULE):
    found, problems = parse_rules(text)
    assert not problems
    return RuleSet(tuple(found))


@dataclass
class FakePool:
    """A pool whose jobs end as told."""

    outcome: Outcome
    cuda: Outcome | None = None
    jobs: list = field(default_factory=list)

    def run(self, role, job, params):
        self.jobs.append((role, job, params["device"]))
        return self.cuda if params["device"] == "cuda" and self.cuda else self.outcome

    def hello(self, role):
        kinds = ["cpu", "cuda"] if self.cuda else ["cpu"]
        return Outcome("ok", {"devices": [{"kind": kind} for kind in kinds], "inactive": {"cuda": "no driver"}})

    def put(self, array):
        return {"file": "x"}

    def discard(self, value):
        pass


def audit_of(pool, *, code=CODE, device="cpu", role="pytorch", text=RULE, error="", kind="user"):
    array = np.ones((2, 3), np.float32)
    return Audit(
        options=Options(device=device),
        progress=lambda text: None,
        pool=pool,
        artifact=Artifact("m.py:f", "python_object", "pytorch"),
        facts=tuple(read_python_text(code).facts),
        rules=rules(text),
        samples=(Sample("edge", {"x": array}, "edge"), Sample("given", {"x": array}, kind)),
        reference=Side(role, "pytorch.run", {"model": {}}, "pytorch/cpu"),
        reference_runs={name: Run(name, {}, {}, error=error) for name in ("edge", "given")},
    )


OK = Outcome(
    "ok",
    {
        "rows": [
            ["training.status", "model", "ok", ""],
            ["training.regions", "model", 4, ""],
            ["training.peak_memory_ratio", "model", 0.354, ""],
            ["training.flops_ratio", "model", 1.218, ""],
            ["training.time_ratio", "model", 1.3, ""],
        ],
        "pairs": [],
    },
)


def test_rows_become_measurements_and_the_trade_a_note():
    pool = FakePool(OK)
    audit = measure_training(audit_of(pool))
    assert pool.jobs == [("pytorch", "pytorch.training", "cpu")]
    assert {(row.metric, row.value, row.side, row.target) for row in audit.measurements} >= {
        ("training.status", "ok", "source", ""),
        ("training.regions", 4, "source", ""),
    }
    assert [(row.name, row.status) for row in audit.probes] == [("training", "ok")]
    assert audit.notes == (
        "checkpointing: 4 regions, peak 35% of the memory of a step without it, +22% floating-point operations, "
        "1.3 times as long (often quoted: 40% of the memory for 25% more operations)",
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"code": "x = 1\n"},
        {"role": "onnxruntime"},
        {"text": RULE.replace("torch.utils.checkpoint.checkpoint\n", "torch.load\n", 1)},
        {
            "text": RULE.replace("training.gradient_verdict", "output.verdict").replace(
                "probe: training", "probe: outputs"
            )
        },
    ],
)
def test_nobody_pays_where_no_rule_asks(changes):
    pool = FakePool(OK)
    audit = audit_of(pool, **changes)
    assert measure_training(audit) is audit
    assert pool.jobs == []


def test_without_a_pool_nothing_happens():
    audit = audit_of(None)
    assert measure_training(audit) is audit


@pytest.mark.parametrize(
    ("outcome", "row"),
    [
        (Outcome("crashed", reason="killed by SIGABRT"), ("crashed", "killed by SIGABRT")),
        (Outcome("timeout", reason="took longer than 600 s"), ("timeout", "took longer than 600 s")),
        (Outcome("unsupported", reason="no graph"), ("unsupported", "no graph")),
        (Outcome("failed", reason="cannot be loaded"), ("failed", "cannot be loaded")),
        (
            Outcome("ok", {"rows": [["training.status", "model", "unsupported", "needs labels"]], "pairs": []}),
            ("unsupported", "needs labels"),
        ),
    ],
)
def test_a_step_that_was_not_taken_is_a_probe_with_its_reason(outcome, row):
    audit = measure_training(audit_of(FakePool(outcome)))
    assert [(each.status, each.reason) for each in audit.probes] == [row]
    assert not [each for each in audit.measurements if each.metric != "training.status"]
    assert audit.notes == ()


def test_no_input_set_that_the_model_takes():
    audit = measure_training(audit_of(FakePool(OK), error="ValueError: no"))
    assert [(row.status, row.reason) for row in audit.probes] == [("failed", "the model accepts no input set")]


def test_edge_values_are_no_training_data():
    audit = measure_training(audit_of(FakePool(OK), kind="edge"))
    assert [row.status for row in audit.probes] == ["failed"]


def test_cuda_where_it_was_asked_for():
    audit = measure_training(audit_of(FakePool(OK), device="cuda"))
    assert [(row.device, row.status, row.reason) for row in audit.probes] == [
        ("cpu", "ok", ""),
        ("cuda", "missing", "no driver"),
    ]
    pool = FakePool(OK, cuda=OK)
    audit = measure_training(audit_of(pool, device="cuda"))
    assert [device for _, _, device in pool.jobs] == ["cpu", "cuda"]
    assert [row.detail for row in audit.measurements if row.metric == "training.status"] == ["", "cuda: "]
    assert audit.notes[1].startswith("checkpointing on cuda: 4 regions")


def pair(candidate, repeat, perturbed=()):
    reference = np.linspace(1, 2, 8, dtype=np.float32)
    return {
        "metric": "training.gradient_verdict",
        "subject": "w",
        "reference": reference,
        "candidate": reference * np.float32(candidate),
        "repeat": reference * np.float32(repeat),
        "perturbed": [reference * np.float32(each) for each in perturbed],
        "logical": {"reference": None, "candidate": None},
        "detail": "d",
    }


def verdict(*given):
    ((metric, subject, value, detail),) = rows_of({"rows": [], "pairs": [pair(*given)]})
    assert (metric, subject) == ("training.gradient_verdict", "w")
    assert detail.startswith("d; ")
    return value


def test_verdicts_of_the_comparator():
    assert verdict(2.0, 1.0, [1.000001]) in {"drift", "break"}
    assert verdict(1.0000003, 1.0, [1.0000002]) == "equivalent"


def test_a_repeat_that_is_off_by_rounding_is_noise_and_one_that_is_off_by_more_forbids_a_verdict():
    assert verdict(1.0002, 1.0) == "drift"
    assert verdict(1.0002, 1.0001) == "noise"
    assert verdict(2.0, 1 + 0.9 * JITTER) in {"drift", "break"}
    assert verdict(1.0002, 1 + 2 * JITTER) == "unverified"
    assert verdict(2.0, 1.5, [1.4]) == "unverified"


def one_rule(audit):
    return audit.add(rules=rules())


SHORT = (
    identify_artifacts,
    one_rule,
    describe_reference,
    collect_facts,
    choose_samples,
    run_reference,
    measure_training,
    match_and_settle,
    conclude,
)
"""A scan without conversions, which take most of its time."""


def start(tmp_path: Path, name: str, **options):
    """An audit of a model in a file, since the worker reads it."""
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return new_audit(Options(root=tmp_path, **options), f"{path}:{name}")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "state"), [("Net", "confirmed"), ("Quiet", "refuted"), ("Handed", "confirmed")])
def test_a_rule_is_confirmed_and_refuted(tmp_path, name, state):
    result = run(SHORT, start(tmp_path, name))
    (finding,) = result.findings
    assert (finding.rule, finding.state.value) == ("TST-001", state)
    assert any(note.startswith("checkpointing: 1 region, peak ") for note in result.notes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [("Dies", "crashed", ""), ("Sleeps", "timeout", ""), ("Labels", "unsupported", "labels are required")],
)
def test_a_step_that_goes_wrong_loses_nothing_else_and_settles_nothing(tmp_path, name, status, reason):
    options = {"timeout": 20.0} if name == "Sleeps" else {}
    result = run(SHORT, start(tmp_path, name, **options))
    (finding,) = result.findings
    assert finding.state.value == "unverified" and f"probe training {status}" in finding.reason
    assert reason in finding.reason
    probes = {row.name: row.status for row in result.probes}
    assert (probes["training"], probes["reference.run"]) == (status, "ok")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Net", "Dies"])
def test_outputs_after_the_step_are_those_before_it(tmp_path, name):
    """In the same worker, and in the one that is started when the step has killed it."""
    with Pool(limits=Limits()) as pool:
        audit = start(tmp_path, name).add(pool=pool)
        for step in SHORT[: SHORT.index(measure_training)]:
            audit = step(audit)
        measured = measure_training(audit)
        assert len(measured.probes) == len(audit.probes) + 1
        after = run_reference(measured)
        assert audit.reference_runs.keys() == after.reference_runs.keys()
        for sample, before in audit.reference_runs.items():
            for output, reference in before.outputs.items():
                again = after.reference_runs[sample].outputs[output]
                assert np.array_equal(pool.get(reference), pool.get(again))
        assert pool.restarts("pytorch") == (1 if name == "Dies" else 0)


def test_a_scan_takes_the_step_after_the_reference_has_run_and_lint_never():
    assert SCAN.index(measure_training) == SCAN.index(run_reference) + 1
    assert measure_training not in LINT
