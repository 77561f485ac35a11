"""Flax's MessagePack against Flax, and files that are damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensoraudit.checkpoints import flax_msgpack
from tensoraudit.checkpoints.schema import Entry, StoredCheckpoint
from tensoraudit.errors import InputError


def pack(value) -> bytes:
    """The values that these tests need, in the longest form of each."""
    if isinstance(value, np.ndarray):
        inner = pack([list(value.shape), value.dtype.name, value.tobytes()])
        return b"\xc9" + struct.pack(">I", len(inner)) + b"\x01" + inner
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return b"\xd3" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        return b"\xda" + struct.pack(">H", len(value)) + value.encode()
    if isinstance(value, bytes):
        return b"\xc6" + struct.pack(">I", len(value)) + value
    if isinstance(value, list):
        return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(pack, value))
    return b"\xdf" + struct.pack(">I", len(value)) + b"".join(pack(key) + pack(each) for key, each in value.items())


def raw_array(shape, dtype, data) -> bytes:
    inner = pack([shape, dtype, data])
    return b"\xdf\0\0\0\1" + pack("a") + b"\xc9" + struct.pack(">I", len(inner)) + b"\x01" + inner


def read(folder: Path, data: bytes) -> StoredCheckpoint:
    path = folder / "x.msgpack"
    path.write_bytes(data)
    return flax_msgpack.read(path)


def content(stored: StoredCheckpoint, entry: Entry) -> bytes:
    data = (stored.root / entry.parts[0].file).read_bytes()
    return b"".join(data[part.offset : part.offset + part.bytes] for part in entry.parts)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["params.msgpack", "state.msgpack"])
def test_every_array_is_read_with_its_bytes(jax_files, name):
    path = jax_files.root / name
    assert flax_msgpack.recognises(path)
    stored = flax_msgpack.read(path)
    expected = jax_files.expected[name]
    assert {entry.full_name for entry in stored.entries} == set(expected)
    for entry in stored.entries:
        dtype, shape, data = expected[entry.full_name]
        assert (entry.dtype, entry.shape) == (dtype, shape)
        assert content(stored, entry) == data, entry.full_name
    assert stored.observations == ()


@pytest.mark.slow
def test_the_state_of_training_and_pieces_of_an_array(jax_files):
    stored = flax_msgpack.read(jax_files.root / "state.msgpack")
    assert (stored.training.step, stored.training.epoch, stored.training.rng) == (5, 2, ("jax",))
    [optimizer] = stored.training.optimizers
    assert (optimizer.kind, optimizer.fields, optimizer.parameters) == ("sgd", ("trace",), 1)
    kernel = next(entry for entry in stored.entries if entry.name == "dense.kernel")
    assert [(part.start, part.shape) for part in kernel.parts] == [((0,), (25,)), ((25,), (25,)), ((50,), (10,))]
    groups = {entry.full_name: entry.group for entry in stored.entries}
    assert groups["batch_stats.norm.mean"] == "model"
    assert groups["opt_state.0.trace.w"] == "optimizer"


def test_without_flax_the_form_is_the_same(tmp_path):
    tree = {"params": {"k": np.arange(6.0).reshape(2, 3), "l": [np.ones(2, np.int8)]}, "step": 3, "lr": 0.5, "e": {}}
    stored = read(tmp_path, pack(tree))
    assert flax_msgpack.recognises(tmp_path / "x.msgpack")
    assert {entry.full_name: entry.shape for entry in stored.entries} == {"params.k": (2, 3), "params.l.0": (2,)}
    assert content(stored, stored.entries[0]) == np.arange(6.0).tobytes()
    assert stored.training.step == 3
    assert stored.metadata["keys"] == ["params", "step", "lr", "e"]


def test_bytes_behind_the_tree_and_no_array(tmp_path):
    stored = read(tmp_path, pack({"step": 3}) + b"xyz")
    assert [(each.kind, each.value) for each in stored.observations] == [("no_tensors", 0), ("bytes_unclaimed", 3)]


def chunked(shape, chunks):
    return {"__msgpack_chunked_array__": True, "shape": shape, "chunks": chunks}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        pack([1, 2]),
        pack({"a": np.ones(3)})[:-1],
        raw_array([3], "float32", bytes(11)),
        raw_array([-3], "float32", b""),
        raw_array([1 << 40, 1 << 40], "float32", bytes(12)),
        raw_array([3], "object", bytes(24)),
        raw_array([3], "nothing", bytes(24)),
        raw_array([3], 5, bytes(24)),
        raw_array(3, "float32", bytes(12)),
        raw_array([True], "int8", bytes(1)),
        raw_array([1] * 65, "int8", bytes(1)),
        b"\xdf\0\0\0\1" + pack("a") + b"\xd4\x01\x05",
        pack({"a": chunked({"0": 4}, {"0": np.ones(3)})}),
        pack({"a": chunked({"0": 3}, {"1": np.ones(3)})}),
        pack({"a": chunked({"0": 4}, {"0": np.ones(2), "1": np.ones(2, np.int8)})}),
        pack({"a": chunked(3, {"0": np.ones(3)})}),
        pack({"a": chunked({"0": 3}, {"0": 5})}),
        pack({"a": {"__msgpack_chunked_array__": True}}),
        b"\x81\xa1a" * 200 + b"\x01",
    ],
)
def test_what_is_no_whole_file_is_refused(tmp_path, data):
    with pytest.raises(InputError):
        read(tmp_path, data)


@pytest.mark.slow
def test_ten_million_keys_are_refused(tmp_path):
    one = b"".join(b"\xa7%07d\x01" % number for number in range(100_000))
    data = (
        b"\xdf"
        + struct.pack(">I", 100)
        + b"".join(b"\xa3%03d\xdf" % number + struct.pack(">I", 100_000) + one for number in range(100))
    )
    with pytest.raises(InputError, match="more than"):
        read(tmp_path, data)


@pytest.mark.parametrize(
    "data", [b"", b"\x80\x02}q\0.", b"PK\3\4", b"{}", b"\x81", b"\x81\xa0", b"\x89HDF\r\n\x1a\n", b"\x81\x05\x01"]
)
def test_other_files_are_not_claimed(tmp_path, data):
    (tmp_path / "x.bin").write_bytes(data)
    assert not flax_msgpack.recognises(tmp_path / "x.bin")
    assert not flax_msgpack.recognises(tmp_path)


SEED = pack({"p": {"k": np.arange(6.0).reshape(2, 3), "c": chunked({"0": 3}, {"0": np.ones(3)})}, "step": 3})


@settings(max_examples=500)
@given(st.data())
def test_mutated_files_give_an_answer_or_a_refusal(tmp_path_factory, data):
    mutated = bytearray(SEED)
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(SEED) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "mutated.msgpack"
    path.write_bytes(mutated)
    flax_msgpack.recognises(path)
    try:
        stored = flax_msgpack.read(path)
    except InputError:
        return
    for entry in stored.entries:
        assert sum(part.bytes for part in entry.parts) <= len(mutated)
