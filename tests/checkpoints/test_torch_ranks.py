"""Files that every process wrote for itself: put together they must be the tensors that one process has."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from tensoraudit.checkpoints import torch_file, torch_ranks
from tensoraudit.checkpoints.read import read_checkpoint
from tensoraudit.checkpoints.schema import Entry, StoredCheckpoint
from tensoraudit.errors import InputError

Stored = Callable[[StoredCheckpoint, Entry], bytes]


def weights() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 7)).state_dict()


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def kinds(stored: StoredCheckpoint) -> list[str]:
    return [each.kind for each in stored.observations]


def check(stored: StoredCheckpoint, expected: dict[str, torch.Tensor], read: Stored) -> None:
    found = {entry.full_name: entry for entry in stored.entries}
    for name, tensor in expected.items():
        assert found[name].shape == tuple(tensor.shape), name
        assert read(stored, found[name]) == raw(tensor), name


def updated() -> dict[str, torch.Tensor]:
    """The weights after the AdamW step that the fixture makes."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 7))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model(torch.ones(2, 5)).sum().backward()
    optimizer.step()
    return model.state_dict()


@pytest.mark.slow
def test_dtensors(torch_sharded: Path, stored_bytes: Stored) -> None:
    stored = read_checkpoint(torch_sharded / "dtensor_ranks")
    assert (stored.format, stored.metadata["world_size"], stored.metadata["mesh"]) == ("torch_ranks", 2, [2])
    assert kinds(stored) == ["slice_alone"]
    assert stored.metadata["placements"]["model.0.weight"] == ["Shard(0)"]
    found = {entry.full_name: entry for entry in stored.entries}
    for name, tensor in updated().items():
        entry = found[f"model.{name}"]
        assert entry.shape == tuple(tensor.shape)
        values = torch.frombuffer(bytearray(stored_bytes(stored, entry)), dtype=torch.float32).reshape(tensor.shape)
        assert torch.allclose(values, tensor, atol=1e-6)
    assert len(found["optimizer.state.0.exp_avg"].parts) == 2 and len(found["optimizer.state.0.step"].parts) == 1
    assert stored.training.optimizers[0].parameters == 4 and stored.training.step == 1


@pytest.mark.slow
def test_one_rank_alone(torch_sharded: Path) -> None:
    stored = torch_file.read(torch_sharded / "dtensor_ranks" / "model_rank1.pt")
    assert kinds(stored) == ["slice_alone"]
    assert "rank 1 of 2" in stored.observations[0].message
    entry = stored.entries[0]
    assert (entry.shape, entry.parts[0].start, entry.parts[0].shape) == ((6, 5), (3, 0), (3, 5))
    assert entry.parts[0].bytes == 60


@pytest.mark.slow
def test_a_mesh_of_two_axes(torch_sharded: Path, stored_bytes: Stored) -> None:
    whole = torch.arange(35.0).reshape(5, 7)
    stored = read_checkpoint(torch_sharded / "two_axes")
    check(stored, dict.fromkeys(("rows", "columns", "both", "other", "twice"), whole), stored_bytes)
    parts = {entry.name: len(entry.parts) for entry in stored.entries}
    assert parts == {"rows": 2, "columns": 2, "both": 4, "other": 4, "twice": 4, "none": 1}
    assert kinds(stored) == ["slice_alone"]


@pytest.mark.slow
def test_data_parallelism_over_tensor_parallelism(torch_sharded: Path, stored_bytes: Stored) -> None:
    stored = read_checkpoint(torch_sharded / "tensor_and_data_parallel")
    check(stored, weights(), stored_bytes)
    assert stored.metadata["placements"]["0.weight"] == ["_StridedShard(0)", "Shard(0)"]
    assert kinds(stored) == ["slice_alone"]


@pytest.mark.slow
def test_sharded_tensors(torch_sharded: Path, stored_bytes: Stored) -> None:
    stored = read_checkpoint(torch_sharded / "fsdp_sharded")
    check(stored, weights(), stored_bytes)
    assert kinds(stored) == ["slice_alone"]


@pytest.mark.slow
def test_flat_parameters(torch_sharded: Path, stored_bytes: Stored) -> None:
    flat = torch.cat([tensor.reshape(-1) for tensor in weights().values()])
    stored = read_checkpoint(torch_sharded / "fsdp_local")
    (entry,) = stored.entries
    assert (entry.name, entry.shape, [part.shape for part in entry.parts]) == ("_flat_param", (85,), [(43,), (42,)])
    assert stored_bytes(stored, entry) == raw(flat)


