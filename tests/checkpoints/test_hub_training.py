"""The state of training beside weights, as the Trainer of transformers writes it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tensoraudit.checkpoints import sharded_index
from tensoraudit.checkpoints.hub_training import role_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = torch.nn.Linear(3, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    scheduler.step()
    save_file(model.state_dict(), tmp_path / "model.safetensors", {"format": "pt"})
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    torch.save(scheduler.state_dict(), tmp_path / "scheduler.pt")
    torch.save({"scale": 65536.0, "growth_factor": 2.0}, tmp_path / "scaler.pt")
    rng = {"python": random.getstate(), "numpy": np.random.get_state(), "cpu": torch.random.get_rng_state()}
    for rank in range(2):
        torch.save(rng, tmp_path / f"rng_state_{rank}.pth")
    (tmp_path / "trainer_state.json").write_text(json.dumps({"global_step": 500, "epoch": 1.5, "log_history": []}))
    return tmp_path


def test_the_whole_state_is_told(folder):
    stored = sharded_index.read(folder)
    training = stored.training
    assert (training.step, training.epoch) == (500, 1.5)
    assert set(training.rng) == {"python", "numpy", "torch"}
    assert training.scaler == {"scale": 65536.0, "growth_factor": 2.0}
    assert training.scheduler is not None
    assert training.scheduler["step_size"] == 3
    [optimizer] = training.optimizers
    assert (optimizer.path, optimizer.kind, optimizer.parameters) == (("optimizer",), "adam", 2)
    assert optimizer.groups[0]["lr"] == 0.01
    assert stored.metadata["training_files"]["rng"] == ["rng_state_0.pth", "rng_state_1.pth"]
    assert stored.observations == ()
    assert stored.format == "safetensors"


def test_the_moments_are_entries_of_their_own(folder):
    stored = sharded_index.read(folder)
    state = torch.load(folder / "optimizer.pt")["state"]
    moments = {entry.full_name: entry for entry in stored.entries if entry.group == "optimizer"}
    assert len(moments) == 6
    entry = moments["optimizer.state.0.exp_avg"]
    [part] = entry.parts
    data = (folder / part.file).read_bytes()[part.offset : part.offset + part.bytes]
    assert data == state[0]["exp_avg"].numpy().tobytes()


def test_the_index_alone_has_no_state(folder):
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"weight": "model.safetensors", "bias": "model.safetensors"}})
    )
    assert sharded_index.read(folder / "model.safetensors.index.json").training.optimizers == ()
    assert len(sharded_index.read(folder).training.optimizers) == 1


def test_a_damaged_part_costs_only_itself(folder):
    (folder / "scheduler.pt").write_bytes(b"PK\3\4")
    (folder / "trainer_state.json").write_text("[" * 100_000)
    (folder / "optimizer.pt").unlink()
    (folder / "optimizer.pt").symlink_to("/etc/passwd")
    stored = sharded_index.read(folder)
    assert [(each.kind, each.subject) for each in stored.observations] == [
        ("file_unread", "scheduler.pt"), ("file_unread", "trainer_state.json")
    ]  # fmt: skip
    assert (stored.training.step, stored.training.scheduler, stored.training.optimizers) == (None, None, ())
    assert stored.training.scaler is not None


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("optimizer.pt", "optimizer"),
        ("optimizer_1.bin", "optimizer"),
        ("scheduler.bin", "scheduler"),
        ("random_states_3.pkl", "rng"),
        ("sampler.bin", "loader"),
        ("training_args.bin", "arguments"),
        ("pytorch_model.bin", ""),
        ("my_optimizer.pt", ""),
    ],
)
def test_roles(name, role):
    assert role_of(name) == role
