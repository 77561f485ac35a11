"""Both sides on a GPU. Without one the probes must say `missing`, with the reason, and never read as a pass."""

import subprocess
import sys

import pytest

import tensoraudit

HAS_CUDA = "import torch, sys; sys.exit(0 if torch.cuda.is_available() else 1)"
MODEL = "bench/cnn.py:make_model"


@pytest.fixture(scope="module")
def cuda():
    return subprocess.run([sys.executable, "-c", HAS_CUDA], check=False, capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def report(root):
    return tensoraudit.scan(root / MODEL, device="all", via="torch_onnx_torchscript")


def rows(report, device):
    return [probe for probe in report["probes"] if probe["device"] == device and probe["name"].startswith("run.")]


def test_without_a_gpu_what_was_asked_for_is_missing_and_the_audit_cannot_tell(report, cuda):
    if cuda:
        pytest.skip("this machine has a GPU")
    assert {probe["name"] for probe in rows(report, "cuda")} == {"run.torch_onnx_torchscript", "run.reference"}
    assert all(probe["status"] == "missing" and probe["reason"] for probe in rows(report, "cuda"))
    assert report["grade"]["onnx"] == "C?"
    assert report["exit_code"] == 3


@pytest.mark.cuda
def test_with_a_gpu_the_reference_there_is_judged(report, cuda):
    if not cuda:
        pytest.skip("torch finds no CUDA device here")
    judged = [row for row in report["equivalence"] if row["candidate"] == "reference@pytorch/cuda"]
    assert judged
    assert {row["verdict"] for row in judged} <= {"identical", "equivalent", "noise"}
