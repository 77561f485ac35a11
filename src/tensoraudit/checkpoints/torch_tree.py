"""What a pickle of PyTorch holds, as plain Python: dicts, lists, numbers, strings, and leaves for tensors.

Conversions of the graph of `pickle_nodes`: mappings become dicts, tuples and sets lists (a list can be made
before what it holds, so cycles need no care), tensors `StoredTensor` (a bare storage too, of one axis), NumPy arrays
`StoredArray`, whatever else is called an `Instance`, which is a note and no object. Shared nodes stay shared, so the
result is no larger than the pickle; whoever walks it bounds depth and count, as `walk` does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from math import prod
from typing import Any, Final, NamedTuple

from tensoraudit.artifacts.pickle_nodes import Call, Global, Items, Pairs, Persistent
from tensoraudit.artifacts.pickles import (
    StoredTensor,
    attachments_of,
    class_of,
    pairs_of,
    storage_of,
    tensor_of,
)
from tensoraudit.errors import InputError

Keys = tuple[Any, ...]

MAX_DEPTH: Final = 100
"""Levels of containers; a module of modules has a dozen."""
MAX_VISITS: Final = 2_000_000
"""Nodes of one walk: more only where a small pickle refers to the same container again and again."""

_MAPPINGS: Final = frozenset(
    {"collections.OrderedDict", "collections.defaultdict", "collections.Counter", "builtins.dict"}
)
_NUMPY_FORMATS: Final = {
    "f2": "e", "f4": "f", "f8": "d", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I",
    "u8": "Q", "b1": "?",
}  # fmt: skip
_NUMPY_NAMES: Final = {
    "f2": "float16", "f4": "float32", "f8": "float64", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64",
    "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64", "b1": "bool", "c8": "complex64", "c16": "complex128",
}  # fmt: skip
_NUMPY_OTHERS: Final = {"U": "str", "S": "bytes", "O": "object", "V": "void", "M": "datetime64", "m": "timedelta64"}


@dataclass(slots=True, eq=False)
class Instance:
    """An object of a class that is not imported: its dotted name, the arguments and the state that would make it,
    and the `pairs` and `values` that are put into one that is a dict or a list as well."""

    cls: str
    arguments: list[Any] = field(default_factory=list)
    state: Any = None
    pairs: dict[Any, Any] = field(default_factory=dict)
    values: list[Any] = field(default_factory=list)

    @property
    def fields(self) -> dict[Any, Any]:
        """The attributes: the state where it is a dict, or the slots of a `(None, slots)` pair."""
        state = self.state
        if isinstance(state, list) and len(state) == 2 and isinstance(state[1], dict):
            state = {**state[0], **state[1]} if isinstance(state[0], dict) else state[1]
        return state if isinstance(state, dict) else {}


@dataclass(frozen=True, slots=True, eq=False)
class AttributedTensor(StoredTensor):
    """A tensor pickled with what may hold more of them, by name: its attributes, or a quantised one's scales."""

    beside: dict[Any, Any] = field(default_factory=dict)


class StoredArray(NamedTuple):
    """A NumPy array inside the pickle itself. `item_bytes` are those of an element, 0 where they are not known."""

    dtype: str
    shape: tuple[int, ...]
    item_bytes: int = 0

    @property
    def bytes(self) -> int:
        """The bytes of all elements."""
        return prod(self.shape) * self.item_bytes


def plain(root: Any) -> Any:
    """Return the root of a pickle as plain values. Linear in the size of the pickle, whatever refers to what."""
    return _Conversion().of(root)


