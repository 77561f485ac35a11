"""OCDBT databases by hand, unpacked: trees that lie. What TensorStore writes is in tests/checkpoints/test_ocdbt.py."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensoraudit.artifacts.crc32c import crc32c
from tensoraudit.artifacts.ocdbt import MANIFEST, Place, read_database
from tensoraudit.errors import InputError


def varints(*numbers: int) -> bytes:
    out = bytearray()
    for number in numbers:
        while number >= 0x80:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        out.append(number)
    return bytes(out)


def wrapped(magic: int, body: bytes) -> bytes:
    whole = magic.to_bytes(4, "big") + (len(body) + 18).to_bytes(8, "little") + b"\0\0" + body
    return whole + crc32c(whole).to_bytes(4, "little")


def table(*files: str) -> bytes:
    names = [each.encode() for each in files]
    return varints(len(names), *[0] * (len(names) - 1), *map(len, names), *[0] * len(names)) + b"".join(names)


def keys(*names: str) -> bytes:
    return varints(*[0] * (len(names) - 1), *map(len, names))


def leaf(values: dict[str, bytes]) -> bytes:
    head = b"\0" + table() + varints(len(values)) + keys(*values) + "".join(values).encode()
    return head + varints(*map(len, values.values())) + bytes(len(values)) + b"".join(values.values())


def apart(name: str, offset: int, length: int, file: str = "d/0") -> bytes:
    return b"\0" + table(file) + varints(1) + keys(name) + name.encode() + varints(length) + b"\1" + varints(0, offset)


def parent(name: str, common: int, place: Place, height: int = 1) -> bytes:
    head = bytes([height]) + table(place.file) + varints(1) + keys(name) + varints(common) + name.encode()
    return head + varints(0, place.offset, place.length, 1, 1, 1)


def write(folder, *nodes: bytes, height: int = 0, file: str = "d/0", root: int = 0) -> None:
    """A database whose nodes stand one after another in d/0; `root` is the number of the first."""
    packed = [wrapped(0x0CDB20DE, node) for node in nodes]
    (folder / "d").mkdir(exist_ok=True)
    (folder / "d" / "0").write_bytes(b"".join(packed))
    start = sum(map(len, packed[:root]))
    body = bytes(16) + varints(0, 1024, 1 << 20) + b"\4" + varints(0) + table(file)
    body += varints(1, 1) + bytes([height]) + varints(0, start, len(packed[root]), 1, 1, 1) + bytes(8) + varints(0)
    (folder / MANIFEST).write_bytes(wrapped(0x0CDB3A2A, body))


VALUES = {"a/.zarray": b"{}", "b": b"xyz", "c": b""}


def test_the_checksum_of_the_standard():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA


def test_values_in_the_tree_and_apart(tmp_path):
    write(tmp_path, leaf(VALUES))
    assert read_database(tmp_path) == VALUES
    write(tmp_path, apart("k", 5, 7))
    assert read_database(tmp_path) == {"k": Place("d/0", 5, 7)}


def test_keys_below_a_parent_begin_with_what_they_share(tmp_path):
    below = leaf({"x": b"1"})
    write(tmp_path, below, parent("ab", 1, Place("d/0", 0, len(below) + 18)), height=1, root=1)
    assert read_database(tmp_path) == {"ax": b"1"}


def test_a_tree_that_contains_itself_is_refused(tmp_path):
    size = len(parent("a", 0, Place("d/0", 0, 1))) + 18
    write(tmp_path, parent("a", 0, Place("d/0", 0, size)), height=1)
    with pytest.raises(InputError, match="part of the tree twice"):
        read_database(tmp_path)


@pytest.mark.parametrize("file", ["../d/0", "/etc/passwd", "d/missing", "d", "d/\0", "d/" + "x" * 300])
def test_files_that_lead_out_or_nowhere_are_refused(tmp_path, file):
    write(tmp_path, leaf(VALUES), file=file)
    with pytest.raises(InputError, match="its file"):
        read_database(tmp_path)


@pytest.mark.parametrize(
    "node",
    [
        b"",
        b"\1",
        leaf(VALUES)[:-1],
        b"\0" + varints(1 << 40),
        b"\0" + table() + varints(1 << 40),
        b"\0" + table() + varints(1, 1 << 40),
        b"\0" + table() + varints(2, 5, 1, 1) + b"ab" + varints(0, 0) + bytes(2),
        b"\0" + table() + varints(1, 1) + b"a" + varints(0) + b"\2",
        b"\0" + table() + varints(1, 1) + b"a" + varints(3) + b"\1" + varints(0, 0),
        b"\0" + varints(2, 9, 1, 1, 0, 0) + b"ab",
        b"\0" + b"\xff" * 20,
    ],
)
def test_nodes_that_cannot_be_are_refused(tmp_path, node):
    write(tmp_path, node)
    with pytest.raises(InputError, match="damaged OCDBT"):
        read_database(tmp_path)


def test_other_files_are_refused(tmp_path):
    for data in (b"", b"x" * 30, wrapped(0x0CDB3A2A, bytes(16) + varints(1))):
        (tmp_path / MANIFEST).write_bytes(data)
        with pytest.raises(InputError):
            read_database(tmp_path)


@settings(max_examples=400)
@given(st.sampled_from([leaf(VALUES), apart("key", 5, 7)]), st.data())
def test_mutated_nodes_with_right_checksums_give_an_answer_or_a_refusal(tmp_path_factory, node, data):
    mutated = bytearray(node)
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(node) - 1))] = data.draw(st.integers(0, 255))
    folder = tmp_path_factory.getbasetemp()
    write(folder, bytes(mutated))
    try:
        found = read_database(folder)
    except InputError:
        return
    assert all(isinstance(place, bytes | Place) for place in found.values())
