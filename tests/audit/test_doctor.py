"""What is missing on a sound machine, and what is not."""

import pytest

from tensoraudit.audit import doctor
from tensoraudit.options import make_options
from tensoraudit.probes.outcome import Outcome

HELLO = {"version": "1.0", "python": "3.11.7", "network": "isolated", "devices": [{"kind": "cpu", "name": "x"}]}
PACKAGES = {"onnx": "1", "onnxscript": "1", "tf2onnx": "1", "jax2onnx": "1"}


@pytest.fixture
def hellos(monkeypatch):
    """Every worker starts, until a test says otherwise."""
    answers = {role: Outcome("ok", {**HELLO, "packages": PACKAGES}) for role in doctor.EXTRAS}

    class Workers:
        def __init__(self, **settings):
            self.start = lambda role: None
            self.hello = answers.__getitem__

        def __enter__(self):
            return self

        def __exit__(self, *problem):
            pass

    monkeypatch.setattr(doctor, "Pool", Workers)
    return answers


def broken(**given):
    return {check.name for check in doctor.examine(make_options(given)) if check.status != "ok" and not check.optional}


def test_a_machine_with_everything_but_cuda_is_sound(hellos):
    assert broken() == set()


def test_tensorflow_may_be_missing_until_it_is_named(hellos):
    hellos["tensorflow"] = Outcome("missing", None, "No module named 'tensorflow'")
    assert broken() == set()
    named = broken(python=["tensorflow=/opt/tf/bin/python"])
    assert named == {"tensorflow", "probe: TensorFlow forward", "route: tf2onnx", "route: tf2onnx_tflite"}


def test_tensorflow_that_crashes_is_no_sound_machine(hellos):
    hellos["tensorflow"] = Outcome("crashed", None, "was killed by signal 4")
    assert "tensorflow" in broken()


def test_a_converter_that_is_not_installed_beside_its_framework(hellos):
    hellos["tensorflow"] = Outcome("ok", {**HELLO, "packages": {"onnx": "1"}})
    (check,) = [each for each in doctor.examine(make_options({})) if each.name == "route: tf2onnx"]
    assert (check.status, check.detail) == ("missing", "tf2onnx is not installed beside tensorflow")


def test_pytorch_is_expected(hellos):
    hellos["pytorch"] = Outcome("missing", None, "No module named 'torch'")
    assert {"pytorch", "route: torch_onnx_dynamo"} <= broken()


def test_ways_between_frameworks_are_lines_of_their_own_and_no_fault(hellos):
    ways = {check.name: check for check in doctor.examine(make_options({})) if " -> " in check.name}
    assert {"pytorch -> onnx", "onnx -> jax", "jax -> tensorflow", "tflite -> onnx"} <= set(ways)
    assert all(check.optional for check in ways.values())
    assert ways["jax -> onnx"].status == "works" and ways["onnx -> tensorflow"].status == "missing"
    assert broken() == set()


def test_an_interpreter_for_one_converter_is_asked_too(hellos):
    packages = {"onnx": "1", "onnx2tf": "1"}
    hellos["tensorflow:onnx2tf"] = Outcome("ok", {**HELLO, "packages": packages})
    checks = {check.name: check for check in doctor.examine(make_options({"python": ["onnx2tf=/opt/o2t/bin/python"]}))}
    assert checks["onnx -> tensorflow"].status == "works"
    assert checks["tensorflow:onnx2tf"].status == "ok"
