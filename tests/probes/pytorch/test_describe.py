"""pytorch.describe and the worker's hello."""

import numpy as np
import pytest
import torch

from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.pytorch.devices import device_of, devices
from tensoraudit.probes.pytorch.hello import hello


@pytest.fixture
def describe(job, spec):
    return lambda name, file="plain_models.py": job("describe", model=spec(name, file))


def test_a_small_model(describe, session):
    found = describe("Words")
    assert found["class"] == "Words"
    assert found["training"] is True
    assert found["arguments"] == [{"name": "ids", "required": True, "annotation": ""}]
    assert found["parameters"][0] == {"name": "embedding.weight", "dtype": "float32", "shape": [11, 3]}
    assert found["embedding_sizes"] == {"embedding": 11}
    assert found["dynamic"] == {"ids": {"0": "batch", "1": "ids_1"}}
    assert [each["path"] for each in found["modules"]] == ["", "embedding", "linear"]
    assert [each["name"] for each in found["samples"]] == ["sample-0", "sample-1"]
    assert np.array(session.get(found["samples"][0]["arrays"]["ids"])).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_nested_arguments_and_numbers(describe):
    found = describe("Nested")
    assert [(each["name"], each["required"]) for each in found["arguments"]] == [
        ("x", True), ("states", True), ("scale", False), ("options", False), ("flag", False),
    ]  # fmt: skip
    assert found["samples"][0]["arrays"]["scale"] == {"value": 4.0}


def test_source_files_are_the_users_own(describe, spec):
    assert describe("Words")["source_files"] == [spec("x")["path"]]
    found = describe("build", "models/packaged.py")["source_files"]
    assert [path.rpartition("/")[2] for path in found] == ["layers.py", "packaged.py"]


def test_a_script(job, file_spec, script):
    found = job("describe", model=file_spec("torchscript", script(torch.nn.Embedding(7, 3))))
    assert found["class"].endswith("Embedding")
    assert found["arguments"] == [{"name": "input", "required": True, "annotation": "Tensor"}]
    assert found["embedding_sizes"] == {"": 7}
    assert found["source_files"] == []


def test_what_cannot_be_loaded_fails(describe):
    with pytest.raises(JobFailed, match="needs arguments: width"):
        describe("Wide")


def test_hello_names_version_and_devices():
    found = hello()
    assert found["framework"] == "pytorch"
    assert found["version"] == torch.__version__
    assert found["packages"]["numpy"] == np.__version__
    assert found["devices"][0]["kind"] == "cpu" and found["devices"][0]["name"]
    assert len([each for each in devices() if each["kind"] == "cuda"]) == torch.cuda.device_count()


def test_devices():
    assert device_of("cpu").type == "cpu"
    with pytest.raises(Exception, match="no device called 'tpu'"):
        device_of("tpu")