@pytest.mark.slow
def test_slices_of_flat_parameters(torch_sharded: Path, stored_bytes: Stored) -> None:
    stored = read_checkpoint(torch_sharded / "fsdp_local_original")
    check(stored, {name: tensor.reshape(-1) for name, tensor in weights().items()}, stored_bytes)
    assert set(stored.metadata["flat"]) == set(weights())


@pytest.mark.slow
def test_a_full_state_on_rank_zero(torch_sharded: Path, stored_bytes: Stored) -> None:
    stored = read_checkpoint(torch_sharded / "full")
    check(stored, weights(), stored_bytes)
    assert (kinds(stored), stored.metadata["empty_ranks"]) == (["no_tensors"], [1])


@pytest.mark.slow
def test_a_rank_that_is_missing(torch_sharded: Path, tmp_path: Path) -> None:
    shutil.copytree(torch_sharded / "fsdp_sharded", tmp_path / "c")
    (tmp_path / "c" / "model_rank0.pt").unlink()
    seen = torch_ranks.read(tmp_path / "c").observations
    assert [each.subject for each in seen if each.kind == "rank_missing"] == ["rank 0"]
    assert sum(each.kind == "tensor_hole" for each in seen) == 4


@pytest.mark.slow
def test_files_that_were_swapped(torch_sharded: Path, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    shutil.copy(torch_sharded / "fsdp_sharded" / "model_rank0.pt", folder / "model_rank1.pt")
    shutil.copy(torch_sharded / "fsdp_sharded" / "model_rank1.pt", folder / "model_rank0.pt")
    seen = [each for each in torch_ranks.read(folder).observations if each.kind == "ranks_mixed"]
    assert [each.value for each in seen] == [{"name": 0, "wrote": [1]}, {"name": 1, "wrote": [0]}]


def parallel(folder: Path, name: str) -> Path:
    """Two tensor-parallel ranks of a block, as Megatron cuts one."""
    torch.manual_seed(0)
    for rank in range(2):
        state = {
            "attn.q_proj.weight": torch.full((2, 4), float(rank)),
            "attn.o_proj.weight": torch.full((4, 2), float(rank)),
            "attn.o_proj.bias": torch.ones(4),
            "norm.weight": torch.ones(4),
        }
        path = folder / name.format(rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"model": state, "iteration": 5}, path)
    return folder


@pytest.mark.parametrize(
    "name", ["mp_rank_{:02d}/model_optim_rng.pt", "mp_rank_{:02d}_model_states.pt", "weights.tp_rank_{}.pt"]
)
def test_tensor_parallel_ranks(tmp_path: Path, name: str, stored_bytes: Stored) -> None:
    stored = read_checkpoint(parallel(tmp_path, name))
    assert (stored.format, stored.metadata["tensor_parallel"], stored.training.step) == ("torch_ranks", 2, 5)
    rows, columns = torch.arange(2.0).repeat_interleave(2)[:, None], torch.arange(2.0).repeat_interleave(2)[None]
    check(
        stored,
        {"model.attn.q_proj.weight": rows.expand(4, 4), "model.attn.o_proj.weight": columns.expand(4, 4)},
        stored_bytes,
    )
    found = {entry.name: entry for entry in stored.entries}
    assert found["norm.weight"].shape == (4,)
    assert [(part.start, part.shape, part.rank) for part in found["norm.weight"].parts] == [
        ((0,), (4,), 0),
        ((0,), (4,), 1),
    ]
    assert stored.observations == ()


def test_copies_and_mixed_steps(tmp_path: Path, stored_bytes: Stored) -> None:
    for rank in range(12):
        state = {"model": {"w": torch.arange(3.0)}, "step": 4 + (rank == 11)}
        torch.save(state, tmp_path / f"checkpoint_rank_{rank}.pt")
    stored = read_checkpoint(tmp_path)
    check(stored, {"model.w": torch.arange(3.0)}, stored_bytes)
    assert list(stored.files)[9:] == [f"checkpoint_rank_{rank}.pt" for rank in (9, 10, 11)]
    assert kinds(stored) == ["steps_mixed"]


def test_damaged_files(tmp_path: Path) -> None:
    folder = parallel(tmp_path, "mp_rank_{:02d}_model_states.pt")
    (folder / "mp_rank_01_model_states.pt").write_bytes(b"PK\x03\x04 cut")
    assert "file_unread" in kinds(torch_ranks.read(folder))
    (folder / "mp_rank_00_model_states.pt").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(InputError, match="no file of a rank that can be read"):
        torch_ranks.read(folder)


def test_other_folders(tmp_path: Path) -> None:
    assert not torch_ranks.recognises(tmp_path)
    (tmp_path / "rank0.txt").write_text("x")
    (tmp_path / "model_rank0.pt").write_text("x")
    assert not torch_ranks.recognises(tmp_path)
