"""The worker may run in an old interpreter that has nothing but the framework."""

import ast
import sys
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(import_module("tensoraudit").__file__).parent
FILES = [
    *sorted((PACKAGE / "probes" / "tensorflow").glob("*.py")),
    *sorted((PACKAGE / "routes").glob("tensorflow*.py")),
    PACKAGE / "artifacts" / "keras_config.py",
    *(PACKAGE / "artifacts" / f"{name}.py" for name in ("flatbuffers", "tflite", "tflite_operators")),
    *(PACKAGE / "routes" / f"{name}.py" for name in ("channels_last", "keras_to_file", "saved_names")),
    *(PACKAGE / "routes" / f"{name}.py" for name in ("onnx_to_tensorflow_onnx2tf", "tflite_to_onnx")),
    PACKAGE / "probes" / "ulp.py",
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_files_of_the_worker_load_in_python_3_9(file):
    tree = ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 9))
    imports = {a.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    imports |= {
        node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    }
    converters = {"tf2onnx", "onnx2tf", "onnx", "onnxruntime", "onnxsim"}
    known = {"tensorflow", "keras", "h5py", "numpy", "tensoraudit", *sys.stdlib_module_names}
    assert imports <= known | converters
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    used = {(call.func.id, key.arg) for call in calls for key in call.keywords}
    assert not used & {("zip", "strict"), ("dataclass", "slots")}  # 3.9 does not have them
