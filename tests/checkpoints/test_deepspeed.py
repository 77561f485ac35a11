"""ZeRO folders in DeepSpeed's form: merged, every weight and moment must be the one that was cut."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tensoraudit.checkpoints import deepspeed
from tensoraudit.checkpoints.read import read_checkpoint
from tensoraudit.checkpoints.schema import Entry, StoredCheckpoint
from tensoraudit.errors import InputError

Stored = Callable[[StoredCheckpoint, Entry], bytes]
SCRIPT = Path(__file__).parents[2] / "fixtures" / "checkpoints" / "deepspeed_zero.py"
PARAMETERS = ["embed.weight", "layer.0.weight", "layer.0.bias", "norm.weight", "scale"]


@pytest.fixture(scope="session")
def zero(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, int], Path]:
    made: dict[tuple[int, int], Path] = {}

    def make(stage: int, ranks: int) -> Path:
        if (stage, ranks) not in made:
            folder = tmp_path_factory.mktemp("zero") / f"stage{stage}"
            subprocess.run([sys.executable, str(SCRIPT), str(stage), str(folder), str(ranks)], check=True, timeout=120)
            made[stage, ranks] = folder
        return made[stage, ranks]

    return make


@pytest.fixture
def copy(zero: Callable[[int, int], Path], tmp_path: Path) -> Path:
    shutil.copytree(zero(3, 3), tmp_path / "copy")
    return tmp_path / "copy"


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes()


def kinds(stored: StoredCheckpoint) -> list[str]:
    return [each.kind for each in stored.observations]


@pytest.mark.parametrize(("stage", "ranks"), [(1, 1), (1, 2), (2, 3), (3, 2), (3, 3), (3, 12)])
def test_what_was_cut_is_put_together(
    zero: Callable[[int, int], Path], stage: int, ranks: int, stored_bytes: Stored
) -> None:
    folder = zero(stage, ranks)
    whole: dict[str, Any] = torch.load(folder / "whole.pt")
    stored = read_checkpoint(folder)
    assert (stored.format, stored.writer) == (f"deepspeed_zero{stage}", "deepspeed 0.19.8")
    found = {entry.full_name: entry for entry in stored.entries}
    for name, tensors in whole["parameters"].items():
        assert (found[name].group, found[name].dtype, found[name].shape) == (
            "model",
            "float32",
            tuple(tensors["fp32"].shape),
        )
        assert stored_bytes(stored, found[name]) == raw(tensors["fp32"]), name
        for field in ("exp_avg", "exp_avg_sq"):
            moment = found[f"optimizer.state.{name}.{field}"]
            assert (moment.group, moment.shape) == ("optimizer", found[name].shape)
            assert stored_bytes(stored, moment) == raw(tensors[field]), (name, field)
        assert stored_bytes(stored, found[f"optimizer.state.{name}.step"]) == raw(torch.tensor(12.0))
    assert stored_bytes(stored, found["frozen.weight"]) == raw(whole["frozen"]["frozen.weight"])
    assert stored_bytes(stored, found["running_mean"]) == raw(torch.arange(3.0))
    assert found["head.weight"].same_as == "embed.weight"
    assert not {"tensor_hole", "tensor_overlap", "part_outside", "size_mismatch", "rank_missing"} & set(kinds(stored))


def test_training_state_and_metadata(zero: Callable[[int, int], Path]) -> None:
    stored = read_checkpoint(zero(2, 3))
    (state,) = stored.training.optimizers
    assert (state.kind, state.keyed, state.parameters) == ("adam", "name", 5)
    assert [group["params"] for group in state.groups] == [PARAMETERS[:3], PARAMETERS[3:]]
    assert [group["lr"] for group in state.groups] == [0.1, 0.05]
    assert (stored.training.step, stored.training.scheduler) == (12, {"last_epoch": 12, "_step_count": 12})
    assert stored.training.scaler == {"cur_scale": 65536.0, "dynamic": True}
    wanted = {"zero_stage": 2, "world_size": 3, "partition_count": 3, "tensor_parallel": 1, "placeholders": 0}
    assert {key: stored.metadata[key] for key in wanted} == wanted
    copies = [entry for entry in stored.entries if entry.group == "other"]
    assert {entry.dtype for entry in copies} == {"bfloat16"} and copies[0].path == ("module",)


def test_padding_and_placeholders_of_stage_three(zero: Callable[[int, int], Path]) -> None:
    stored = read_checkpoint(zero(3, 3))
    seen = {each.kind: each.value for each in stored.observations}
    sizes = [28, 15, 5, 3, 1]
    assert seen == {"placeholder": 6, "padding": sum(-size % 3 for size in sizes)}
    assert (stored.metadata["stored_elements"], stored.metadata["parameter_elements"]) == (57, 52)


def test_the_tag_folder_itself(zero: Callable[[int, int], Path]) -> None:
    folder = zero(3, 2)
    assert read_checkpoint(folder / "global_step12").entries == read_checkpoint(folder).entries


def files(folder: Path, pattern: str) -> list[Path]:
    return sorted((folder / "global_step12").glob(pattern))


def test_a_rank_that_is_missing(copy: Path) -> None:
    files(copy, "*_1_*optim*")[0].unlink()
    stored = read_checkpoint(copy)
    (seen,) = [each for each in stored.observations if each.kind == "rank_missing"]
    assert (seen.subject, seen.value) == ("rank 1", 3)
    parts = next(entry for entry in stored.entries if entry.full_name == "embed.weight").parts
    assert {part.rank for part in parts if part.offset is None} == {1}
    assert {part.codec for part in parts if part.offset is None} == {"missing"}
    assert "tensor_hole" not in kinds(stored)


def test_a_damaged_rank(copy: Path) -> None:
    path = files(copy, "*_2_*optim*")[0]
    path.write_bytes(path.read_bytes()[:1000])
    stored = read_checkpoint(copy)
    assert "file_unread" in kinds(stored) and "rank_missing" not in kinds(stored)


def change(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Load with the stand-ins of DeepSpeed's classes left out, edit, and save."""
    state = torch.load(path, weights_only=False)
    edit(state)
    torch.save(state, path)


