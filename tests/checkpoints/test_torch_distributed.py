"""Folders that torch.distributed.checkpoint writes with one process and with two, and such folders damaged."""

from __future__ import annotations

import pickle
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from tensoraudit.checkpoints import torch_distributed
from tensoraudit.checkpoints.read import read_checkpoint
from tensoraudit.checkpoints.schema import Entry, StoredCheckpoint
from tensoraudit.errors import InputError

Stored = Callable[[StoredCheckpoint, Entry], bytes]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 7))


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def loaded(folder: Path, stored: StoredCheckpoint, names: list[str]) -> dict[str, torch.Tensor]:
    """What torch's own loader reads of some flat names, into tensors of the described shapes."""
    shapes = {entry.full_name: entry for entry in stored.entries}
    state = {name: torch.zeros(shapes[name].shape, dtype=getattr(torch, shapes[name].dtype)) for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no process group
        dcp.load(state, checkpoint_id=folder, no_dist=True)
    return state


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5)
    model(torch.ones(2, 5)).sum().backward()
    optimizer.step()
    turned = torch.arange(6.0).reshape(2, 3).T
    more = {"step": 7, "turned": turned, "half": torch.ones(3, dtype=torch.bfloat16), "scheduler": {"last_epoch": 3}}
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state(), **more}


