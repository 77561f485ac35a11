"""What a pickle of PyTorch holds, as plain Python: dicts, lists, numbers, strings, and leaves for tensors.

Conversions of the graph of `pickle_nodes`: mappings become dicts, tuples and sets lists (a list can be made
before what it holds, so cycles need no care), tensors `StoredTensor`, NumPy arrays `StoredArray`, whatever else is
called an `Instance`, which is a note and no object. Shared nodes stay shared, so the result is no larger than the
pickle; whoever walks it bounds depth and count, as `walk` does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tensoraudit.artifacts.pickle_nodes import Call, Global, Items, Pairs, Persistent
from tensoraudit.artifacts.pickles import StoredTensor, class_of, pairs_of, tensor_of
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


@dataclass(slots=True, eq=False)
class Instance:
    """An object of a class that is not imported: its dotted name, the arguments and the state that would make it."""

    cls: str
    arguments: list[Any] = field(default_factory=list)
    state: Any = None

    @property
    def fields(self) -> dict[Any, Any]:
        """The attributes: the state where it is a dict, or the slots of a `(None, slots)` pair."""
        state = self.state
        if isinstance(state, list) and len(state) == 2 and isinstance(state[1], dict):
            state = {**state[0], **state[1]} if isinstance(state[0], dict) else state[1]
        return state if isinstance(state, dict) else {}


class StoredArray(NamedTuple):
    """A NumPy array inside the pickle itself."""

    dtype: str
    shape: tuple[int, ...]


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
            for key, value in pairs:
                made[_key(key)] = self._shell(value)

        self._waiting.append(fill)
        return made

    def _pairs(self, node: Pairs) -> dict[Any, Any]:
        return self._dict(node.pairs)

    def _persistent(self, node: Persistent) -> Instance:
        return Instance("persistent", self._filled([node.id]))

    def _global(self, node: Global) -> Instance:
        return Instance(node.name)

    def _call(self, node: Call) -> Any:
        tensor = tensor_of(node)
        if tensor is not None:
            return tensor
        name = class_of(node)
        if name in _MAPPINGS:
            return self._dict(pairs_of(node))
        build = _VALUES.get(name.rpartition(".")[2]) if isinstance(node.callee, Global) else None
        value = build(node) if build else None
        if value is not None:
            return value
        made = Instance(name, self._filled(node.arguments))

        def fill() -> None:
            made.state = self._shell(node.state)

        self._waiting.append(fill)
        return made


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


def _numpy_type(node: Any) -> str:
    """The letter and size of a pickled `numpy.dtype`, "" where the node is none or in the other byte order."""
    if not isinstance(node, Call) or class_of(node) != "numpy.dtype" or not node.arguments:
        return ""
    order = node.state.values[1] if isinstance(node.state, Items) and len(node.state.values) > 1 else "<"
    return str(node.arguments[0]) if order in ("<", "|", "=") else ""


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
    state = node.state.values if isinstance(node.state, Items) else []
    if len(state) < 3 or not isinstance(state[1], Items):
        return None
    shape = state[1].values
    if len(shape) > 64 or not all(isinstance(size, int) and 0 <= size < 1 << 63 for size in shape):
        return None
    return StoredArray(_NUMPY_NAMES.get(_numpy_type(state[2]), "?"), tuple(shape))


def _first_argument(node: Call) -> Any:
    """`torch.Size((2, 3))` and the like are what they are called with, if that is a plain list."""
    first = node.arguments[0] if node.arguments else None
    return list(first.values) if isinstance(first, Items) and not any(map(_is_node, first.values)) else None


def _is_node(value: Any) -> bool:
    return type(value) in _SHELLS


_VALUES: Final[dict[str, Callable[[Call], Any]]] = {
    "scalar": _numpy_scalar,
    "_reconstruct": _numpy_array,
    "encode": _bytes,
    "Size": _first_argument,
    "set": _first_argument,
    "frozenset": _first_argument,
}
"""By the last part of the callee's name: calls that stand for plain values. None is "leave it a note"."""


def walk(root: Any, where: str = "") -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield (keys, leaf) of everything below the root that is no dict or list, in stored order.

    An `Instance` is a leaf: what is inside one has no agreed place. Raises InputError past `MAX_VISITS`; containers
    below `MAX_DEPTH`, which only a cycle reaches, are left out.
    """
    stack: list[tuple[tuple[Any, ...], Any]] = [((), root)]
    visits = 0
    while stack:
        visits += 1
        if visits > MAX_VISITS:
            message = f"holds a pickle of more than {MAX_VISITS:,} values"
            raise InputError(
                message, where=where, remedy="Save the state_dict alone: torch.save(model.state_dict(), path)."
            )
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


def is_tensor(node: Any) -> bool:
    """Whether a leaf has a shape: a tensor, an array, a slice of one."""
    return isinstance(node, StoredTensor | StoredArray)
