"""AttributeProto as a Python value: scalars, tuples, small tensors as nested tuples. Subgraphs are for the caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tensoraudit.artifacts.onnx_file import Span, TensorHeader, read_tensor
from tensoraudit.artifacts.protobuf import (
    BYTES,
    FIXED32,
    VARINT,
    Buffer,
    WireError,
    fields,
    packed_varints,
    signed,
    text,
)
from tensoraudit.extract.onnx_schema import constant_of, plain, read_type
from tensoraudit.facts import Unknown

MAX_NUMBERS: Final = 1 << 16
"""Numbers up to which a list is a fact; the trees of `ai.onnx.ml` have millions."""

Part = tuple[int, int, int]
"""(wire type, start, end) of one occurrence of a field; for a varint `start` is the value."""


@dataclass(slots=True)
class Attribute:
    """An attribute. `value` is plain data, or `Unknown` with the reason. `graphs` are the spans of its subgraphs, and
    `many` tells that the attribute is a list of them. `tensor` is the header of its tensor."""

    name: str
    value: Any = None
    graphs: list[Span] = field(default_factory=list)
    many: bool = False
    tensor: TensorHeader | None = None


def read_attribute(data: Buffer, start: int, end: int) -> Attribute:
    """Read an AttributeProto. Raises WireError for one that cannot be."""
    parts: dict[int, list[Part]] = {}
    for number, wire, at, stop in fields(data, start, end):
        parts.setdefault(number, []).append((wire, at, stop))
    attribute = Attribute(_last_text(data, parts.get(1)))
    caller = _last_text(data, parts.get(21))
    if caller:
        attribute.value = Unknown(f"the caller's attribute {caller!r}")
        return attribute
    chosen = _value_field(parts)
    if chosen in _READERS:
        wires, read = _READERS[chosen]
        values = parts.get(chosen, [])
        if any(each[0] not in wires for each in values):
            raise WireError(f"attribute {attribute.name!r} has a field of the wrong wire type")
        read(data, values, attribute)
    else:
        attribute.value = Unknown("an attribute without a value")
    return attribute


def _value_field(parts: dict[int, list[Part]]) -> int:
    """The field that `type` names; files of IR version 1 give no type, there the field that is set decides."""
    kind = next((at for wire, at, _ in parts.get(20, ()) if wire == VARINT), 0)
    return _FIELD_OF_KIND.get(kind) or next((number for number in _READERS if number in parts), 0)


def _last_text(data: Buffer, parts: list[Part] | None) -> str:
    return text(data, parts[-1][1], parts[-1][2]) if parts and parts[-1][0] == BYTES else ""


def _float(data: Buffer, parts: list[Part], attribute: Attribute) -> None:
    attribute.value = _float_values(data, parts[-1:])[0] if parts else 0.0


def _int(data: Buffer, parts: list[Part], attribute: Attribute) -> None:
    attribute.value = signed(parts[-1][1]) if parts else 0


def _string(data: Buffer, parts: list[Part], attribute: Attribute) -> None:
    attribute.value = _last_text(data, parts)


def _tensor(data: Buffer, parts: list[Part], attribute: Attribute) -> None:
    if not parts:
        attribute.value = Unknown("an attribute without a value")
        return
    attribute.tensor = read_tensor(data, parts[-1][1], parts[-1][2])
    attribute.value = constant_of(data, attribute.tensor)


def _tensors(data: Buffer, parts: list[Part], attribute: Attribute) -> None:
    attribute.value = tuple(constant_of(data, read_tensor(data, at, stop)) for _, at, stop in parts[:MAX_NUMBERS])


def _graph(data: Buffer, parts: list[Part], attribute: Attribute) -> None:
    attribute.graphs = [(at, stop) for _, at, stop in parts[-1:]]


def _graphs(data: Buffer, parts: list[Part], attribute: Attribute) -> None:
    attribute.graphs, attribute.many = [(at, stop) for _, at, stop in parts], True


def _floats(data: Buffer, parts: list[Part], attribute: Attribute) -> None:
    count = sum((stop - at) // 4 for _, at, stop in parts)
    attribute.value = tuple(_float_values(data, parts)) if count <= MAX_NUMBERS else _too_many(count)


def _float_values(data: Buffer, parts: list[Part]) -> list[Any]:
    raw = b"".join(bytes(data[at:stop]) for _, at, stop in parts)
    if len(raw) % 4:
        raise WireError("packed floats are cut short")
    return plain(np.frombuffer(raw, dtype="<f4"))


def _ints(data: Buffer, parts: list[Part], attribute: Attribute) -> None:
    values: list[int] = []
    for wire, at, stop in parts:
        values += [at] if wire == VARINT else packed_varints(data, at, stop, MAX_NUMBERS + 1)
        if len(values) > MAX_NUMBERS:
            attribute.value = _too_many(None)
            return
    attribute.value = tuple(map(signed, values))


def _strings(data: Buffer, parts: list[Part], attribute: Attribute) -> None:
    many = len(parts) > MAX_NUMBERS
    attribute.value = _too_many(len(parts)) if many else tuple(text(data, at, stop) for _, at, stop in parts)


def _type(data: Buffer, parts: list[Part], attribute: Attribute) -> None:
    attribute.value = (
        read_type(data, parts[-1][1], parts[-1][2])[0] if parts else Unknown("an attribute without a value")
    )


def _types(data: Buffer, parts: list[Part], attribute: Attribute) -> None:
    attribute.value = tuple(read_type(data, at, stop)[0] for _, at, stop in parts[:MAX_NUMBERS])


def _sparse(data: Buffer, parts: list[Part], attribute: Attribute) -> None:
    attribute.value = Unknown("a sparse tensor")


def _too_many(count: int | None) -> Unknown:
    return Unknown(f"a list of {f'{count:,}' if count else 'many'} values, more than {MAX_NUMBERS:,}")


_ONE: Final = (BYTES,)
_READERS: Final[dict[int, tuple[tuple[int, ...], Callable[[Buffer, list[Part], Attribute], None]]]] = {
    2: ((FIXED32,), _float), 3: ((VARINT,), _int), 4: (_ONE, _string), 5: (_ONE, _tensor), 6: (_ONE, _graph),
    7: ((FIXED32, BYTES), _floats), 8: ((VARINT, BYTES), _ints), 9: (_ONE, _strings), 10: (_ONE, _tensors),
    11: (_ONE, _graphs), 14: (_ONE, _type), 15: (_ONE, _types), 22: (_ONE, _sparse), 23: (_ONE, _sparse),
}  # fmt: skip
"""Field number of an AttributeProto: its wire types (repeated numbers may be packed), and its reader."""
_FIELD_OF_KIND: Final = {1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8, 8: 9, 9: 10, 10: 11, 11: 22, 12: 23, 13: 14, 14: 15}
"""AttributeProto.AttributeType to the field that holds its value."""