class _Conversion:
    """One pass over the graph; `waiting` holds containers that were made and are still to be filled."""

    def __init__(self) -> None:
        self._done: dict[int, Any] = {}
        self._waiting: list[Callable[[], None]] = []

    def of(self, root: Any) -> Any:
        value = self._shell(root)
        while self._waiting:
            self._waiting.pop()()
        return value

    def _shell(self, node: Any) -> Any:
        convert = _SHELLS.get(type(node))
        if convert is None:
            return node
        key = id(node)
        if key not in self._done:
            self._done[key] = convert(self, node)
        return self._done[key]

    def _list(self, node: Items) -> list[Any]:
        return self._filled(node.values)

    def _filled(self, values: list[Any]) -> list[Any]:
        made: list[Any] = []
        self._waiting.append(lambda: made.extend(map(self._shell, values)))
        return made

    def _dict(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        made: dict[Any, Any] = {}

        def fill() -> None:
            again: dict[Any, int] = {}
            for node, value in pairs:
                made[_apart(node, made, again)] = self._shell(value)

        self._waiting.append(fill)
        return made

    def _pairs(self, node: Pairs) -> dict[Any, Any]:
        return self._dict(node.pairs)

    def _persistent(self, node: Persistent) -> Any:
        storage = storage_of(node)
        if storage is not None:
            key, dtype, numel = storage
            return StoredTensor("", dtype, (numel,), (1,), key, 0, numel)
        return Instance("persistent", self._filled([node.id]))

    def _global(self, node: Global) -> Instance:
        return Instance(node.name)

    def _call(self, node: Call) -> Any:
        tensor = tensor_of(node)
        if tensor is not None:
            return self._tensor(tensor, node)
        name = class_of(node)
        if name in _MAPPINGS:
            return self._dict(pairs_of(node))
        build = _VALUES.get(name.rpartition(".")[2]) if isinstance(node.callee, Global) else None
        value = build(node) if build else None
        if value is not None:
            return value
        # What a method of an object returns may hold what the object holds.
        arguments = [node.callee, *node.arguments] if isinstance(node.callee, Call) else node.arguments
        made = Instance(name, self._filled(arguments), pairs=self._dict(node.pairs), values=self._filled(node.values))

        def fill() -> None:
            made.state = self._shell(node.state)

        self._waiting.append(fill)
        return made

    def _tensor(self, tensor: StoredTensor, node: Call) -> StoredTensor:
        attached = [(name, each) for name, each in attachments_of(node) if _is_node(each)]
        if not attached:
            return tensor
        values = {each.name: getattr(tensor, each.name) for each in fields(StoredTensor)}
        return AttributedTensor(**values, beside=self._dict(attached))


_SHELLS: Final[dict[type, Callable[[_Conversion, Any], Any]]] = {
    Items: _Conversion._list,
    Pairs: _Conversion._pairs,
    Call: _Conversion._call,
    Persistent: _Conversion._persistent,
    Global: _Conversion._global,
}


def _key(node: Any) -> Any:
    """A key of a dict; what cannot be one (a tensor, a tuple) by the words that tell it apart."""
    if isinstance(node, str | int | float | bytes | None):
        return node.decode("latin-1") if isinstance(node, bytes) else node
    if isinstance(node, Items):
        return tuple(_key(value) for value in node.values[:8] if not isinstance(value, Items))
    return f"<{class_of(node)}>"


def _apart(node: Any, made: dict[Any, Any], again: dict[Any, int]) -> Any:
    """A key for a dict in the making: words that stand for different keys are told apart by a number."""
    key = _key(node)
    if key not in made or isinstance(node, str | int | float | None):
        return key
    again[key] = again.get(key, 1) + 1
    return f"{key} {again[key]}"


def _numpy_type(node: Any) -> str:
    """The letter and size of a pickled `numpy.dtype`, "" where the node is none or in the other byte order."""
    kind = _numpy_kind(node)
    if not kind:
        return ""
    order = node.state.values[1] if isinstance(node.state, Items) and len(node.state.values) > 1 else "<"
    return kind if order in ("<", "|", "=") else ""


def _numpy_kind(node: Any) -> str:
    """The letter and size of a pickled `numpy.dtype` of any byte order, "" where the node is none."""
    if not isinstance(node, Call) or class_of(node) != "numpy.dtype" or not node.arguments:
        return ""
    return node.arguments[0] if isinstance(node.arguments[0], str) else ""


def _bytes(node: Any) -> bytes | None:
    """Bytes as they are, or as protocol 2 spells them: `_codecs.encode(text, "latin1")`."""
    if isinstance(node, Call) and class_of(node) == "_codecs.encode" and node.arguments:
        text = node.arguments[0]
        return text.encode("latin-1", "replace") if isinstance(text, str) else None
    return bytes(node) if isinstance(node, bytes | bytearray) else None


def _numpy_scalar(node: Call) -> Any:
    if len(node.arguments) != 2:
        return None
    kind, data = _numpy_type(node.arguments[0]), _bytes(node.arguments[1])
    code = _NUMPY_FORMATS.get(kind)
    if code is None or data is None or len(data) != struct.calcsize(code):
        return None
    return struct.unpack(f"<{code}", data)[0]


def _numpy_array(node: Call) -> StoredArray | None:
    """An array of `_reconstruct`, whose state is (version, shape, dtype, order, data)."""
    state = node.state.values if isinstance(node.state, Items) else []
    if len(state) < 3 or (len(state) > 4 and _holds_nodes(state[4])):
        return None
    return _array(state[1], state[2])


def _holds_nodes(data: Any) -> bool:
    """Whether the data of an array are objects, among which there may be tensors."""
    return isinstance(data, Items) and any(map(_is_node, data.values))


def _numpy_buffer(node: Call) -> StoredArray | None:
    """An array of protocol 5: `_frombuffer(data, dtype, shape, order)`."""
    return _array(node.arguments[2], node.arguments[1]) if len(node.arguments) >= 3 else None


def _array(sizes: Any, kind: Any) -> StoredArray | None:
    shape = sizes.values if isinstance(sizes, Items) else [sizes]
    if len(shape) > 64 or not all(isinstance(size, int) and 0 <= size < 1 << 63 for size in shape):
        return None
    letters = _numpy_kind(kind)
    dtype = _NUMPY_NAMES.get(letters) or _NUMPY_OTHERS.get(letters[:1], "?")
    return StoredArray(dtype, tuple(shape), _item_bytes(letters))


def _item_bytes(letters: str) -> int:
    """Bytes of an element: the number behind the letter, four times that for characters, 0 for references."""
    size = letters[1:9]
    if not size.isdecimal() or letters[0] == "O":
        return 0
    return int(size) * (4 if letters[0] == "U" else 1)


def _first_argument(node: Call) -> Any:
    """`torch.Size((2, 3))` and the like are what they are called with, if that is a plain list."""
    first = node.arguments[0] if node.arguments else None
    return list(first.values) if isinstance(first, Items) and not any(map(_is_node, first.values)) else None


def _is_node(value: Any) -> bool:
    return type(value) in _SHELLS


_VALUES: Final[dict[str, Callable[[Call], Any]]] = {
    "scalar": _numpy_scalar,
    "_reconstruct": _numpy_array,
    "_frombuffer": _numpy_buffer,
    "encode": _bytes,
    "Size": _first_argument,
    "set": _first_argument,
    "frozenset": _first_argument,
}
"""By the last part of the callee's name: calls that stand for plain values. None is "leave it a note"."""


def walk(root: Any, where: str = "") -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield (keys, leaf) of everything below the root that is no dict or list, in stored order.

    An `Instance` is a leaf; `torch_objects` looks into it. Raises InputError past `MAX_VISITS`; containers
    below `MAX_DEPTH`, which only a cycle reaches, are left out.
    """
    stack: list[tuple[tuple[Any, ...], Any]] = [((), root)]
    visits = 0
    while stack:
        visits += 1
        check_visits(visits, where)
        keys, node = stack.pop()
        if isinstance(node, dict):
            children = list(node.items())
        elif isinstance(node, list):
            children = list(enumerate(node))
        else:
            yield keys, node
            continue
        if len(keys) < MAX_DEPTH:
            stack += [((*keys, key), value) for key, value in reversed(children)]


def check_visits(visits: int, where: str) -> None:
    """Raise InputError past `MAX_VISITS`."""
    if visits > MAX_VISITS:
        message = f"holds a pickle of more than {MAX_VISITS:,} values"
        remedy = "Save the state_dict alone: torch.save(model.state_dict(), path)."
        raise InputError(message, where=where, remedy=remedy)


def is_tensor(node: Any) -> bool:
    """Whether a leaf has a shape: a tensor, an array, a slice of one."""
    return isinstance(node, StoredTensor | StoredArray)
