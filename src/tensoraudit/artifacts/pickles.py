"""What a pickled checkpoint holds: its tensors, where they lie, and the globals that it wants to import.

Reads the object graph of `pickle_nodes` by PyTorch's conventions (torch/_utils.py and torch/serialization.py of torch
2.13): a tensor is `_rebuild_tensor_v2(storage, offset, size, stride, ...)`, a storage the persistent id
`("storage", type, key, location, numel)`. Runs and imports nothing. Knows nothing of files: `torch_files` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from tensoraudit.artifacts.globals import is_harmless, is_safe_for_torch
from tensoraudit.artifacts.pickle_nodes import Call, Global, Items, Pairs, Persistent, Wishes

RootKind = Literal["state_dict", "pickled_module", "tensor", "object"]

_BITS: Final = ("conj", "neg")
_MAX_DEPTH: Final = 4
_MAX_MAPPINGS: Final = 20_000
_MAX_WRAPPERS: Final = 8
_MAX_NAME: Final = 500

_DTYPES: Final = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool", "UntypedStorage": "uint8", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128", "QInt8Storage": "qint8", "QUInt8Storage": "quint8",
    "QInt32Storage": "qint32", "QUInt4x2Storage": "quint4x2", "QUInt2x4Storage": "quint2x4",
}  # fmt: skip
_ITEM_BYTES: Final = {
    "float64": 8, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16, "float32": 4, "int32": 4, "uint32": 4,
    "qint32": 4, "float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2, "complex32": 4,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of a checkpoint. `shape`, `stride`, `offset` and `numel` count elements; `storage` is the key of its
    bytes ("" for a meta tensor, which has none). `storage_numel` is what the pickle says the storage holds. `bits` are
    what torch does to each element as it is read, and has not done to what it stored: "conj", "neg", or both.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    storage: str
    offset: int
    storage_numel: int
    bits: tuple[str, ...] = ()

    @property
    def numel(self) -> int:
        """The number of elements of the tensor."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def item_bytes(self) -> int:
        """Bytes per element (1 for what is packed below a byte or not known)."""
        return item_bytes(self.dtype)


@dataclass(frozen=True, slots=True)
class Weights:
    """A mapping of names to tensors, `path` the keys that lead to it from the root. `others` are keys of no tensor."""

    path: tuple[str, ...]
    tensors: tuple[StoredTensor, ...]
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PickledObject:
    """What the root of a pickle is.

    `weights` are all mappings of tensors, the likeliest model first. `cls` is the class of the root (of the module, if
    there is one), `module_path` the keys that lead to a pickled module. `imports` are the globals that are not
    harmless, `all_imports` every one, both sorted.
    """

    kind: RootKind
    cls: str
    weights: tuple[Weights, ...]
    module_path: tuple[str, ...]
    keys: tuple[str, ...]
    imports: tuple[str, ...]
    all_imports: tuple[str, ...]

    @property
    def weights_only(self) -> bool:
        """Whether `torch.load(weights_only=True)` knows every global."""
        return all(map(is_safe_for_torch, self.all_imports))


def describe_pickle(root: Any, wishes: Wishes) -> PickledObject:
    """Say what the root object of a pickle is. Never raises: what is not understood is an "object"."""
    all_imports = tuple(sorted(wishes.globals))
    imports = tuple(name for name in all_imports if not is_harmless(name))
    mappings = list(_mappings(root))
    weights = tuple(sorted(filter(None, map(_weights, mappings)), key=_likelihood))
    modules = [(path, node) for path, node in _with_values(root, mappings) if _is_module(node)]
    if modules:
        path, node = modules[0]
        return PickledObject("pickled_module", class_of(node), weights, path, _keys(root), imports, all_imports)
    kind: RootKind = "state_dict" if weights else "tensor" if tensor_of(root) else "object"
    if kind == "object" and class_of(root) in imports:
        kind = "pickled_module"
    return PickledObject(kind, class_of(root), weights, (), _keys(root), imports, all_imports)


def item_bytes(dtype: str) -> int:
    """Return the bytes per element of a PyTorch dtype (1 for what is packed below a byte or not known)."""
    return _ITEM_BYTES.get(dtype, 1)


def dtype_of(name: str) -> str:
    """Return the common dtype name of a dotted storage type or torch dtype: `torch.FloatStorage` is `float32`."""
    last = name.rpartition(".")[2]
    return _DTYPES.get(last, last)


