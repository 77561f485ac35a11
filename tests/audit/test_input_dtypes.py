"""Whole audits of models whose inputs NumPy or ONNX has no dtype for: each starts workers and takes seconds."""

import os

import pytest

import tensoraudit

pytestmark = [pytest.mark.usefixtures("warm_workers"), pytest.mark.slow]

TORCH = """
import torch
from torch import nn

class Exp(nn.Module):
    def forward(self, x):
        return torch.exp(x) + 1

class Squared(nn.Module):
    def forward(self, x):
        return (x * x).abs()

class Complex(nn.Module):
    def forward(self, x):
        return torch.complex(x, x + 1), torch.relu(x)

def exp(): return Exp()
def exp_sample_inputs(): return (torch.randn(2, 4, dtype=torch.bfloat16),)
def bare(): return Exp()
def linear(): return nn.Linear(4, 4, dtype=torch.bfloat16)
def linear_sample_inputs(): return exp_sample_inputs()
def float8(): return Exp()
def float8_sample_inputs(): return (torch.randn(2, 4).to(torch.float8_e4m3fn),)
def squared(): return Squared()
def squared_sample_inputs(): return (torch.randn(2, 4, dtype=torch.complex64),)
def complex_out(): return Complex()
def complex_out_sample_inputs(): return (torch.randn(2, 4),)
"""
JAX = """
import jax.numpy as jnp

def make(): return lambda x: jnp.exp(x)
def sample_inputs(): return (jnp.full((2, 8), 1.5, jnp.bfloat16),)
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    path = tmp_path_factory.mktemp("dtypes") / "dtype_models.py"
    path.write_text(TORCH)
    return path


def rules(report):
    return {finding["rule"] for finding in report["findings"]}


@pytest.mark.parametrize(("name", "more"), [("exp", {}), ("bare", {"input": ["x:bfloat16[2,4]"]})])
def test_an_export_in_bfloat16_that_no_kernel_runs_is_no_pass(models, name, more):
    """ONNX Runtime's CPU provider has no Exp for bfloat16."""
    report = tensoraudit.scan(f"{models}:{name}", **more)
    assert report["grade"]["onnx"] == "F" and "CNV-003" in rules(report)
    (probe,) = [row for row in report["probes"] if row["name"] == "run.torch_onnx_dynamo" and row["device"] == "cpu"]
    assert probe["reason"].startswith("ONNX Runtime has no kernel for Exp")


def test_a_model_in_bfloat16_runs_on_its_own_sample(models):
    report = tensoraudit.compare(f"{models}:linear", f"{models}:linear")
    assert (report["grade"]["pytorch"], report["exit_code"]) == ("A", 0)
    rows = [row for row in report["equivalence"] if row["candidate"].startswith("candidate")]
    assert {"sample-0", "random-0", "batch=5", "edge-large"} <= {row["inputs"] for row in rows}


def test_inputs_in_8_bit_floats_are_unsupported(models):
    report = tensoraudit.scan(f"{models}:float8")
    assert report["exit_code"] == 3 and report["grade"]["onnx"].endswith("?")
    (probe,) = [row for row in report["probes"] if row["name"] == "reference.inputs"]
    assert probe["status"] == "unsupported" and "float8_e4m3fn" in probe["reason"]


def test_a_complex_input_reaches_the_export_as_its_two_parts(models):
    report = tensoraudit.scan(f"{models}:squared")
    assert rules(report) <= {"CNV-002"} and report["exit_code"] == 0
    rows = [row for row in report["equivalence"] if row["candidate"] == "torch_onnx_dynamo@onnxruntime/cpu"]
    assert rows and all(row["verdict"] in {"identical", "equivalent", "noise"} for row in rows)
    assert any(note.startswith("x is complex in the sample") for note in report["notes"])


def test_a_complex_output_is_unverified_and_the_one_beside_it_is_not(models):
    report = tensoraudit.scan(f"{models}:complex_out")
    rows = [row for row in report["equivalence"] if row["candidate"] == "torch_onnx_dynamo@onnxruntime/cpu"]
    verdicts = {name: {row["verdict"] for row in rows if row["tensor"] == name} for name in ("output.0", "output.1")}
    assert verdicts == {"output.0": {"unverified"}, "output.1": {"identical"}}
    assert all("complex64" in row["reason"] for row in rows if row["tensor"] == "output.0")


@pytest.mark.skipif(not os.environ.get("TENSORAUDIT_JAX_PYTHON"), reason="set TENSORAUDIT_JAX_PYTHON")
def test_a_jax_model_in_bfloat16_is_run_in_it(tmp_path):
    path = tmp_path / "jax_dtype_models.py"
    path.write_text(JAX)
    report = tensoraudit.scan(f"{path}:make", python={"jax": os.environ["TENSORAUDIT_JAX_PYTHON"]})
    assert report["grade"]["onnx"] == "F" and "CNV-003" in rules(report)
    assert [row for row in report["equivalence"] if row["candidate"] == "eager@jax/cpu"]
