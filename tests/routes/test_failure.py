"""Real failures of both exporters: stage, operator, the user's line, the cause, and what to change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tensoraudit.probes.protocol import JobFailed
from tensoraudit.routes.causes import CAUSES
from tensoraudit.routes.failure import understand

SOURCE = (Path(__file__).parent / "models_that_fail.py").read_text(encoding="utf-8").splitlines()

TRIPLE = "tensoraudit_tests.triple"
CUSTOM = "torch.onnx.register_custom_op_symbolic"
TABLE = "custom_translation_table"
OTHER = "operators that ONNX has"
TRACER = "forward returns something that the tracer cannot carry"
FIXED = "dimension 0 of x was to vary, but the code fixes it to 3"
NUMBER = "returns a value that is no tensor"
BRANCH = "branches on a value that is known only when the model runs"

# model, route, stage, operator, a part of the cause, a part of the remedy
FAILURES = [
    ("Branch", "dynamo", "trace", "", BRANCH, "torch.where"),
    ("Loop", "dynamo", "trace", "", BRANCH, "torch.cond"),
    ("TryExcept", "dynamo", "trace", "", BRANCH, "torch.where"),
    ("Nonzero", "dynamo", "trace", "", BRANCH, "torch.where"),
    ("FrozenBatch", "dynamo", "trace", "", FIXED, "x.shape[0]"),
    ("FrozenComparison", "dynamo", "trace", "", FIXED, "x.shape[0]"),
    ("Packed", "dynamo", "trace", "", "packed sequence", "padded batch"),
    ("DataclassOutput", "dynamo", "trace", "", TRACER, "a tuple or a dict"),
    ("DataclassOutput", "torchscript", "trace", "", TRACER, "a tuple or a dict"),
    ("NumberOutput", "dynamo", "translate", "", NUMBER, "Return only tensors"),
    ("NumberOutput", "torchscript", "trace", "", NUMBER, "Return only tensors"),
    ("NoFake", "dynamo", "trace", "tensoraudit_tests::shapeless", "nothing says which shapes", "register_fake"),
    ("CustomOperator", "dynamo", "translate", f"{TRIPLE}.default", f"no ONNX translation for {TRIPLE}", TABLE),
    ("CustomOperator", "torchscript", "translate", "tensoraudit_tests::triple", "the custom operator", CUSTOM),
    ("SingularValues", "dynamo", "translate", "aten._linalg_svd.default", "for aten._linalg_svd", OTHER),
    ("SingularValues", "torchscript", "translate", "aten::linalg_svd", "for aten::linalg_svd at opset", OTHER),
    ("StableSort", "dynamo", "translate", "aten.sort.stable", "no ONNX translation for aten.sort.stable", OTHER),
    ("Eigenvalues", "dynamo", "translate", "aten.linalg_eig.default", "for aten.linalg_eig", OTHER),
    ("Fourier", "torchscript", "translate", "aten::fft_fft", "works on complex numbers", "dynamo route"),
    ("Histogram", "dynamo", "translate", "aten.histc.default", "aten_histc with min == max", "simpler ones"),
    ("Adaptive", "torchscript", "translate", "aten::adaptive_avg_pool2d", "not factor of input size", "constants"),
    ("Unfolded", "torchscript", "translate", "aten::unfold", "input size not accessible", "constants"),
]  # fmt: skip


def blamed(name: str) -> int | None:
    start = SOURCE.index(f"class {name}(nn.Module):")
    end = next((i for i in range(start + 1, len(SOURCE)) if SOURCE[i].startswith(("class", "def", "@"))), len(SOURCE))
    return next((i + 1 for i in range(start, end) if SOURCE[i].endswith("# blame")), None)


@pytest.mark.parametrize(
    ("name", "route", "stage", "operator", "cause", "remedy"), FAILURES, ids=[f"{f[0]}-{f[1]}" for f in FAILURES]
)
def test_failures_are_understood(export, name, route, stage, operator, cause, remedy):
    dynamic = {"x": {"0": "batch"}} if name.startswith("Frozen") else {}
    with pytest.raises(JobFailed) as caught:
        export(name, route, dynamic=dynamic)
    details = caught.value.details
    assert cause in caught.value.message
    assert remedy in details["remedy"]
    assert (details["stage"], details["operator"], details["known"]) == (stage, operator, True)
    assert (details["source"]["line"] if details.get("source") else None) == blamed(name)
    assert "\n" not in caught.value.message
    assert details["traceback"].startswith("Traceback")


def test_a_dimension_that_cannot_vary_is_listed(export):
    with pytest.raises(JobFailed) as caught:
        export("FrozenBatch", "dynamo", dynamic={"x": {"0": "batch"}})
    assert caught.value.details["fixed"] == {"x": {"0": 3}}


def test_an_opset_that_is_too_old_names_the_one_to_use(export):
    with pytest.raises(JobFailed, match="scaled_dot_product_attention needs opset 14") as caught:
        export("NewOperator", "torchscript", opset=9)
    assert "--opset 14" in caught.value.details["remedy"]
    assert caught.value.details["source"]["line"] == blamed("NewOperator")


def test_a_failed_export_leaves_no_file(export, tmp_path):
    with pytest.raises(JobFailed):
        export("SingularValues", "torchscript")
    assert not (tmp_path / "model.onnx").exists()


def test_models_that_one_route_takes(export):
    assert export("Branch", "torchscript")["warnings"]
    assert export("Packed", "torchscript")["input_names"] == ["x", "lengths"]


def raised(error):
    try:
        raise error
    except BaseException as caught:
        return caught


def test_an_unknown_failure_is_quoted_and_said_to_be_unknown():
    failure = understand(raised(RuntimeError("the moon is in the wrong house\nand more")))
    assert failure.cause == "RuntimeError: the moon is in the wrong house"
    assert not failure.known
    assert "no explanation" in failure.remedy
    assert failure.source["path"] == __file__


def test_a_long_message_is_cut_and_an_empty_one_is_its_type():
    assert len(understand(raised(RuntimeError("x" * 5000))).cause) < 400
    assert understand(raised(MemoryError())).cause == "MemoryError"


def test_the_root_cause_counts():
    try:
        try:
            raise OSError(28, "No space left on device")
        except OSError as problem:
            raise RuntimeError("Failed to export the model. This is step 3/3") from problem
    except RuntimeError as caught:
        failure = understand(caught)
    assert (failure.cause, failure.stage, failure.exception) == ("the disk is full", "translate", "OSError")


def test_colours_of_the_exporters_messages_are_removed():
    failure = understand(raised(RuntimeError("\x1b[96mbad\x1b[0m luck")))
    assert failure.cause == "RuntimeError: bad luck"


def test_every_entry_reads_as_a_sentence_and_fills_its_template():
    for entry in CAUSES:
        words = dict.fromkeys((*entry.pattern.groupindex, "operator"), "X")
        cause, remedy = entry.cause.format(**words), entry.remedy.format(**words)
        assert cause[0].islower() or cause.startswith(("X", "torch"))
        assert not cause.endswith(".")
        assert re.match(r"[A-Z].*[.]$", remedy, re.DOTALL), remedy