def storage_of(node: Any) -> tuple[str, str, int] | None:
    """Return (key, dtype, number of elements) when the node is a storage."""
    if not isinstance(node, Persistent) or not isinstance(node.id, Items) or len(node.id.values) < 5:
        return None
    word, kind, key, _, numel = node.id.values[:5]
    if _string(word) != "storage" or not isinstance(kind, Global) or not _is_count(numel):
        return None
    return _string(key), dtype_of(kind.name), numel


def tensor_of(node: Any, name: str = "") -> StoredTensor | None:
    """Return the tensor that the node would become, None when it is none."""
    for _ in range(_MAX_WRAPPERS):
        if not isinstance(node, Call) or not isinstance(node.callee, Global):
            return None
        callee = node.callee.name.rpartition(".")[2]
        if callee in _BUILDERS:
            return _BUILDERS[callee](node.arguments, name)
        if callee not in _WRAPPERS or not node.arguments:
            return None
        node = _unwrap(node)
    return None


_WRAPPERS: Final = {
    "_rebuild_parameter", "_rebuild_parameter_with_state", "Parameter", "_rebuild_from_type", "_rebuild_from_type_v2",
    "_rebuild_device_tensor_from_cpu_tensor",
}  # fmt: skip


def _unwrap(node: Call) -> Any:
    """A parameter is its data; a subclass is the function, class and arguments that rebuild it."""
    if "from_type" in node.callee.name and len(node.arguments) >= 3:
        inner = node.arguments[2]
        return Call(node.arguments[0], inner.values if isinstance(inner, Items) else [])
    return node.arguments[0]


def attachments_of(node: Any) -> list[tuple[Any, Any]]:
    """Return (name, node) of what is pickled with a tensor of `tensor_of`: the attributes of a parameter or subclass,
    and the scales of a quantised tensor."""
    found: list[tuple[Any, Any]] = []
    for _ in range(_MAX_WRAPPERS):
        if not isinstance(node, Call) or not isinstance(node.callee, Global):
            break
        callee = node.callee.name.rpartition(".")[2]
        found += _attributes(node.state)
        if callee in _WITH_STATE and len(node.arguments) >= 4:
            found += _attributes(node.arguments[3])
        if callee == "_rebuild_qtensor" and len(node.arguments) >= 5 and isinstance(node.arguments[4], Items):
            found += zip(_QUANTIZER, node.arguments[4].values[1:3], strict=False)
        if callee not in _WRAPPERS or not node.arguments:
            break
        node = _unwrap(node)
    return found


_WITH_STATE: Final = {"_rebuild_parameter_with_state", "_rebuild_from_type", "_rebuild_from_type_v2"}
_QUANTIZER: Final = ("scales", "zero_points")


def _attributes(state: Any) -> list[tuple[Any, Any]]:
    """The attributes that a state sets: a dict, or a pair of one for `__dict__` and one for slots."""
    states = state.values if isinstance(state, Items) else [state]
    return [pair for each in states[:2] for pair in pairs_of(each)]


def _plain_tensor(arguments: list[Any], name: str) -> StoredTensor | None:
    storage = storage_of(arguments[0]) if len(arguments) >= 4 else None
    if storage is None:
        return None
    key, dtype, numel = storage
    offset, shape, stride = arguments[1], sizes_of(arguments[2]), sizes_of(arguments[3])
    if shape is None or stride is None or not _is_count(offset):
        return None
    if len(arguments) >= 7 and isinstance(arguments[6], Global):  # _rebuild_tensor_v3: bytes with a dtype of its own
        dtype, width = dtype_of(arguments[6].name), item_bytes(dtype)
        numel = numel * width // item_bytes(dtype)
    return StoredTensor(name, dtype, shape, stride, key, offset, numel)


def _viewed_tensor(arguments: list[Any], name: str) -> StoredTensor | None:
    """A tensor whose last argument, a dict behind all others, may say that it is a conjugate or negative view."""
    tensor = _plain_tensor(arguments, name)
    metadata = arguments[7 if isinstance(arguments[6], Global) else 6 :] if len(arguments) >= 7 else []
    if tensor is None or not metadata:
        return tensor
    set_ = {key for key, value in pairs_of(metadata[0]) if isinstance(key, str) and value is True}
    return replace(tensor, bits=tuple(bit for bit in _BITS if bit in set_))


def _meta_tensor(arguments: list[Any], name: str) -> StoredTensor | None:
    shape = sizes_of(arguments[1]) if len(arguments) >= 3 and isinstance(arguments[0], Global) else None
    return None if shape is None else StoredTensor(name, dtype_of(arguments[0].name), shape, (), "", 0, 0)


