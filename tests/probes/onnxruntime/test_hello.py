from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import onnxruntime
import pytest

import tensoraudit.probes.onnxruntime
from tensoraudit.probes.onnxruntime import hello as module
from tensoraudit.probes.onnxruntime.hello import find_conflict, hello, normalise
from tensoraudit.probes.onnxruntime.jobs import JOBS
from tensoraudit.probes.onnxruntime.session import why_inactive

SHARED = {f"tensoraudit.probes.{name}" for name in ("bfloat16", "fingerprint", "installed", "protocol", "ulp")}
"""Modules of all workers, which hold to the same."""

FOLDER = Path(next(iter(tensoraudit.probes.onnxruntime.__path__)))


def test_hello_speaks_of_this_interpreter():
    answer = hello()
    assert answer["version"] == onnxruntime.__version__
    assert answer["framework"] == "onnxruntime"
    assert answer["python"] == sys.version.split()[0].rstrip("+")
    assert answer["devices"][0]["kind"] == "cpu"
    assert {"onnx", "numpy"} <= set(answer["packages"])
    assert json.loads(json.dumps(answer)) == answer


def test_cuda_is_a_device_or_has_a_reason():
    answer = hello()
    listed = any(device["kind"] == "cuda" for device in answer["devices"])
    assert listed != ("cuda" in answer.get("inactive", {}))


def test_this_environment_has_one_distribution():
    assert "conflict" not in hello()


def test_two_distributions_of_the_runtime_are_a_conflict(monkeypatch):
    packages = {"numpy": "2.0", "onnxruntime": "1.30.0", "onnxruntime-gpu": "1.31.1"}
    monkeypatch.setattr(module, "installed_packages", lambda: packages)
    conflict = hello()["conflict"]
    assert "onnxruntime 1.30.0 and onnxruntime-gpu 1.31.1 are installed side by side" in conflict
    assert "uninstall" in conflict


def test_extensions_are_no_conflict():
    assert find_conflict({"onnxruntime-gpu": "1", "onnxruntime-extensions": "0.12", "onnxruntime-genai": "0.5"}) == ""


def test_names_are_compared_as_indexes_do():
    assert normalise("ONNXRuntime_GPU") == "onnxruntime-gpu"


def test_reason_is_taken_from_the_log():
    log = (
        "2026 [E:onnxruntime:Default, provider_bridge.cc:1 operator()] Failed to load library x.so with error: "
        "libcublasLt.so.13: cannot open shared object file: No such file or directory\n\n2026 [W:...] more\n"
    )
    assert why_inactive(log) == "libcublasLt.so.13: cannot open shared object file: No such file or directory"
    assert "fell back to CPUExecutionProvider" in why_inactive("")


def test_jobs_are_registered_under_full_names():
    names = ("describe", "run", "levels", "values", "intermediates", "subgraph", "reference", "installed", "parameters")
    assert set(JOBS) == {f"onnxruntime.{name}" for name in names}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_worker_code_loads_on_python_39_without_other_packages(path):
    """Another interpreter may be older, and has the standard library, numpy and the framework."""
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    allowed = {"numpy", "onnx", "onnxruntime", "ml_dtypes", *sys.stdlib_module_names}
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    for node in imports:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        for name in names:
            own = name in SHARED or name.startswith("tensoraudit.probes.onnxruntime")
            assert own or name.split(".")[0] in allowed, f"{path.name} imports {name}"
    assert "zip(" not in path.read_text() or "strict=" not in path.read_text(), "zip(strict=) came with Python 3.10"