@pytest.fixture(scope="module")
def made(content: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dcp") / "one"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no process group
        dcp.save(content, checkpoint_id=folder, no_dist=True)
    return folder


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"


def kinds(stored: StoredCheckpoint) -> list[str]:
    return [each.kind for each in stored.observations]


def test_one_process(made: Path, content: dict[str, Any], stored_bytes: Stored) -> None:
    stored = read_checkpoint(made)
    assert (stored.format, stored.framework, stored.observations) == ("torch_distributed", "pytorch", ())
    assert stored.writer == "torch.distributed.checkpoint 1.0.0" and stored.imports == ()
    assert stored.files == (".metadata", "__0_0.distcp") and stored.metadata["world_size"] == 1
    found = {entry.full_name: entry for entry in stored.entries}
    for name, tensor in content["model"].items():
        entry = found[f"model.{name}"]
        assert (entry.name, entry.path, entry.group, entry.dtype) == (name, ("model",), "model", "float32")
        assert stored_bytes(stored, entry) == raw(tensor)
    for number, fields in content["optimizer"]["state"].items():
        for field, tensor in fields.items():
            entry = found[f"optimizer.state.{number}.{field}"]
            assert (entry.group, entry.path) == ("optimizer", ("optimizer",))
            assert stored_bytes(stored, entry) == raw(tensor)
    assert found["half"].dtype == "bfloat16" and found["half"].parts[0].bytes == 6
    turned = found["turned"].parts[0]
    assert (found["turned"].shape, turned.stride) == ((3, 2), (1, 3))
    (state,) = stored.training.optimizers
    assert (state.kind, state.parameters, state.groups[0]["lr"]) == ("adam", 4, 0.5)
    assert (stored.training.step, stored.training.rng) == (7, ("torch",))
    assert stored.training.scheduler == {"last_epoch": 3}


def test_counters_that_are_tensors(tmp_path: Path) -> None:
    state = {"model": network().state_dict(), "step": torch.tensor(70_000), "epoch": torch.tensor(2.5)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no process group
        dcp.save(state, checkpoint_id=tmp_path / "saved", no_dist=True)
    stored = torch_distributed.read(tmp_path / "saved")
    assert (stored.training.step, stored.training.epoch) == (70_000, 2.5)
    (data,) = (tmp_path / "saved").glob("*.distcp")
    data.write_bytes(b"")
    assert torch_distributed.read(tmp_path / "saved").training.step is None


def test_the_index_itself_may_be_named(made: Path) -> None:
    assert torch_distributed.recognises(made / ".metadata")
    assert len(torch_distributed.read(made / ".metadata").entries) == len(torch_distributed.read(made).entries)


@pytest.mark.slow
def test_two_processes(torch_sharded: Path, stored_bytes: Stored) -> None:
    folder = torch_sharded / "distributed_checkpoint"
    stored = read_checkpoint(folder)
    assert stored.observations == () and stored.metadata["world_size"] == 2
    found = {entry.full_name: entry for entry in stored.entries}
    weights = [name for name in found if name.startswith(("model.", "optimizer.state."))]
    assert len(weights) == 4 * (1 + 3)
    for name, tensor in loaded(folder, stored, weights).items():
        assert stored_bytes(stored, found[name]) == raw(tensor), name
    assert {part.rank for part in found["model.0.weight"].parts} == {0, 1}
    assert [part.start for part in found["model.0.weight"].parts] == [(0, 0), (3, 0)]
    (state,) = stored.training.optimizers
    assert (state.keyed, state.parameters) == ("name", 4)
    assert state.groups[0]["params"] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert found["optimizer.state.0.weight.exp_avg"].name == "state.0.weight.exp_avg"
    bare = read_checkpoint(torch_sharded / "flat_names")
    assert [entry.full_name for entry in bare.entries] == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_a_save_that_did_not_end(copy: Path) -> None:
    (copy / ".metadata").unlink()
    stored = read_checkpoint(copy)
    assert (kinds(stored), stored.entries) == (["unfinished"], ())


def test_a_lost_file(copy: Path) -> None:
    (copy / "__0_0.distcp").unlink()
    stored = torch_distributed.read(copy)
    assert kinds(stored) == ["file_missing"]
    part = next(entry for entry in stored.entries if entry.full_name == "model.0.weight").parts[0]
    assert (part.offset, part.codec, part.bytes) == (None, "missing", 120)


def test_a_file_of_another_save(copy: Path) -> None:
    shutil.copy(copy / "__0_0.distcp", copy / "__1_0.distcp")
    assert kinds(torch_distributed.read(copy)) == ["file_unlisted"]


def test_a_file_that_is_cut_short(copy: Path) -> None:
    data = copy / "__0_0.distcp"
    whole = data.read_bytes()
    data.write_bytes(whole[: len(whole) // 2])
    stored = torch_distributed.read(copy)
    assert kinds(stored) == ["file_truncated"]
    (seen,) = stored.observations
    lost = {entry.full_name for entry in stored.entries if entry.parts[0].offset is None}
    assert lost and lost <= set(seen.value) and "ends at byte" in seen.message
    assert any(entry.parts[0].offset is not None for entry in stored.entries)


def rewritten(folder: Path, change: Callable[[Any], None]) -> StoredCheckpoint:
    index = pickle.loads((folder / ".metadata").read_bytes())
    change(index)
    (folder / ".metadata").write_bytes(pickle.dumps(index))
    return torch_distributed.read(folder)


def place(index: Any, name: str) -> Any:
    return next(info for key, info in index.storage_data.items() if key.fqn == name)


@pytest.mark.parametrize("path", ["../__0_0.distcp", "/etc/passwd", "a/../../__0_0.distcp"])
def test_names_that_lead_out(copy: Path, path: str) -> None:
    shutil.copy(copy / "__0_0.distcp", copy.parent)
    stored = rewritten(copy, lambda index: setattr(place(index, "model.0.weight"), "relative_path", path))
    assert kinds(stored) == ["file_outside"]


def test_a_link_that_leads_out(copy: Path) -> None:
    shutil.move(copy / "__0_0.distcp", copy.parent / "elsewhere")
    (copy / "__0_0.distcp").symlink_to(copy.parent / "elsewhere")
    assert kinds(torch_distributed.read(copy)) == ["file_outside"]


def test_an_index_that_says_something_else(copy: Path) -> None:
    def swap(index: Any) -> None:
        one, other = place(index, "model.0.weight"), place(index, "model.2.weight")
        one.offset, other.offset, one.length, other.length = other.offset, one.offset, other.length, one.length

    stored = rewritten(copy, swap)
    assert kinds(stored) == ["tensor_missing", "tensor_missing"]
    assert "float32[6, 5] of model.0.weight; it holds float32[7, 6]" in stored.observations[0].message


def test_chunks_that_leave_a_hole(copy: Path) -> None:
    def shift(index: Any) -> None:
        described = index.state_dict_metadata["model.0.weight"]
        described.size = torch.Size((9, 5))

    stored = rewritten(copy, shift)
    assert kinds(stored) == ["tensor_hole"] and stored.observations[0].value == {"elements": 15, "first": [6, 0]}


def test_places_beyond_any_file(copy: Path) -> None:
    stored = rewritten(copy, lambda index: setattr(place(index, "rng"), "offset", 1 << 62))
    assert kinds(stored) == ["file_truncated"] and stored.observations[0].value == ["rng"]


@pytest.mark.parametrize(
    "index", [b"", b"junk torch.distributed.checkpoint", pickle.dumps({"torch.distributed.checkpoint": 1})]
)
def test_an_index_that_is_none(copy: Path, index: bytes) -> None:
    (copy / ".metadata").write_bytes(index)
    with pytest.raises(InputError):
        torch_distributed.read(copy)


class Evil:
    def __reduce__(self) -> Any:
        return (exec, ("open('pwned', 'w')",))


def test_an_index_that_would_run_code(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    index = pickle.loads((copy / ".metadata").read_bytes())
    index.storage_meta = Evil()
    (copy / ".metadata").write_bytes(pickle.dumps(index))
    stored = torch_distributed.read(copy)
    assert stored.imports == ("builtins.exec",) and len(stored.entries) == 19
    assert not list(tmp_path.rglob("pwned"))


@settings(max_examples=150, deadline=60_000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_flipped_bytes(copy: Path, made: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([".metadata", "__0_0.distcp"]))
    content = bytearray((made / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (copy / name).write_bytes(bytes(content))
    try:
        stored = torch_distributed.read(copy)
    except InputError:
        stored = None
    shutil.copy(made / name, copy / name)
    size = (copy / "__0_0.distcp").stat().st_size
    for part in (part for entry in stored.entries if stored for part in entry.parts) if stored else ():
        assert part.offset is None or 0 <= part.offset <= part.offset + part.bytes <= size