_BUILDERS: Final = {
    "_rebuild_tensor": _plain_tensor, "_rebuild_tensor_v2": _viewed_tensor, "_rebuild_tensor_v3": _viewed_tensor,
    "_rebuild_qtensor": _plain_tensor, "_rebuild_meta_tensor_no_storage": _meta_tensor,
}  # fmt: skip


def sizes_of(node: Any) -> tuple[int, ...] | None:
    """Return the sizes that a tuple or a `torch.Size` holds, None when it is neither."""
    if isinstance(node, Call) and isinstance(node.callee, Global) and node.callee.name == "torch.Size":
        node = node.arguments[0] if node.arguments else None
    if not isinstance(node, Items) or len(node.values) > 64 or not all(map(_is_count, node.values)):
        return None
    return tuple(node.values)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _string(value: Any) -> str:
    text = value.decode("latin-1") if isinstance(value, bytes) else value if isinstance(value, str) else "?"
    return text if len(text) <= _MAX_NAME else f"{text[:_MAX_NAME]}..."


def pairs_of(node: Any) -> list[tuple[Any, Any]]:
    """Return the pairs of a dict or of an instance that is filled like one (OrderedDict, defaultdict)."""
    if isinstance(node, Pairs):
        return node.pairs
    if not isinstance(node, Call):
        return []
    if not node.pairs and node.arguments and isinstance(node.arguments[0], Items):  # Python 2: OrderedDict([[k, v]])
        rows = [row.values for row in node.arguments[0].values if isinstance(row, Items) and len(row.values) == 2]
        return [(key, value) for key, value in rows]
    return node.pairs


def _mappings(root: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield (path, mapping) breadth first; only string keys lead on, for an optimizer counts its parameters."""
    queue: list[tuple[tuple[str, ...], Any]] = [((), root)]
    seen: set[int] = set()
    for path, node in queue:
        if id(node) in seen or not pairs_of(node):
            continue
        seen.add(id(node))
        yield path, node
        if len(path) < _MAX_DEPTH and len(queue) < _MAX_MAPPINGS:
            queue += [((*path, key), value) for key, value in pairs_of(node) if isinstance(key, str)]


def _weights(found: tuple[tuple[str, ...], Any]) -> Weights | None:
    path, node = found
    values = {_string(key): value for key, value in pairs_of(node) if isinstance(key, str | bytes)}
    tensors = {name: tensor_of(value, name) for name, value in values.items()}
    stored = tuple(tensor for tensor in tensors.values() if tensor is not None)
    if not stored or any("optim" in key.lower() for key in path):
        return None
    return Weights(path, stored, tuple(name for name, tensor in tensors.items() if tensor is None))


def _likelihood(weights: Weights) -> tuple[int, int, bool]:
    """Most tensors first, then the shallower, then the one whose name does not speak of an average."""
    return -len(weights.tensors), len(weights.path), any("ema" in key.lower() for key in weights.path)


def _with_values(root: Any, mappings: list[tuple[tuple[str, ...], Any]]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield (), root
    for path, node in mappings:
        yield from (((*path, key), value) for key, value in pairs_of(node) if isinstance(key, str))


def class_of(node: Any) -> str:
    """Return the dotted class of an instance; the builtin type's name for a container or constant."""
    if isinstance(node, Items):
        return node.kind
    if isinstance(node, Pairs):
        return "dict"
    if not isinstance(node, Call):
        return type(node).__name__
    callee = node.callee
    if isinstance(callee, Global) and callee.name.startswith("copyreg.") and node.arguments:
        callee = node.arguments[0]  # copyreg._reconstructor(cls, object, None), copyreg.__newobj__(cls)
    if isinstance(callee, Persistent) and isinstance(callee.id, Items) and len(callee.id.values) > 1:
        callee = callee.id.values[1]  # the legacy format's ("module", cls, file, source)
    return callee.name if isinstance(callee, Global) else "?"


def _is_module(node: Any) -> bool:
    """Whether the node is an nn.Module: an instance whose state has the two registries that every module has."""
    if not isinstance(node, Call):
        return False
    keys = {key for key, _ in pairs_of(node.state)}
    return "_modules" in keys and "_parameters" in keys


def _keys(root: Any) -> tuple[str, ...]:
    return tuple(_string(key) for key, _ in pairs_of(root)[:100])
