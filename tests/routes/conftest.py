"""Exports through the job, so that failures are those that users meet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tensoraudit.probes.protocol import LocalSession
from tensoraudit.probes.pytorch.jobs import JOBS

MODELS = Path(__file__).parent / "models_that_fail.py"
ROUTES = {"dynamo": "torch_onnx_dynamo", "torchscript": "torch_onnx_torchscript"}


@pytest.fixture
def export(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Export a model of `models_that_fail.py` by the short name of a route."""
    session = LocalSession(tmp_path)

    def run(name: str, route: str, opset: int | None = None, dynamic: dict[str, Any] | None = None) -> dict[str, Any]:
        model = {"format": "python_object", "path": str(MODELS), "attribute": name, "trust": False, "code": []}
        described = JOBS["pytorch.describe"]({"model": model}, session)
        params = {
            "model": model,
            "route": ROUTES[route],
            "inputs": described["samples"][0],
            "dynamic": dynamic or {},
            "opset": opset,
            "path": str(tmp_path / "model.onnx"),
        }
        return JOBS["pytorch.export"](params, session)

    return run
