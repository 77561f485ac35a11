"""The table of modes: what runs as evidence, on which input sets, and what is said of a difference."""

from dataclasses import replace

import numpy as np
import pytest

from tensoraudit.audit.frameworks import FRAMEWORKS
from tensoraudit.audit.modes import MODES, mode_candidates, mode_notes, run_modes
from tensoraudit.audit.state import Audit, Candidate, Sample, Side
from tensoraudit.findings.result import Equivalence
from tensoraudit.options import Options
from tensoraudit.probes.outcome import Outcome

SAMPLES = [Sample(f"s{n}", {"x": np.full(3, n, np.float32)}, "random") for n in range(4)]


class Workers:
    """Answers every job with the first run, and remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def put(self, array):
        return {"file": "x", "shape": list(array.shape)}

    def run(self, role, job, params):
        self.asked.append((role, job, params))
        runs = [{"input": each["name"], "outputs": {}, "repeat": {}} for each in params["inputs"]]
        return Outcome("ok", {"runs": runs})


@pytest.fixture
def workers():
    return Workers()


@pytest.fixture
def audit(workers):
    def of(role, job="run", target="onnx"):
        side = Side(role, f"{role.partition(':')[0]}.{job}", {"model": "m"}, f"{role}/cpu")
        return Audit(Options(target=(target,)), lambda text: None, pool=workers, reference=side)

    return of


def test_every_mode_belongs_to_a_worker_and_one_ships_at_most():
    roles = {row.role for row in FRAMEWORKS.values() if row.role}
    assert set(MODES) <= roles
    assert all(sum(mode.ships for mode in modes) <= 1 for modes in MODES.values())


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("tensorflow", [{"mode": "eager"}, {"mode": "xla"}]),
        ("jax", [{"jit": False}]),
        ("jax:source", [{"jit": False}]),
        ("pytorch", []),
        ("onnxruntime", [{"limit": 60.0}]),
    ],
)
def test_modes_run_as_evidence_on_the_first_two_input_sets(audit, workers, role, expected):
    after = run_modes(audit(role), SAMPLES)
    assert [
        {key: params[key] for key in more} for (_, _, params), more in zip(workers.asked, expected, strict=True)
    ] == (expected)
    assert all(asked == role and params["model"] == "m" for asked, _, params in workers.asked)
    assert all([each["name"] for each in params["inputs"]] == ["s0", "s1"] for _, _, params in workers.asked)
    assert all(params["oracle"] is False and params["perturbations"] == 0 for _, _, params in workers.asked)
    assert len(after.candidates) == len(expected) and not any(each.ships for each in after.candidates)
    assert not any(row.required for row in after.probes)


def test_the_numpy_evaluator_is_a_witness_under_its_own_name(audit, workers):
    after = run_modes(audit("onnxruntime"), SAMPLES)
    assert [job for _, job, _ in workers.asked] == ["onnxruntime.reference"]
    (candidate,) = after.candidates
    assert (candidate.name, candidate.label) == ("numpy", "onnx.reference/cpu")
    assert set(after.candidate_runs) == {"numpy/cpu"}


def test_the_evaluator_is_no_witness_of_itself(audit, workers):
    run_modes(audit("onnxruntime", job="reference"), SAMPLES)
    assert workers.asked == []


@pytest.mark.parametrize(
    ("role", "names", "ships"),
    [
        ("pytorch", ["compiled"], "compiled"),
        ("tensorflow", ["eager", "xla"], "xla"),
        ("jax", ["eager"], "eager"),
        ("onnxruntime", [], None),
    ],
)
def test_modes_are_the_candidates_of_a_model_that_stays_where_it_is(audit, workers, role, names, ships):
    found = mode_candidates(audit(role, target=role), role)
    assert [each.name for each in found] == names
    assert next((each.name for each in found if each.ships), None) == ships
    after = run_modes(audit(role, target=role).add(candidates=found), SAMPLES)
    assert [job for _, job, _ in workers.asked if job.endswith(".run")] == []
    assert after.candidates[: len(found)] == found


def row(candidate, verdict):
    return Equivalence("tensorflow/cpu", candidate, "output", "y", "s0", verdict, reason="because")


def test_a_difference_is_a_note_and_agreement_is_none(audit):
    twins = [Candidate(name, "tensorflow", {}, "onnx", ships=False) for name in ("eager", "xla")]
    rows = (row("eager@tensorflow/cpu", "noise"), row("xla@tensorflow/cpu", "break"), row("tf2onnx@x/cpu", "break"))
    told = audit("tensorflow").add(candidates=tuple(twins), equivalence=rows)
    assert list(mode_notes(told)) == ["the reference gives other results compiled by XLA (y on s0): because"]
    shipping = replace(told, candidates=(twins[0], replace(twins[1], ships=True)))
    assert list(mode_notes(shipping)) == []  # then it is a finding
