"""The table of frameworks agrees with the workers, the routes and the options; what it lacks is said, never passed."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

from tensoraudit.artifacts.artifact import Artifact
from tensoraudit.audit.doctor import EXTRAS, NEEDS, OPTIONAL
from tensoraudit.audit.frameworks import FRAMEWORKS, framework_of
from tensoraudit.audit.migration import check_route
from tensoraudit.audit.prepare import told
from tensoraudit.audit.upgrade import check_sides
from tensoraudit.errors import InputError
from tensoraudit.options import FRAMEWORKS as NAMES
from tensoraudit.options import Options
from tensoraudit.probes.pool import FRAMEWORKS as WORKERS

PACKAGE = Path(import_module("tensoraudit").__file__).parent
SOURCES = {name: row for name, row in FRAMEWORKS.items() if name in NAMES}
JOBS = ("describe", "run", "accepts", "export", "trace", "gradients", "training")


def test_every_framework_of_the_options_has_a_row():
    assert set(SOURCES) == set(NAMES)


@pytest.mark.parametrize("name", SOURCES)
def test_a_worker_has_the_jobs_that_its_row_promises(name):
    row = SOURCES[name]
    text = (PACKAGE / "probes" / row.role / "jobs.py").read_text() if row.abilities else "{}"
    named = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
    promised = {row.job(each) for each in JOBS if row.can(each)}
    assert promised == {row.job(each) for each in JOBS} & named
    assert bool(row.abilities) == (row.role in WORKERS)


def test_rows_are_found_by_role():
    assert framework_of("tensorflow:target") is FRAMEWORKS["tensorflow"]
    assert framework_of("onnxruntime") is FRAMEWORKS["onnx"]
    assert framework_of("nobody") is FRAMEWORKS["python"]


def test_the_doctor_asks_every_worker():
    assert set(EXTRAS) == set(WORKERS)
    assert {role for needs in NEEDS.values() for role, _ in needs} == set(WORKERS)
    assert set(WORKERS) >= OPTIONAL - {"jax"}


def test_an_object_is_of_the_framework_that_its_file_imports(tmp_path):
    file = tmp_path / "model.py"
    file.write_text("import keras\n")
    named = Artifact("model.py:make", "python_object", "pytorch", file, attribute="make")
    assert told(named, None).framework == "tensorflow"
    assert told(named, "jax").framework == "jax"
    file.write_text("import keras, torch\n")
    with pytest.raises(InputError, match=r"a model of pytorch or of tensorflow.*--framework pytorch"):
        told(named, None)
    file.write_text("import transformers\n")
    assert told(named, None).framework == "pytorch"


def test_a_route_of_another_framework_is_refused():
    keras = Artifact("m.keras", "keras", "tensorflow")
    check_route(keras, "tf2onnx", ["onnx"])
    check_route(keras, "keras_jax", ["onnx", "jax"])
    check_route(Artifact("src", "python_source", "python"), "tf2onnx", ["onnx"])
    with pytest.raises(InputError, match="tf2onnx does not lead from TensorFlow to tensorflow"):
        check_route(keras, "tf2onnx", ["tensorflow"])  # converted by nothing: the option would be passed over
    with pytest.raises(InputError, match=r"torch_onnx_dynamo does not lead from TensorFlow to onnx.*one of tf2onnx,"):
        check_route(keras, "torch_onnx_dynamo", ["onnx"])


def test_a_converter_that_does_not_exist_is_refused_with_the_nearest():
    source = Artifact("m.py", "python_source", "python")
    with pytest.raises(InputError, match=r"no converter is called 'torchaxe'.*Did you mean torchax\?"):
        check_route(source, "torch_export+torchaxe", ["jax"])


def test_an_interpreter_for_a_side_is_refused_where_nothing_would_run_in_it():
    program = Artifact("m.pt2", "exported_program", "pytorch")
    sides = {"target": "/envs/new/bin/python"}
    check_sides(program, Options(target=("pytorch",), python=sides))
    check_sides(program, Options(target=("onnx",), python={"pytorch": "/envs/new/bin/python"}))
    with pytest.raises(InputError, match=r"stays in PyTorch, and the target is onnx.*--target pytorch alone"):
        check_sides(program, Options(target=("onnx",), python=sides))
