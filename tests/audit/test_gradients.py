"""Gradients through the whole step with real workers: right ports stay silent, planted faults are found and named."""

import os
from pathlib import Path

import pytest

from tensoraudit.audit.gradients import measure_gradients
from tensoraudit.options import Options
from tensoraudit.pipeline import SCAN
from tensoraudit.probes.limits import Limits
from tensoraudit.probes.pool import Pool
from tensoraudit.steps import new_audit, run_steps

FOLDER = Path(__file__).parents[2] / "fixtures" / "gradients"
FILES = {"pytorch": "torch_models.py", "tensorflow": "keras_models.py", "jax": "flax_models.py"}
INPUTS = {
    "mlp": "x:float32[4,6]",
    "cnn": "x:float32[3,2,8,8]",
    "gru": "x:float32[3,6,5]",
    "attention": "ids:int64[3,6]",
}
PASSES = {"identical", "equivalent", "noise"}
VARIABLES = {"tensorflow": "TENSORAUDIT_TF_PYTHON", "jax": "TENSORAUDIT_JAX_PYTHON"}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(os.environ.get(each) for each in VARIABLES.values()),
        reason=f"set {' and '.join(VARIABLES.values())} (requirements/frameworks.txt)",
    ),
]


@pytest.fixture(scope="module")
def pool():
    python = {name: os.environ[variable] for name, variable in VARIABLES.items()}
    with Pool(Limits(timeout=600, memory=8 << 30), python) as workers:
        yield workers


@pytest.fixture(scope="module")
def audit(pool):
    """The result of an audit with --gradients of one model, or of two, each `framework:name`; kept."""
    known = {}

    def call(reference, candidate="", **options):
        key = (reference, candidate, *options.items())
        if key not in known:
            kind = reference.partition("make_")[2].partition("_")[0]
            named = [
                f"{FOLDER / FILES[each.partition(':')[0]]}:{each.partition(':')[2]}"
                for each in (reference, candidate)
                if each
            ]
            chosen = Options(gradients=True, input=(INPUTS[kind],), **options)
            known[key] = run_steps(SCAN, new_audit(chosen, *named).add(pool=pool))
        return known[key]

    return call


def rows(result):
    return [row for row in result.equivalence if row.what == "gradient"]


def failing(result):
    return {row.tensor: row.reason for row in rows(result) if row.verdict not in PASSES}


def reported(result, state="confirmed"):
    """The gradient rules that speak, with what they speak of."""
    names = {f"EQV-{number:03}" for number in range(11, 19)}
    return {(each.rule, each.where.tensor) for each in result.findings if each.rule in names}


def test_the_step_stands_in_the_pipeline():
    names = [step.__name__ for step in SCAN]
    assert measure_gradients in SCAN
    assert names.index("run_candidates") < names.index("measure_gradients") < names.index("match_and_settle")


COUNTS = {"mlp": 7, "cnn": 7, "gru": 7, "attention": 9}
"""Gradients of each PyTorch model: its parameters, and its input where that is floating."""


@pytest.mark.parametrize("kind", COUNTS)
@pytest.mark.parametrize("other", ["tensorflow", "jax"])
def test_a_port_by_hand_has_the_same_gradients(audit, other, kind):
    result = audit(f"pytorch:make_{kind}", f"{other}:make_{kind}")
    assert len(rows(result)) == 2 * COUNTS[kind], "two input sets"
    assert (failing(result), reported(result)) == ({}, set())
    assert all("against double precision" in row.reason or row.verdict == "identical" for row in rows(result))


def test_other_references_have_the_same_gradients_too(audit):
    """Flax keeps the gates of a GRU apart, Keras stacks them: parameter by parameter they agree."""
    result = audit("jax:make_gru", "tensorflow:make_gru")
    assert {row.tensor for row in rows(result)} >= {f"params/gru/{gate}/kernel" for gate in ("ir", "iz", "in", "hn")}
    assert (failing(result), reported(result)) == ({}, set())
    result = audit("tensorflow:make_mlp", "pytorch:make_mlp")
    assert (failing(result), reported(result)) == ({}, set())


BEFORE = {"input:x", "first.weight", "first.bias"}
"""What lies before the planted faults."""


@pytest.mark.parametrize("other", ["tensorflow", "jax"])
@pytest.mark.parametrize(
    ("fault", "tensors", "rules"),
    [
        ("cut", BEFORE, {"EQV-014"}),
        ("wrong", BEFORE, {"EQV-011", "EQV-012"}),
        ("scaled", BEFORE, {"EQV-011", "EQV-012"}),
        ("unused", {"last.bias"}, {"EQV-014"}),
    ],
)
def test_a_fault_in_the_port_is_found_and_named(audit, other, fault, tensors, rules):
    result = audit("pytorch:make_mlp", f"{other}:make_mlp_{fault}")
    assert set(failing(result)) == tensors
    found = reported(result)
    assert {tensor for _, tensor in found} == tensors and {rule for rule, _ in found} <= rules
    outputs = [row for row in result.equivalence if row.what == "output"]
    assert {row.verdict for row in outputs} <= PASSES, "the outputs show nothing of it"


def test_a_missing_gradient_says_where_it_is_held_back(audit):
    reason = failing(audit("pytorch:make_mlp", "jax:make_mlp_cut"))["first.weight"]
    assert "held back by stop_gradient at" in reason and "flax_models.py:" in reason
    reason = failing(audit("pytorch:make_mlp", "tensorflow:make_mlp_unused"))["last.bias"]
    assert "the model does not use it" in reason


def test_a_fault_of_the_reference_is_found_by_finite_differences(audit):
    """The gradients of the reference are wrong, those of the port right: both are said."""
    result = audit("pytorch:make_mlp_wrong", "jax:make_mlp")
    assert {("EQV-017", name) for name in BEFORE} <= reported(result)
    assert set(failing(result)) == BEFORE


def test_with_onnx_as_the_target_the_reference_is_checked_all_the_same(audit):
    result = audit("pytorch:make_mlp_wrong", target=("onnx",))
    assert reported(result) == {("EQV-017", name) for name in BEFORE}
    (row,) = [each for each in result.probes if each.name == "gradients" and each.status == "unsupported"]
    assert row.required and row.target == "onnx" and "the forward pass only" in row.reason
    assert result.grade["onnx"].endswith("?")
    assert [each.status for each in result.probes if each.name == "gradients"] == ["unsupported", "ok"]


def test_a_gradient_held_back_on_purpose_is_a_note(audit):
    result = audit("pytorch:make_mlp_scaled", target=("onnx",))
    found = [each for each in result.findings if each.rule == "EQV-018"]
    assert {each.where.tensor for each in found} == BEFORE and {str(each.state) for each in found} == {"advice"}
    assert all("detached (detach at" in each.message for each in found)


def test_without_the_option_nothing_is_differentiated(pool):
    chosen = Options(input=(INPUTS["mlp"],))
    result = run_steps(SCAN, new_audit(chosen, f"{FOLDER / FILES['pytorch']}:make_mlp").add(pool=pool))
    assert not [each for each in result.probes if each.name.startswith("gradients")] and not rows(result)
