from __future__ import annotations

import struct

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto

from tensoraudit.artifacts.protobuf import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    WireError,
    fields,
    packed_varints,
    signed,
    text,
    varint,
)  # fmt: skip


def encode(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@given(st.integers(0, 2**64 - 1))
def test_varints(value: int) -> None:
    data = encode(value) + b"\xff"
    assert varint(data, 0, len(data)) == (value, len(data) - 1)


@given(st.integers(-(2**63), 2**63 - 1))
def test_signed_numbers_as_protobuf_writes_them(value: int) -> None:
    data = AttributeProto(i=value).SerializeToString()
    ((number, wire, raw, _),) = fields(data, 0, len(data))
    assert (number, wire, signed(raw)) == (3, VARINT, value)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.integers(1, 10))
def test_packed_numbers(values: list[int], limit: int) -> None:
    data = TensorProto(int64_data=values).SerializeToString()
    ((number, wire, start, end),) = fields(data, 0, len(data))
    assert (number, wire) == (7, BYTES)
    assert list(map(signed, packed_varints(data, start, end, limit))) == values[:limit]


def test_every_wire_type() -> None:
    data = (
        b"\x08\x96\x01"
        + b"\x11" + struct.pack("<d", 1.5)
        + b"\x1a\x03abc"
        + b"\x25" + struct.pack("<f", 2.5)
        + encode(1000 << 3 | 2) + encode(200) + b"x" * 200
    )  # fmt: skip
    found = list(fields(memoryview(data), 0, len(data)))
    assert [(number, wire) for number, wire, _, _ in found] == [
        (1, VARINT), (2, FIXED64), (3, BYTES), (4, FIXED32), (1000, BYTES),
    ]  # fmt: skip
    assert found[0][2] == 150
    assert data[found[2][2] : found[2][3]] == b"abc"
    assert found[4][3] - found[4][2] == 200


def test_a_real_message_field_by_field() -> None:
    message = descriptor_pb2.FileDescriptorProto(name="a.proto", dependency=["b", "c"])
    data = message.SerializeToString()
    assert [(n, text(data, s, e)) for n, _, s, e in fields(data, 0, len(data))] == [(1, "a.proto"), (3, "b"), (3, "c")]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x80", "varint"),
        (b"\x0a", "varint"),
        (b"\x0a\x80", "varint"),
        (b"\x0a\x02a", "declares 2 bytes, 1 are left"),
        (b"\x0a" + encode(2**63), "declares 9,223,372,036,854,775,808 bytes"),
        (b"\x08" + b"\xff" * 9 + b"\x7f", "varint"),
        (b"\x0d\x00", "cut short"),
        (b"\x09\x00", "cut short"),
        (b"\x0b", "wire type 3"),
        (b"\x0c", "wire type 4"),
        (b"\x0e", "wire type 6"),
        (b"\x0f", "wire type 7"),
        (b"\x02\x00", "field number 0"),
        (encode(2**32 | 2) + b"\x00", "field number"),
    ],
)
def test_what_is_no_message(data: bytes, words: str) -> None:
    with pytest.raises(WireError, match=words):
        list(fields(data, 0, len(data)))


def test_a_field_may_not_reach_beyond_its_message() -> None:
    data = b"\x0a\x05ab" + b"\x0a\x03xyz"  # the inner field would take from what follows the message
    with pytest.raises(WireError, match="declares 5 bytes, 2 are left"):
        list(fields(data, 0, 4))


def test_text_that_is_none() -> None:
    assert text(b"\xc3\xa4\xff\x00", 0, 4) == "ä\\xff\x00"
