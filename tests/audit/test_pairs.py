"""The matrix of frameworks, from what workers say they have."""

import pytest

from tensoraudit.audit import pairs as module
from tensoraudit.audit.migration import TOOLS, Route
from tensoraudit.audit.pairs import ordered, pairs, workers
from tensoraudit.probes.outcome import Outcome

ALL = {name: "1" for hop in TOOLS.values() for name in hop.packages}
ROLES = ("pytorch", "tensorflow", "jax", "onnxruntime")


def hellos(**packages):
    """All workers with all packages, except what a role is said to have (None: it did not start)."""
    said = {}
    for role in ROLES:
        has = packages.get(role, ALL)
        said[role] = (
            Outcome("missing", None, "No module named 'x'") if has is None else Outcome("ok", {"packages": has})
        )
    return said


def matrix(said, interpreters=None):
    return {(pair.source, pair.target): pair for pair in pairs(said, interpreters or {})}


def test_there_are_twelve_ordered_pairs_and_tflite():
    frameworks = {"pytorch", "tensorflow", "jax", "onnx"}
    own = [pair for pair in ordered() if set(pair) <= frameworks]
    assert len(own) == len(set(own)) == 12
    assert ("tflite", "onnx") in ordered()


def test_with_everything_there_every_pair_works():
    found = matrix(hellos())
    assert {pair.status for pair in found.values()} == {"works"}
    assert found["pytorch", "onnx"].route == "torch_onnx_dynamo"
    assert found["pytorch", "onnx"].detail == "torch_onnx_dynamo; also torch_onnx_torchscript"
    assert "keras_torch (from keras, keras_h5)" in found["tensorflow", "pytorch"].detail


def test_a_missing_converter_says_what_to_install_and_where():
    without = {name: version for name, version in ALL.items() if name != "onnx2torch"}
    found = matrix(hellos(pytorch=without), {"pytorch": "/opt/torch/bin/python"})
    pair = found["onnx", "pytorch"]
    assert pair.status == "missing" and pair.route == ""
    install = "pip install onnx2torch for onnx2torch in /opt/torch/bin/python, or --python onnx2torch=PATH"
    assert pair.detail == f"onnx2torch: {install}"
    assert found["onnx", "jax"].status == "missing" and install in found["onnx", "jax"].detail
    assert found["pytorch", "jax"].status == "works"


def test_a_second_route_takes_over():
    without = {name: version for name, version in ALL.items() if name != "onnx2tf"}
    found = matrix(hellos(tensorflow=without))
    assert found["pytorch", "tensorflow"].route == "torch_export+torchax+jax2tf"
    assert found["onnx", "tensorflow"].status == "missing"


def test_a_route_for_keras_files_alone_does_not_make_a_pair_work():
    without = {name: version for name, version in ALL.items() if name != "onnx2torch"}
    pair = matrix(hellos(pytorch=without))["tensorflow", "pytorch"]
    assert pair.status == "missing"
    assert pair.detail.endswith("; keras_torch (from keras, keras_h5) works")


def test_a_worker_that_does_not_start_is_named_with_its_extra():
    found = matrix(hellos(jax=None))
    for pair in (found["jax", "onnx"], found["onnx", "jax"], found["pytorch", "jax"]):
        assert pair.status == "missing"
        assert "the jax worker did not start (No module named 'x'): pip install 'tensoraudit[jax]'" in pair.detail
    assert found["pytorch", "onnx"].status == "works"


def test_an_interpreter_of_a_converter_is_the_one_that_counts():
    said = hellos(pytorch={"onnx": "1", "onnxscript": "1"})
    said["pytorch:onnx2torch"] = Outcome("ok", {"packages": {"onnx": "1", "onnx2torch": "1"}})
    interpreters = {"onnx2torch": "/opt/o2t/bin/python"}
    assert workers(interpreters) == ("pytorch:onnx2torch",) and workers({}) == ()
    assert matrix(said, interpreters)["onnx", "pytorch"].status == "works"
    assert matrix(said)["onnx", "pytorch"].status == "missing"


def test_a_pair_without_a_route_is_impossible(monkeypatch):
    monkeypatch.setattr(module, "ROUTES", {("onnx", "jax"): (Route("torchax", (TOOLS["torchax"],)),)})
    pair = matrix(hellos())["pytorch", "onnx"]
    assert (pair.status, pair.detail) == ("impossible", "no converter leads from pytorch to onnx")


@pytest.mark.parametrize("pair", ordered())
def test_every_pair_has_a_route(pair):
    assert module.ROUTES[pair]
