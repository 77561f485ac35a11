"""The bytes of one ONNX file with what was read of them: equal strings, types and attributes are read once and shared.

A graph of 100,000 nodes repeats a few hundred attributes; without sharing them reading takes three times as long and
twice the memory.
"""

from __future__ import annotations

from typing import Any, Final

from tensoraudit.artifacts.onnx_file import TensorHeader, read_pair
from tensoraudit.artifacts.protobuf import BYTES, fields
from tensoraudit.extract.onnx_attributes import Attribute, read_attribute
from tensoraudit.extract.onnx_schema import UNTYPED, Type, constant_of, read_type

_SHARED_BYTES: Final = 256


class OnnxSource:
    """The mapped file and its caches."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self._strings: dict[bytes, str] = {}
        self._types: dict[bytes, Type] = {}
        self._attributes: dict[bytes, Attribute] = {}
        self._pairs: dict[bytes, tuple[str, str]] = {}
        self._constants: dict[tuple[int, tuple[int, ...], int, bytes], Any] = {}

    def string(self, start: int, end: int) -> str:
        """Return a string; bytes that are no UTF-8 stay visible and distinct as `\\xNN`."""
        raw = bytes(self.data[start:end])
        found = self._strings.get(raw)
        if found is None:
            found = self._strings[raw] = str(raw, "utf-8", "backslashreplace")
        return found

    def pair(self, start: int, end: int) -> tuple[str, str]:
        """Return a StringStringEntryProto. Exporters repeat a module path or a stack trace at many nodes."""
        raw = bytes(self.data[start:end])
        found = self._pairs.get(raw)
        if found is None:
            found = self._pairs[raw] = read_pair(raw, 0, len(raw))
        return found

    def attribute(self, start: int, end: int) -> Attribute:
        """Return an attribute. Those with subgraphs or tensors are not shared, for they hold places in the file."""
        if end - start > _SHARED_BYTES:
            return read_attribute(self.data, start, end)
        raw = bytes(self.data[start:end])
        found = self._attributes.get(raw)
        if found is None:
            found = read_attribute(self.data, start, end)
            if not found.graphs and found.tensor is None:
                self._attributes[raw] = found
        return found

    def constant(self, tensor: TensorHeader) -> Any:
        """Return the value of a small tensor (see `constant_of`). Equal ones are read once: shapes, axes, scalars."""
        if len(tensor.data) != 1 or tensor.external is not None:
            return constant_of(self.data, tensor)
        number, wire, start, end = tensor.data[0]
        if wire != BYTES or end - start > _SHARED_BYTES:
            return constant_of(self.data, tensor)
        key = (tensor.dtype, tuple(tensor.dims), number, bytes(self.data[start:end]))
        if key not in self._constants:
            self._constants[key] = constant_of(self.data, tensor)
        return self._constants[key]

    def value_info(self, start: int, end: int) -> tuple[str, Type]:
        """Return the name and the type of a ValueInfoProto."""
        name, found = "", UNTYPED
        for number, wire, at, stop in fields(self.data, start, end):
            if number == 1 and wire == BYTES:
                name = self.string(at, stop)
            elif number == 2 and wire == BYTES:
                found = self._type(at, stop)
        return name, found

    def _type(self, start: int, end: int) -> Type:
        raw = bytes(self.data[start:end])
        found = self._types.get(raw)
        if found is None:
            found = self._types[raw] = read_type(raw, 0, len(raw))
        return found
