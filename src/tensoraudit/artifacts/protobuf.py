"""The protobuf wire format, as far as reading needs it.

Why not the `onnx` or `protobuf` package: the main process must start at once and import no framework; a protobuf parser
copies every weight of the file into memory and refuses files past 2 GiB; and here the input may be hostile, so each
length is checked against what encloses it before it is used. This reader knows tags and lengths only. It yields places
in the file; whoever knows the schema decides what to look at, and weights are never touched.

Format: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Buffer = bytes | memoryview
Field = tuple[int, int, int, int]
"""(number, wire type, start, end) of a field's payload; for a varint `start` is the value, `end` where it ends."""


class WireError(ValueError):
    """The bytes are no protobuf message. Whoever knows the file turns it into an InputError."""


def fields(data: Buffer, start: int, end: int) -> Iterator[Field]:
    """Yield the fields of the message in data[start:end], in file order, without looking into them.

    Raises WireError where a tag, a varint or a length is not possible within these bounds. Groups (wire types 3 and 4,
    given up in 2008) are refused: no format read here has them.
    """
    at = start
    while at < end:
        tag = data[at]
        at += 1
        if tag >= 0x80:
            tag, at = varint(data, at - 1, end)
        wire = tag & 7
        if tag < 8 or tag > 0xFFFFFFFF:
            raise WireError(f"field number {tag >> 3} at byte {at - 1}")
        if wire == BYTES:
            if at < end and data[at] < 0x80:
                length = data[at]
                at += 1
            else:
                length, at = varint(data, at, end)
            stop = at + length
            if stop > end:
                raise WireError(f"field {tag >> 3} at byte {at} declares {length:,} bytes, {end - at:,} are left")
            yield tag >> 3, BYTES, at, stop
            at = stop
        elif wire == VARINT:
            value, at = varint(data, at, end)
            yield tag >> 3, VARINT, value, at
        elif wire in (FIXED32, FIXED64):
            stop = at + (4 if wire == FIXED32 else 8)
            if stop > end:
                raise WireError(f"field {tag >> 3} at byte {at} is cut short")
            yield tag >> 3, wire, at, stop
            at = stop
        else:
            raise WireError(f"wire type {wire} at byte {at - 1}")


def varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """Return the unsigned varint at `at`, and where it ends. Raises WireError past `end` or past 64 bits."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return value, at
        shift += 7
        if shift > 63:
            break
    raise WireError(f"varint that does not end at byte {at}")


def signed(value: int) -> int:
    """Return the int64 that a varint stands for (two's complement)."""
    return value - (1 << 64) if value >> 63 else value


def text(data: Buffer, start: int, end: int) -> str:
    """Return a string field. Bytes that are no UTF-8 stay visible and distinct as `\\xNN`."""
    return str(bytes(data[start:end]), "utf-8", "backslashreplace")


def packed_varints(data: Buffer, start: int, end: int, limit: int) -> list[int]:
    """Return at most `limit` varints of a packed repeated field."""
    values: list[int] = []
    at = start
    while at < end and len(values) < limit:
        value, at = varint(data, at, end)
        values.append(value)
    return values
