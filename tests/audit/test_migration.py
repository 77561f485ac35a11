"""The table of converters: every pair has a way, every way fits together, and each hop's worker knows its job."""

from importlib import import_module
from itertools import pairwise, permutations
from pathlib import Path

import pytest

from tensoraudit.artifacts.artifact import Artifact
from tensoraudit.audit.frameworks import FRAMEWORKS
from tensoraudit.audit.migration import ROUTES, TOOLS, routes, worker_of
from tensoraudit.audit.prepare import needed_workers
from tensoraudit.options import TARGETS, Options

LEAVES = {
    "torch_onnx_dynamo": "onnx",
    "torch_onnx_torchscript": "onnx",
    "tf2onnx": "onnx",
    "tf2onnx_tflite": "onnx",
    "jax2onnx": "onnx",
    "torch_export": "pytorch",
    "torchax": "jax",
    "onnx2torch": "pytorch",
    "onnx2tf": "tensorflow",
    "jax2tf": "tensorflow",
    "keras_save": "tensorflow",
    "keras_torch": "pytorch",
    "keras_jax": "jax",
}
"""The framework of the model behind each tool, from the tools' own documentation."""

TAKES = {**{tool: hop.framework for tool, hop in TOOLS.items()}, "torchax": "pytorch"}
TAKES |= {"onnx2torch": "onnx", "onnx2tf": "onnx", "keras_torch": "tensorflow", "keras_jax": "tensorflow"}
TAKES |= {"tf2onnx_tflite": "tflite"}

PACKAGE = Path(import_module("tensoraudit").__file__).parent


def test_all_twelve_pairs_have_a_route():
    assert {pair for pair in permutations(TARGETS, 2) if pair not in ROUTES} == set()


@pytest.mark.parametrize("pair", ROUTES, ids="-".join)
def test_the_hops_of_a_route_fit_together(pair):
    for route in ROUTES[pair]:
        tools = [hop.tool for hop in route.hops]
        assert route.name == "+".join(tools)
        assert (TAKES[tools[0]], LEAVES[tools[-1]]) == pair
        assert all(LEAVES[before] == TAKES[after] for before, after in pairwise(tools))


@pytest.mark.parametrize("tool", TOOLS)
def test_the_worker_of_a_hop_names_the_tool(tool):
    hop = TOOLS[tool]
    job = PACKAGE / "probes" / FRAMEWORKS[hop.framework].role / f"{hop.job}.py"
    assert any(f'"{tool}"' in file.read_text() for file in (job, PACKAGE / "routes" / "__init__.py"))


def test_a_keras_file_takes_the_backend_switch_and_a_saved_model_does_not():
    keras = Artifact("m.keras", "keras", "tensorflow", Path("m.keras"))
    saved = Artifact("m", "saved_model", "tensorflow", Path("m"))
    assert [route.name for route in routes(keras, "jax")] == ["keras_jax", "tf2onnx+onnx2torch+torch_export+torchax"]
    assert [route.name for route in routes(saved, "jax")] == ["tf2onnx+onnx2torch+torch_export+torchax"]


def test_a_tool_runs_where_its_own_interpreter_is_named():
    assert worker_of(TOOLS["onnx2tf"], "tensorflow", {"tensorflow": "/a"}) == "tensorflow"
    assert worker_of(TOOLS["onnx2tf"], "tensorflow", {"onnx2tf": "/a"}) == "tensorflow:onnx2tf"


def test_an_audit_starts_only_the_workers_that_it_needs():
    model = Artifact("m.py:f", "python_object", "pytorch", Path("m.py"), attribute="f")
    assert needed_workers(model, Options()) == ("pytorch", "onnxruntime")
    assert needed_workers(model, Options(target=("jax",))) == ("pytorch", "jax")
    assert needed_workers(model, Options(target=("onnx", "tensorflow"))) == ("pytorch", "tensorflow", "onnxruntime")
