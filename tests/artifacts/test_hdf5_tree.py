"""The objects of an HDF5 file, without its library: files of every form that h5py writes are in tests/checkpoints."""

from __future__ import annotations

import contextlib
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensoraudit.artifacts.hdf5 import Hdf5Error
from tensoraudit.artifacts.hdf5_chunks import read_chunks
from tensoraudit.artifacts.hdf5_datasets import Dataset
from tensoraudit.artifacts.hdf5_tree import read_tree

FIXTURES = Path(__file__).parents[2] / "fixtures" / "tensorflow"
NOWHERE = b"\xff" * 8


def tree(raw):
    return read_tree(memoryview(raw))


def test_a_model_of_keras():
    found = tree((FIXTURES / "dense.h5").read_bytes())
    data = found.datasets["model_weights/dense/sequential/dense/kernel"]
    assert (data.shape, data.dtype, data.codec) == ((3, 2), "float32", "")
    assert found.attributes["model_weights/dense"]["weight_names"] == [
        "sequential/dense/kernel",
        "sequential/dense/bias",
    ]


class Writer:
    """A file of the newest form, put together by hand; objects are placed as they are added."""

    def __init__(self):
        self.raw = bytearray(b"\x89HDF\r\n\x1a\n" + bytes((2, 8, 8, 0)) + bytes(36))

    def add(self, piece):
        place = len(self.raw)
        self.raw += piece
        return place

    def header(self, *messages):
        body = b"".join(bytes((kind,)) + struct.pack("<HB", len(text), 0) + text for kind, text in messages)
        return self.add(b"OHDR" + bytes((2, 2)) + struct.pack("<I", len(body)) + body + bytes(4))

    def finish(self, root):
        struct.pack_into("<QQQQ", self.raw, 12, 0, 2**64 - 1, len(self.raw), root)
        return bytes(self.raw)


def link(name, target):
    return 0x06, bytes((1, 0, len(name))) + name + struct.pack("<Q", target)


def space(*shape):
    return 0x01, bytes((2, len(shape), 0, 1)) + struct.pack(f"<{len(shape)}Q", *shape)


FLOAT32 = (0x03, bytes((0x11, 0x20, 0x1F, 0)) + struct.pack("<IHHBBBBI", 4, 0, 32, 23, 8, 0, 23, 127))


def contiguous(address, size):
    return 0x08, bytes((3, 1)) + struct.pack("<QQ", address, size)


def one_dataset(*shape, address=48, size=0):
    file = Writer()
    data = file.header(space(*shape), FLOAT32, contiguous(address, size))
    return file.finish(file.header(link(b"x", data)))


def test_one_dataset_by_hand():
    assert tree(one_dataset(2, 3)).datasets == {"x": Dataset((2, 3), "float32", 48, 24)}


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (one_dataset(2**40), "a dataset of 4,398,046,511,104 bytes at byte 48"),
        (one_dataset(2**63, 2**63), "a dataset of"),
        (one_dataset(1, address=10_000), "a dataset of 4 bytes at byte 10,000"),
        (one_dataset(*[1] * 40), "a dataset of 40 axes"),
    ],
)
def test_impossible_datasets(raw, words):
    with pytest.raises(Hdf5Error, match=words):
        tree(raw)


def test_a_group_in_itself_and_a_dataset_under_two_names():
    file = Writer()
    data = file.header(space(1), FLOAT32, contiguous(48, 4))
    group = len(file.raw)
    assert file.header(link(b"a", data), link(b"self", group), link(b"b", data)) == group
    found = tree(file.finish(group))
    assert (list(found.datasets), found.same, found.groups) == (["a"], {"b": "a"}, [""])


def test_groups_that_go_too_deep():
    file = Writer()
    inner = file.header()
    for _ in range(200):
        inner = file.header(link(b"g", inner))
    with pytest.raises(Hdf5Error, match="more than 100 deep"):
        tree(file.finish(inner))


def test_headers_that_share_bytes_end():
    """Each header goes on in one block that is long: a small file would take a day."""
    file = Writer()
    block = file.add(b"OCHK" + bytes((0, 0, 0, 0)) * 9_000 + bytes(4))
    more = (0x10, struct.pack("<QQ", block, 8 + 36_000))
    groups = [file.header(more) for _ in range(5_000)]
    root = file.header(*(link(b"g%d" % number, group) for number, group in enumerate(groups)))
    start = time.process_time()
    with pytest.raises(Hdf5Error, match="share bytes"):
        tree(file.finish(root))
    assert time.process_time() - start < 5


@pytest.mark.slow
def test_more_objects_than_are_read():
    file = Writer()
    groups = []
    for _ in range(310):
        objects = [file.header() for _ in range(1_000)]
        groups.append(file.header(*(link(b"%03d" % number, each) for number, each in enumerate(objects))))
    root = file.header(*(link(b"g%03d" % number, group) for number, group in enumerate(groups)))
    with pytest.raises(Hdf5Error, match="more than 300,000 objects"):
        tree(file.finish(root))


HDF5 = FIXTURES.parent / "hdf5"
VALUES = np.arange(60, dtype=np.float32).reshape(6, 10)


def test_the_newest_form():
    raw = (HDF5 / "newest.h5").read_bytes()
    found = tree(raw)
    assert len(found.datasets) == 14 and found.attributes["layer"]["text_7"] == ["value 7"]
    for number in range(12):
        data = found.datasets[f"layer/weight_{number}"]
        assert raw[data.offset : data.offset + data.bytes] == VALUES[number % 6].tobytes()


def test_chunks():
    for name, keys in (("chunked.h5", ("plain", "packed")), ("newest.h5", ("lone",))):
        raw = memoryview((HDF5 / name).read_bytes())
        for key in keys:
            assert read_chunks(raw, read_tree(raw).chunked[key], 1 << 20) == VALUES.tobytes()


def test_a_chunk_that_is_damaged():
    raw = bytearray((HDF5 / "chunked.h5").read_bytes())
    place = raw.index(b"\x78\x5e")
    raw[place : place + 20] = b"\xff" * 20
    with pytest.raises(Hdf5Error, match="a chunk that is damaged"):
        read_chunks(memoryview(raw), tree(raw).chunked["packed"], 1 << 20)


@pytest.mark.parametrize("name", ["tensorflow/dense.h5", "tensorflow/lambda.h5", "hdf5/newest.h5", "hdf5/chunked.h5"])
def test_mutated_files(name):
    original = (FIXTURES.parent / name).read_bytes()

    @settings(max_examples=400, deadline=5_000)
    @given(st.lists(st.tuples(st.integers(0, len(original) - 1), st.integers(0, 255)), min_size=1, max_size=4))
    def one(changes):
        raw = bytearray(original)
        for place, value in changes:
            raw[place] = value
        with contextlib.suppress(Hdf5Error):
            for header in tree(raw).chunked.values():
                read_chunks(memoryview(raw), header, 1 << 20)

    one()
    for cut in range(0, len(original), 97):
        with contextlib.suppress(Hdf5Error):
            tree(original[:cut])
