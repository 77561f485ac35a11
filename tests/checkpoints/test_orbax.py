"""Orbax against what Orbax itself restores: names, types, shapes and every byte; and folders that are damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.checkpoints import orbax
from tensoraudit.checkpoints.schema import Entry, StoredCheckpoint
from tensoraudit.errors import InputError

pytestmark = pytest.mark.slow

TREES = ("database_zarr", "folders_zarr", "database_zarr3", "folders_zarr3")
ALL = (*TREES, "train_state", "chunks", "manager", "composite", "types_database", "types_folders")


def content(stored: StoredCheckpoint, entry: Entry) -> bytes:
    """The bytes of an entry, put together from its parts."""
    item = sum(part.bytes for part in entry.parts) // entry.numel
    whole = np.zeros((*entry.shape, item), np.uint8)
    for part in entry.parts:
        if part.codec:
            piece = orbax.inflate(stored.root, part)
        else:
            piece = (stored.root / part.file).read_bytes()[part.offset :][: part.bytes]
        assert len(piece) == part.bytes
        shape, start = part.shape or entry.shape, part.start or (0,) * len(entry.shape)
        box = tuple(slice(begin, begin + size) for begin, size in zip(start, shape, strict=True))
        whole[box] = np.frombuffer(piece, np.uint8).reshape(*shape, item)
    return whole.tobytes()


@pytest.mark.parametrize("name", ALL)
def test_every_array_is_found_with_its_bytes(jax_files, name):
    stored = orbax.read(jax_files.root / name)
    expected = jax_files.expected[name]
    assert {entry.full_name for entry in stored.entries} == set(expected)
    for entry in stored.entries:
        dtype, shape, data = expected[entry.full_name]
        assert entry.shape == shape
        if entry.dtype != dtype:  # a Python number comes back as Python's own type
            assert shape == ()
            continue
        assert content(stored, entry) == data, entry.full_name
    assert stored.observations == ()


@pytest.mark.parametrize("name", TREES)
def test_the_training_state_is_told(jax_files, name):
    stored = orbax.read(jax_files.root / name)
    assert stored.format == "orbax"
    assert stored.training.step == 7
    assert stored.training.rng == ("jax",)
    [optimizer] = stored.training.optimizers
    assert (optimizer.kind, optimizer.keyed, optimizer.parameters) == ("adam", "name", 4)
    assert stored.metadata["devices"] == 4
    assert stored.metadata["mesh"] == {"shape": [2, 2], "axis_names": ["x", "y"]}
    kernel = next(entry for entry in stored.entries if entry.full_name == "params.dense.kernel")
    assert {(part.start, part.shape) for part in kernel.parts} == {
        ((0, 0), (4, 3)), ((0, 3), (4, 3)), ((4, 0), (4, 3)), ((4, 3), (4, 3))
    }  # fmt: skip


def test_an_array_in_many_chunks_has_them_as_parts(jax_files):
    stored = orbax.read(jax_files.root / "chunks")
    w = next(entry for entry in stored.entries if entry.name == "w")
    assert len(w.parts) > 1
    assert sum(part.bytes for part in w.parts) == 70 * 41 * 4


def test_the_newest_step_of_a_manager_is_read(jax_files):
    stored = orbax.read(jax_files.root / "manager")
    assert (stored.metadata["step"], stored.metadata["steps"], stored.training.step) == (7, [5, 7], 7)
    older = orbax.read(jax_files.root / "manager" / "5")
    assert older.training.step == 5


def test_items_of_other_kinds_are_named(jax_files):
    stored = orbax.read(jax_files.root / "composite")
    assert stored.metadata["other_items"] == ["dataset"]
    assert stored.training.loader == {"dataset": None}
    assert stored.training.step == 12


@pytest.fixture
def copied(jax_files, tmp_path):
    def copy(name: str) -> Path:
        return Path(shutil.copytree(jax_files.root / name, tmp_path / name))

    return copy


def kinds(stored: StoredCheckpoint) -> list[tuple[str, str]]:
    return [(each.kind, each.subject) for each in stored.observations]


def test_a_save_that_did_not_end_is_said(copied):
    manager = copied("manager")
    (manager / "9.orbax-checkpoint-tmp" / "default").mkdir(parents=True)
    (manager / "7" / "default" / "_METADATA").unlink()
    stored = orbax.read(manager)
    assert kinds(stored) == [("unfinished", "9.orbax-checkpoint-tmp"), ("unfinished", "7")]
    assert stored.metadata["step"] == 5
    alone = orbax.read(manager / "7")
    assert ("unfinished", "7") in kinds(alone)
    assert {entry.full_name for entry in alone.entries} == {entry.full_name for entry in stored.entries}


def test_only_temporary_folders_are_no_checkpoint(tmp_path):
    (tmp_path / "9.orbax-checkpoint-tmp").mkdir()
    assert orbax.recognises(tmp_path)
    with pytest.raises(InputError, match="did not end"):
        orbax.read(tmp_path)


def test_a_chunk_that_is_gone_is_a_hole(copied):
    folder = copied("folders_zarr")
    (folder / "params.dense.kernel" / "0.1").unlink()
    (folder / "params.dense.bias" / ".zarray").unlink()
    assert kinds(orbax.read(folder)) == [
        ("tensor_missing", "params.dense.bias"),
        ("tensor_hole", "params.dense.kernel"),
    ]


def test_a_link_that_leads_out_is_not_followed(copied, tmp_path):
    folder = copied("folders_zarr")
    chunk = folder / "params.dense.kernel" / "0.1"
    chunk.rename(tmp_path / "elsewhere")
    chunk.symlink_to(tmp_path / "elsewhere")
    assert kinds(orbax.read(folder)) == [("tensor_hole", "params.dense.kernel")]


def test_a_missing_process_is_said(copied):
    folder = copied("database_zarr") / "array_metadatas"
    (folder / "process_0").rename(folder / "process_2")
    stored = orbax.read(folder.parent)
    assert kinds(stored) == [("rank_missing", "process 0"), ("rank_missing", "process 1")]


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree.update(tree_metadata=[]),
        lambda tree: tree["tree_metadata"].update(x={"key_metadata": 3}),
        lambda tree: tree["tree_metadata"].update(
            x={"key_metadata": [{"key": "k"}] * 70, "value_metadata": {"value_type": "a"}}
        ),
    ],
)
def test_a_broken_tree_is_refused(copied, change):
    path = copied("folders_zarr") / "_METADATA"
    tree = json.loads(path.read_text())
    change(tree)
    path.write_text(json.dumps(tree))
    with pytest.raises(InputError):
        orbax.read(path.parent)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("shape", [1 << 61, 1 << 61]),
        ("shape", [-1, 6]),
        ("chunks", [0, 3]),
        ("chunks", [4]),
        ("dtype", "|O"),
        ("dtype", [["a", "<f4"]]),
        ("compressor", 3),
        ("filters", [{}]),
    ],
)
def test_a_description_that_cannot_be_costs_its_own_array_only(copied, key, value):
    path = copied("folders_zarr") / "params.dense.kernel" / ".zarray"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    stored = orbax.read(path.parents[1])
    assert kinds(stored) == [("file_unread", "params.dense.kernel")]


def test_a_chunk_that_claims_to_be_huge_is_not_unpacked(copied):
    path = copied("folders_zarr") / "params.dense.kernel" / ".zarray"
    path.write_text(json.dumps({**json.loads(path.read_text()), "shape": [1 << 40, 6], "chunks": [1 << 40, 6]}))
    stored = orbax.read(path.parents[1])
    kernel = next(entry for entry in stored.entries if entry.full_name == "params.dense.kernel")
    (path.parent / "0.0").touch()
    with pytest.raises(ValueError, match="more than are unpacked"):
        orbax.inflate(stored.root, kernel.parts[0])


def test_a_damaged_database_is_refused(copied):
    folder = copied("database_zarr")
    [node] = (folder / "d").iterdir()
    data = bytearray(node.read_bytes())
    data[len(data) // 2] ^= 1
    node.write_bytes(data)
    with pytest.raises(InputError, match="checksum"):
        orbax.read(folder)
