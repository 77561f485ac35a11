"""The fuzz targets: what ever broke a reader is replayed, and each target reads honest and mutated files."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

FUZZ = Path(__file__).parents[2] / "fuzz"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"fuzz_{name}", FUZZ / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TARGETS, SEEDS = load("targets"), load("seeds")
FOUND = sorted(path for path in (FUZZ / "found").glob("*/*") if path.is_file())


def test_every_target_has_seeds_and_every_finding_a_target():
    assert TARGETS.TARGETS.keys() == SEEDS.SEEDS.keys()
    assert {path.parent.name for path in FOUND} <= TARGETS.TARGETS.keys()


def test_what_was_found_stays_mended(tmp_path):
    for number, path in enumerate(FOUND):
        folder = tmp_path / str(number)
        folder.mkdir()
        with contextlib.suppress(*TARGETS.REFUSALS):
            TARGETS.TARGETS[path.parent.name](path.read_bytes(), folder)


@pytest.mark.parametrize("name", TARGETS.TARGETS)
def test_honest_files_are_read(name, tmp_path):
    """Most seeds get through; where none does, the target fuzzes a refusal."""
    read = 0
    for content in SEEDS.SEEDS[name]():
        with contextlib.suppress(*TARGETS.REFUSALS):
            TARGETS.TARGETS[name](content, tmp_path)
            read += 1
    assert read


@pytest.mark.parametrize("name", TARGETS.TARGETS)
def test_mutated_files_give_an_answer_or_a_refusal(name, tmp_path):
    draws = random.Random(name)
    for content in SEEDS.SEEDS[name]():
        for _ in range(20):
            with contextlib.suppress(*TARGETS.REFUSALS):
                TARGETS.TARGETS[name](mutated(content, draws), tmp_path)


def mutated(content: bytes, draws: random.Random) -> bytes:
    """A few bytes changed, a piece repeated or left out, or the end cut off."""
    data = bytearray(content)
    for _ in range(draws.randint(1, 4)):
        at, length = draws.randrange(len(data) + 1), draws.randint(1, 8)
        piece = draws.choice([draws.randbytes(length), data[at : at + length] * 2, b"", b"\xff" * length])
        data[at : at + length] = piece
    return bytes(data[: draws.randrange(len(data) + 1)] if draws.random() < 0.2 else data)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
@pytest.mark.parametrize("name", ["pickle", "safetensors", "hdf5"])
def test_the_fuzzer_runs(name, tmp_path):
    command = [sys.executable, str(FUZZ / "run.py"), name, "-runs=1000", "-max_total_time=3", "-seed=1"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-3_000:]
    assert "Done" in done.stderr
