import pytest

from tensoraudit.audit.rows import probe_row
from tensoraudit.probes.outcome import Outcome


@pytest.mark.parametrize(
    ("label", "extra", "role"),
    [
        ("tensorflow", "tensoraudit[tensorflow]", "tensorflow"),
        ("tflite/cpu", "tensoraudit[tflite]", "litert"),
        ("litert", "tensoraudit[tflite]", "litert"),
        ("onnxruntime/cuda", "tensoraudit[onnx]", "onnxruntime"),
    ],
)
def test_a_framework_that_is_not_installed_is_named_with_what_to_do(label, extra, role):
    row = probe_row("run", label, "cpu", Outcome("missing", None, "No module named 'x'"))
    assert row.reason == (
        f"No module named 'x': pip install '{extra}', or name a Python that has it: --python {role}=PATH"
    )


@pytest.mark.parametrize(
    "outcome", [Outcome("missing", None, "no CUDA device"), Outcome("failed", None, "No module named 'x'")]
)
def test_other_reasons_stay_as_they_are(outcome):
    assert probe_row("run", "jax", "cpu", outcome).reason == outcome.reason
