"""The worker may run in an old interpreter that has nothing but LiteRT."""

import ast
import sys
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(import_module("tensoraudit").__file__).parent
FILES = sorted((PACKAGE / "probes" / "litert").glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_files_of_the_worker_load_in_python_3_9(file):
    tree = ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 9))
    imports = {a.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    imports |= {
        node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    }
    assert imports <= {"ai_edge_litert", "ml_dtypes", "numpy", "tensoraudit", *sys.stdlib_module_names}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    used = {(call.func.id, key.arg) for call in calls for key in call.keywords}
    assert not used & {("zip", "strict"), ("dataclass", "slots")}  # 3.9 does not have them
