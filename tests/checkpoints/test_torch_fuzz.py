"""Mutated files of every PyTorch reader: an answer whose places lie in the files, or an InputError. Nothing runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from tensoraudit.checkpoints import deepspeed, torch_file, torch_ranks
from tensoraudit.checkpoints.schema import StoredCheckpoint
from tensoraudit.errors import InputError

SCRIPT = Path(__file__).parents[2] / "fixtures" / "checkpoints" / "deepspeed_zero.py"
SETTINGS = settings(
    max_examples=120, deadline=10_000, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("seeds")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    content = {"model": net.state_dict(), "opt": optimizer.state_dict(), "rng": torch.get_rng_state()[:16], "step": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, (each, new) in enumerate([(content, True), (content, False), (net, True), (net, False)]):
            torch.save(each, folder / f"{number}.pt", _use_new_zipfile_serialization=new)
        torch.jit.trace(net.eval(), torch.ones(1, 2)).save(str(folder / "script.pt"))
    torch.export.save(torch.export.export(net, (torch.ones(1, 2),)), folder / "program.pt2")
    return [path.read_bytes() for path in sorted(folder.iterdir())]


@pytest.fixture(scope="module")
def zero(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zero") / "c"
    subprocess.run([sys.executable, str(SCRIPT), "3", str(folder)], check=True, timeout=120)
    return folder


def mutated(content: bytes, data: st.DataObject) -> bytes:
    """Flip a few bytes, most of them where pickles are, or cut a piece out."""
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(1, 6))):
        end = len(changed) if data.draw(st.booleans()) else min(len(changed), 1_500)
        changed[data.draw(st.integers(0, end - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.integers(0, 9)) == 0:
        start = data.draw(st.integers(0, len(changed) - 1))
        del changed[start : start + data.draw(st.integers(1, 64))]
    return bytes(changed)


def check(read: Callable[[Path], StoredCheckpoint], path: Path, root: Path) -> None:
    try:
        stored = read(path)
    except InputError:
        return
    sizes = {each.relative_to(root).as_posix(): each.stat().st_size for each in root.rglob("*") if each.is_file()}
    for part in (part for entry in stored.entries for part in entry.parts):
        if part.offset is not None:
            assert 0 <= part.offset <= part.offset + part.bytes <= sizes[part.file]


@SETTINGS
@given(st.data())
def test_one_file(tmp_path: Path, seeds: list[bytes], data: st.DataObject) -> None:
    path = tmp_path / "w.pt"
    path.write_bytes(mutated(data.draw(st.sampled_from(seeds)), data))
    torch_file.recognises(path)
    check(torch_file.read, path, tmp_path)


@SETTINGS
@given(st.data())
def test_files_of_ranks(tmp_path: Path, seeds: list[bytes], data: st.DataObject) -> None:
    for rank in range(2):
        (tmp_path / f"model_rank{rank}.pt").write_bytes(mutated(data.draw(st.sampled_from(seeds[:4])), data))
    torch_ranks.recognises(tmp_path)
    check(torch_ranks.read, tmp_path, tmp_path)


@SETTINGS
@given(st.data())
def test_zero_folders(tmp_path: Path, zero: Path, data: st.DataObject) -> None:
    tag = tmp_path / "tag"
    shutil.copytree(zero / "global_step12", tag, dirs_exist_ok=True)
    path = data.draw(st.sampled_from(sorted(tag.iterdir())))
    path.write_bytes(mutated(path.read_bytes(), data))
    check(deepspeed.read, tag, tag)