@pytest.fixture
def classes() -> None:
    """The fixture's classes, by the names under which DeepSpeed's are pickled."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("deepspeed_zero", SCRIPT)
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_files_of_another_run(copy: Path, classes: None) -> None:
    change(files(copy, "*_1_*optim*")[0], lambda state: state["optimizer_state_dict"].update(partition_count=4))
    change(files(copy, "zero*_1_*model*")[0], lambda state: state.update(global_steps=11))
    stored = read_checkpoint(copy)
    seen = {each.kind: each for each in stored.observations}
    assert seen["ranks_mixed"].value["partitions"] == [3, 4]
    assert "11, 12" in seen["steps_mixed"].message


def test_vectors_of_another_length(copy: Path, classes: None) -> None:
    def cut(state: dict[str, Any]) -> None:
        flats = state["optimizer_state_dict"]["fp32_flat_groups"]
        flats[0] = flats[0][:-3].clone()

    change(files(copy, "*_0_*optim*")[0], cut)
    seen = {each.kind: each.value for each in read_checkpoint(copy).observations}
    assert seen["size_mismatch"] == {"stored": 54, "needed": 57}
    assert "tensor_hole" in seen


def test_without_the_names(copy: Path) -> None:
    for path in files(copy, "zero_pp*model*"):
        path.unlink()
    with pytest.raises(InputError, match="no file of the model's states"):
        read_checkpoint(copy)


@pytest.mark.parametrize("tag", ["../elsewhere", "/tmp", "", "gone", "..", "\0"])
def test_what_latest_may_not_name(copy: Path, tag: str) -> None:
    (copy / "latest").write_text(tag)
    assert not deepspeed.recognises(copy)


def test_model_parallel_ranks_stay_apart(zero: Callable[[int, int], Path], tmp_path: Path) -> None:
    shutil.copytree(zero(3, 2), tmp_path / "copy")
    for path in files(tmp_path / "copy", "*mp_rank_00*"):
        shutil.copy(path, path.with_name(path.name.replace("mp_rank_00", "mp_rank_01")))
    stored = read_checkpoint(tmp_path / "copy")
    names = {entry.full_name for entry in stored.entries if entry.group == "model"}
    assert {"mp_rank_00.embed.weight", "mp_rank_01.embed.weight"} <= names
    assert stored.metadata["tensor_parallel"] == 2 and stored.metadata["world_size"] == 4
    tied = {entry.full_name: entry.same_as for entry in stored.entries if entry.same_as and entry.group == "model"}
    assert tied["mp_rank_01.head.weight"] == "mp_rank_01.embed.weight"
