"""Weights without a model, and models inside pickles: what users really have on disk."""

import importlib.util
from pathlib import Path

import pytest

import tensoraudit
from tensoraudit.errors import InputError


@pytest.fixture(scope="module")
def pretrained():
    return Path(importlib.util.find_spec("resemblyzer").submodule_search_locations[0]) / "pretrained.pt"


def test_a_legacy_checkpoint_alone_names_the_option_that_is_missing(pretrained):
    with pytest.raises(InputError) as refused:
        tensoraudit.scan(pretrained)
    assert "16 tensors, 1,423,618 parameters under key 'model_state'" in str(refused.value)
    assert "--model file.py:name" in str(refused.value)


def test_with_its_factory_it_is_audited(pretrained, root):
    report = tensoraudit.scan(pretrained, model=f"{root / 'fixtures/real/voice_encoder.py'}:make_model")
    assert report["artifact"]["format"] == "state_dict"
    assert report["artifact"]["parameters"] == 1_423_618
    shipped = next(c["route"] for c in report["conversions"] if c["ships"])
    rows = [row for row in report["equivalence"] if row["candidate"].startswith(f"{shipped}@")]
    assert {row["verdict"] for row in rows} <= {"identical", "equivalent", "noise"}, rows
    assert {"batch=1", "batch=5"} <= {row["inputs"] for row in rows}


def test_a_pickled_module_is_audited_only_when_it_is_trusted(tmp_path):
    import torch

    path = tmp_path / "module.pt"
    torch.save(torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.ReLU()).eval(), path)
    with pytest.raises(InputError, match=r"torch\.nn\.modules\.linear\.Linear"):
        tensoraudit.scan(path)
    report = tensoraudit.scan(path, trust=True, input=("input:float32[batch,7]",), via="torch_onnx_torchscript")
    assert report["grade"]["onnx"] in {"A", "B"}
