"""One rich result, and a poor one, as every format has to show them."""

from __future__ import annotations

from typing import Any

import pytest

from tensoraudit.facts import Measurement, Site
from tensoraudit.findings.finding import Finding, Layer, Severity, State
from tensoraudit.findings.grade import exit_code, grades, layers
from tensoraudit.findings.result import (
    Conversion,
    Equivalence,
    FirstDivergence,
    Migratability,
    OperatorUse,
    Probe,
    Result,
    Suppressed,
)

EVIL = "n\x1b[2J\x1b]0;owned\x07<script>alert('1')</script>[bold]&\u202e|`\x00\udc80"
"""A node name that tries a terminal, HTML, XML, rich markup, Markdown, reading direction and encoding at once."""


CUSTOM = OperatorUse("mylib.fft.default", 2, Site(path="net.py", line=42, node="fft"))


def make_finding(rule: str, severity: str, state: str, **more: Any) -> Finding:
    values: dict[str, Any] = {
        "title": f"Title of {rule}",
        "layer": Layer.GRAPH,
        "target": "onnx",
        "where": Site(),
        "message": f"Message of {rule}.",
        "why": f"Why of {rule}.",
        "remedy": f"Remedy of {rule}.",
        "references": ("https://example.org/issues/1", "pytorch docs/a.rst"),
        "fingerprint": f"{hash_of(rule):016x}",
        **more,
    }
    return Finding(rule=rule, severity=Severity(severity), state=State(state), **values)


def hash_of(text: str) -> int:
    return sum(ord(character) * 31**index for index, character in enumerate(text))


def make_row(
    tensor: str, inputs: str, verdict: str, linf: float | None, ratio: float | None, **more: Any
) -> Equivalence:
    return Equivalence(
        "pytorch/cpu", "torch_onnx_dynamo@onnxruntime/cpu", "output", tensor, inputs, verdict,
        linf=linf, error_ratio=ratio, target="onnx", **more,
    )  # fmt: skip


def make_result(findings=(), probes=(), *, targets=("onnx",), fail_on="high", **more: Any) -> Result:
    values: dict[str, Any] = {
        "tool": {"name": "tensoraudit", "version": "0.1.0", "python": "3.11.7", "pytorch": "2.13.0"},
        "artifact": {"spec": "net.py:make", "format": "python_object", "framework": "pytorch"},
        **more,
    }
    return Result(
        targets=tuple(targets),
        grade=grades(findings, probes, targets),
        exit_code=exit_code(findings, probes, fail_on),
        layers=layers(findings, probes, targets),
        findings=tuple(findings),
        probes=tuple(probes),
        fail_on=fail_on,
        **values,
    )


@pytest.fixture
def rich_result() -> Result:
    first = FirstDivergence(
        "encoder.layer.0.norm (aten.layer_norm.default)",
        "node_layer_norm",
        "/home/me/net.py:42",
        1.7e-5,
        3.1e-4,
        "repro/1",
    )
    error = Measurement(
        "output.verdict", "logits", "break", probe="forward", side="target", target="onnx", detail="random-0"
    )
    ratio = Measurement("output.error_ratio", "logits", 11.52, probe="forward", target="onnx")
    findings = [
        make_finding(
            "EQV-001", "critical", "confirmed", where=Site(tensor="logits"), evidence=(error,), causes=("ONX-030",)
        ),
        make_finding("ONX-030", "high", "confirmed", where=Site(path="net.py", line=42, column=9), evidence=(ratio,),
                     fix="eps=1e-5  ->  eps=1e-12", also=("ONX-031",)),
        make_finding("ONX-012", "medium", "suspected", where=Site(path="a.onnx", node=EVIL), reason="an input decides",
                     layer=Layer.MEMORY, message=f"The node {EVIL} is odd."),
        make_finding("ONX-014", "high", "refuted", where=Site(path="my net.py", line=7),
                     evidence=(Measurement("output.verdict", "y", "noise"),)),
        make_finding("PRT-001", "low", "advice", where=Site(path="net.py", line=3)),
        make_finding("SUP-001", "low", "certain", target="", layer=Layer.DEPLOYMENT, where=Site(variable="TF32")),
    ]  # fmt: skip
    probes = [
        Probe("reference.run", "pytorch", "2.13.0", "cpu", "ok", seconds=1.25, peak_memory=123456, required=True),
        Probe("run.dynamo", "onnxruntime", "1.31.1", "cpu", "ok", seconds=0.5, required=True, target="onnx"),
        Probe("run.dynamo", "onnxruntime", "1.31.1", "cuda", "missing", "no CUDA device is active", target="onnx"),
    ]
    return make_result(
        findings,
        probes,
        equivalence=(
            make_row("logits", "random-0", "break", 3.1e-4, 11.52, first_divergence=first, top1_changes=1),
            make_row("logits", "batch=5", "noise", 1.2e-6, 0.65),
            make_row("boxes", "random-0", "equivalent", 3e-7, 0.4),
            make_row("boxes", "batch=5", "unverified", None, None, reason="the candidate differs from itself"),
        ),
        conversions=(
            Conversion(
                "onnx", "torch_onnx_dynamo", "ok", True, {"opset": 20, "dynamic": {"x": {"0": "batch"}}}, seconds=2.0
            ),
            Conversion(
                "onnx",
                "torch_onnx_torchscript",
                "failed",
                False,
                {"opset": 17},
                cause="aten::frobnicate has no translation",
                remedy="Use torch.where.",
                details={
                    "stage": "translate",
                    "operator": "aten::frobnicate",
                    "source": {"path": "net.py", "line": 12, "text": "frob(x)"},
                    "traceback": "Traceback: long",
                },
            ),
        ),
        suppressed=(
            Suppressed(
                make_finding("ONX-020", "high", "certain", where=Site(path="net.py", line=9)), "by hand", "comment"
            ),
            Suppressed(make_finding("ONX-021", "medium", "likely"), "known in base.json", "baseline"),
        ),
        settings={"seed": 0, "reference": {"tf32": False}},
        notes=("not read: broken.py: syntax error",),
        timings={"convert": 2.5, "judge": 0.1},
        migratability=(
            Migratability(
                "onnx", "torch_onnx_dynamo", 2, 3, 7, 9, (CUSTOM,), (CUSTOM,), control_flow="none", converted=True
            ),
        ),
    )


@pytest.fixture
def clean_result() -> Result:
    return make_result(
        [],
        [Probe("run.dynamo", "onnxruntime", "1.31.1", "cpu", "ok", required=True, target="onnx")],
        equivalence=(make_row("y", "random-0", "equivalent", 1e-7, 0.5),),
    )


@pytest.fixture
def unsure_result() -> Result:
    probe = Probe("run.dynamo", "onnxruntime", "", "cpu", "crashed", "signal 11", required=True, target="onnx")
    return make_result([], [probe])


@pytest.fixture
def result_of():
    return make_result


@pytest.fixture
def finding_of():
    return make_finding
