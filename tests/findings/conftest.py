"""A finding with whatever a test cares about."""

from __future__ import annotations

from typing import Any

import pytest

from tensoraudit.facts import Site
from tensoraudit.findings.finding import Finding, Layer, Severity, State
from tensoraudit.findings.result import Probe


def make_finding(rule: str = "ONX-001", severity: str = "high", state: str = "certain", **more: Any) -> Finding:
    values: dict[str, Any] = {
        "title": f"title of {rule}",
        "layer": Layer.GRAPH,
        "target": "onnx",
        "where": Site(),
        "message": f"message of {rule}",
        **more,
    }
    return Finding(rule=rule, severity=Severity(severity), state=State(state), **values)


def make_probe(status: str = "ok", *, required: bool = True, target: str = "onnx", name: str = "run") -> Probe:
    return Probe(name, "onnxruntime", "1.31.1", "cpu", status, "because", required=required, target=target)  # type: ignore[arg-type]


@pytest.fixture
def finding():
    return make_finding


@pytest.fixture
def probe():
    return make_probe
