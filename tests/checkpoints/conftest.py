"""Checkpoints that the tests of this folder share, written by the frameworks themselves."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensoraudit.checkpoints.schema import Entry, Part, StoredCheckpoint

FIXTURES = Path(__file__).parents[2] / "fixtures" / "checkpoints"


@dataclass(frozen=True)
class Made:
    """A folder of checkpoints, and what is in each."""

    root: Path
    expected: dict[str, dict[str, tuple[str, tuple[int, ...], bytes | None]]]


def run_script(script: str, variable: str, root: Path) -> Any:
    """Run a script of this folder in the interpreter that a variable names, and return what it expects of its files."""
    python = os.environ.get(variable)
    if not python:
        pytest.skip(f"{variable} names no interpreter")
    place = Path(__file__).with_name(script)
    done = subprocess.run([python, str(place), str(root)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    return json.loads((root / "expected.json").read_text())


def made_of(root: Path) -> Made:
    """What a script wrote, with the bytes of each tensor."""
    table = json.loads((root / "expected.json").read_text())
    with np.load(root / "expected.npz") as data:
        expected = {
            checkpoint: {
                name: (dtype, tuple(shape), data[key].tobytes() if key else None) for name, dtype, shape, key in tensors
            }
            for checkpoint, tensors in table.items()
        }
    return Made(root, expected)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """Return what makes a folder once for all processes of a test run, whichever of them asks first."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent

    def make(name: str, write: Callable[[Path], object]) -> Path:
        root, done = shared / name, shared / f"{name}.done"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(root, ignore_errors=True)
                root.mkdir()
                write(root)
                done.touch()
        return root

    return make


@pytest.fixture(scope="session")
def tensorflow_files(made_once: Callable[..., Path]) -> Made:
    """Checkpoints of TensorFlow, Keras and h5py (see tensorflow_files.py for their names)."""
    script = partial(run_script, "tensorflow_files.py", "TENSORAUDIT_TF_PYTHON")
    return made_of(made_once("tensorflow_files", script))


@pytest.fixture(scope="session")
def jax_files(made_once: Callable[..., Path]) -> Made:
    """Checkpoints of Orbax and Flax, and what TensorStore packs (see jax_files.py for their names)."""
    return made_of(made_once("jax_files", partial(run_script, "jax_files.py", "TENSORAUDIT_JAX_PYTHON")))


@pytest.fixture(scope="module")
def format_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Any]]]:
    """The same tensors in every format, and dtype, shape and digest of each (see format_files.py)."""
    root = tmp_path_factory.mktemp("formats")
    return root, run_script("format_files.py", "TENSORAUDIT_JAX_PYTHON", root)


@pytest.fixture(scope="session")
def stored_bytes() -> Callable[[StoredCheckpoint, Entry], bytes]:
    """Return the bytes of an entry in C order, put together from its parts by numpy."""

    def read(stored: StoredCheckpoint, entry: Entry) -> bytes:
        width = sum(part.bytes for part in entry.parts) // max(1, entry.numel) if entry.numel else 1
        whole = np.zeros((*entry.shape, width), np.uint8)
        for part in entry.parts:
            assert part.offset is not None and not part.codec
            with (stored.root / part.file).open("rb") as file:
                file.seek(part.offset)
                piece = np.frombuffer(file.read(part.bytes), np.uint8)
            start = part.start or (0,) * len(entry.shape)
            shape = part.shape or entry.shape
            place = tuple(slice(begin, begin + size) for begin, size in zip(start, shape, strict=True))
            whole[place] = piece.reshape(*shape, width)
        return whole.tobytes()

    return read


@pytest.fixture(scope="session")
def torch_sharded(made_once: Callable[..., Path]) -> Path:
    """Every kind of fixtures/checkpoints/torch_sharded.py in a folder of its name."""
    return made_once("torch_sharded", _write_sharded)


def _write_sharded(root: Path) -> None:
    script = str(FIXTURES / "torch_sharded.py")
    two = "distributed_checkpoint,flat_names,dtensor_ranks,fsdp_sharded,fsdp_local,fsdp_local_original,full"
    for kinds, processes in ((two, "2"), ("two_axes,tensor_and_data_parallel", "4")):
        command = [sys.executable, script, kinds, str(root), processes]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr[-3_000:]


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def _block(pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
    out = bytearray()
    last = b""
    for key, value in pairs:
        shared = next((place for place, pair in enumerate(zip(last, key, strict=False)) if len(set(pair)) > 1), 0)
        out += _varint(shared) + _varint(len(key) - shared) + _varint(len(value)) + key[shared:] + value
        last = key
    return bytes(out) + (0).to_bytes(4, "little") + (1).to_bytes(4, "little")


@pytest.fixture(scope="session")
def make_table() -> Callable[..., bytes]:
    """Return a writer of sorted string tables with one restart per block."""

    def make(pairs: Sequence[tuple[bytes, bytes]], block: int = 1_000) -> bytes:
        out = bytearray()
        handles = []
        for start in range(0, len(pairs), block):
            body = _block(pairs[start : start + block])
            handles.append((pairs[start][0], _varint(len(out)) + _varint(len(body))))
            out += body + bytes(5)
        for body in (_block([]), _block(handles)):
            place = _varint(len(out)) + _varint(len(body))
            out += body + bytes(5)
            handles.append((b"", place))
        footer = handles[-2][1] + handles[-1][1]
        return bytes(out) + footer.ljust(40, b"\0") + (0xDB4775248B80FB57).to_bytes(8, "little")

    return make


@pytest.fixture
def store(tmp_path: Path) -> Callable[..., StoredCheckpoint]:
    """Write arrays into one raw file and return the checkpoint that describes it: `store("a", {"w": array})`.

    An array may come with the name of its dtype, its group or its axes: `{"w": (array, {"dtype": "bfloat16"})}`.
    """

    def write(file: str, tensors: dict, **known: object) -> StoredCheckpoint:
        entries, content = [], b"head"
        for name, value in tensors.items():
            array, more = value if isinstance(value, tuple) else (value, {})
            part = Part(file, len(content), array.nbytes)
            fields = {"dtype": array.dtype.name, **more}
            entries.append(Entry(name, shape=array.shape, parts=(part,), **fields))
            content += np.ascontiguousarray(array).tobytes()
        (tmp_path / file).write_bytes(content)
        return StoredCheckpoint(tmp_path / file, tmp_path, "raw", "numpy", (file,), tuple(entries), **known)

    return write
