"""The table of routes, and what may be imported where."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tensoraudit.audit.migration import HOPS
from tensoraudit.routes import ROUTES

FRAMEWORKS = {"torch", "torchvision", "onnxscript", "onnx2torch", "onnx", "onnxruntime", "onnxsim", "safetensors"}
FRAMEWORKS |= {"tensorflow", "keras", "h5py", "tf2onnx", "onnx2tf", "ai_edge_litert"}
FRAMEWORKS |= {"jax", "flax", "jax2onnx", "torchax", "ml_dtypes"}
"""What workers may import beside the standard library, numpy and our own package."""

MAIN = {"pool", "process", "launch", "outcome", "limits", "run_folder", "procfs", "channel"}
"""Files of `probes` that run in the main process only."""
PACKAGE = Path(import_module("tensoraudit").__file__).parent
FILES = sorted(
    path
    for folder in ("routes", "probes", "probes/pytorch", "probes/jax", "probes/tensorflow", "probes/litert")
    for path in (PACKAGE / folder).glob("*.py")
    if path.stem not in MAIN
)


def test_the_table_has_the_names_that_users_give():
    assert set(ROUTES) == {hop.tool for hop in HOPS if hop.job == "export"}
    for module in ROUTES.values():
        assert {"export", "more"} <= set(dir(import_module(module)))


def test_the_table_imports_no_framework():
    code = "import sys, tensoraudit.routes.failure; print([m for m in ('torch', 'onnx') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_files_of_the_worker_load_in_python_3_9(file):
    tree = ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 9))
    imports = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    imports |= {
        node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    }
    assert imports <= FRAMEWORKS | {"numpy", "tensoraudit", "__main__"} | set(sys.stdlib_module_names)
    newer = {"zip": "strict", "dataclass": "slots"}  # keywords that 3.9 does not have
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert not [
        call
        for call in calls
        for each in call.keywords
        if each.arg and newer.get(getattr(call.func, "id", "")) == each.arg
    ]
