"""Packages, variables and devices of one side."""

from importlib import metadata

import pytest

from tensoraudit.extract.environment import normalised, read_environment
from tensoraudit.facts import Device, Package, Variable


def of(facts, kind):
    return [fact for fact in facts if isinstance(fact, kind)]


def test_the_packages_of_this_interpreter():
    found = {fact.name: fact.version for fact in of(read_environment("source", variables={}), Package)}
    assert found["numpy"] == metadata.version("numpy")
    assert found["python"].startswith("3.")
    assert "PyYAML" not in found
    assert found["pyyaml"] == metadata.version("PyYAML")


def test_the_packages_of_another_interpreter_are_taken_as_given():
    found = read_environment("target", packages={"ONNX_Runtime.GPU": "1.31.1"}, variables={})
    assert found == [Package("onnx-runtime-gpu", "1.31.1", "target")]


@pytest.mark.parametrize(("name", "expected"), [("PyYAML", "pyyaml"), ("a_b.c--d", "a-b-c-d"), ("torch", "torch")])
def test_names_are_normalised_as_indexes_do(name, expected):
    assert normalised(name) == expected


def test_variables_that_frameworks_read():
    variables = {
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "NVIDIA_TF32_OVERRIDE": "0",
        "KERAS_BACKEND": "jax",
        "PYTHONHASHSEED": "0",
        "HOME": "/home/me",
        "TORCHX": "1",
    }
    found = of(read_environment("source", packages={}, variables=variables), Variable)
    assert [(fact.name, fact.value) for fact in found] == [
        ("CUBLAS_WORKSPACE_CONFIG", ":4096:8"),
        ("KERAS_BACKEND", "jax"),
        ("NVIDIA_TF32_OVERRIDE", "0"),
        ("PYTHONHASHSEED", "0"),
    ]


@pytest.mark.parametrize(
    "name",
    ["TORCH_API_KEY", "TF_TOKEN", "CUDA_PASSWORD", "JAX_AUTH_HEADER", "ORT_CLIENT_SECRET", "NCCL_KEY", "TF_COOKIE"],
)
def test_secrets_are_never_read(name):
    assert read_environment("source", packages={}, variables={name: "hunter2"}) == []


def test_an_address_with_a_login_is_never_read():
    assert read_environment("source", packages={}, variables={"TORCH_MIRROR": "https://me:hunter2@host/simple"}) == []


def test_the_environment_of_this_process_is_the_default(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert Variable("OMP_NUM_THREADS", "3", "both") in read_environment("both", packages={})


def test_devices_of_a_hello():
    rows = [{"kind": "cpu", "name": "x86_64"}, {"kind": "cuda", "name": "H200", "capability": "9.0", "driver": "570"}]
    assert read_environment("source", packages={}, variables={}, devices=rows) == [
        Device("cpu", "x86_64", "", "", "source"),
        Device("cuda", "H200", "9.0", "570", "source"),
    ]
