"""The tensors inside what a pickle calls: wrapper subclasses, nested tensors, modules, objects of any class.

What stands in place of a tensor (`_rebuild_...`) lends its own name to what is inside: `fc.weight.qdata`. An object of
another class is a container like any other, its fields and arguments the keys. Objects refer to each other in circles,
so each is entered once; what stands in place of a tensor may be tied and is entered under each of its names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tensoraudit.artifacts.pickles import StoredTensor
from tensoraudit.checkpoints.torch_slices import sliced_tensor
from tensoraudit.checkpoints.torch_tree import (
    MAX_DEPTH,
    AttributedTensor,
    Instance,
    Keys,
    StoredArray,
    check_visits,
    is_tensor,
    walk,
)

_MOST_MODULES: Final = 200_000
_LONGEST_NAME: Final = 1_000
_DEEPEST: Final = 10
"""Calls inside each other that make one tensor; a parameter of a sharded quantised tensor has four."""
_MOST_LOST: Final = 100
_ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "_rebuild_nested_tensor": ("values", "sizes", "strides", "storage_offsets"),
    "_rebuild_parameter": ("",),
    "_rebuild_parameter_with_state": ("", "requires_grad", "backward_hooks", "state"),
    "_rebuild_device_tensor_from_numpy": ("",),
    "_rebuild_device_tensor_from_cpu_tensor": ("",),
    "_rebuild_xla_tensor": ("",),
    "Parameter": ("",),
    "Buffer": ("",),
}
"""Names of the arguments, by the last part of the callee's name; "" is the tensor itself. Others have numbers."""
_FROM_TYPE: Final = ("_rebuild_from_type", "_rebuild_from_type_v2")
_SPARSE: Final = ("_rebuild_sparse_tensor", "_rebuild_sparse_csr_tensor")


class SparseTensor(NamedTuple):
    """A sparse tensor: its pieces are tensors of indices, one for COO and two for CSR and its kin, then the values."""

    shape: tuple[int, ...]
    pieces: tuple[StoredTensor, ...]


class _Place(NamedTuple):
    """Something to enter. `trail` are the ids of what it is inside of, as far as that is one tensor; None in others."""

    keys: Keys
    node: Any
    trail: tuple[int, ...] | None = None


class Objects:
    """One walk over a tree. `optimizers` are the keys of optimisers that were pickled whole, `lost` those below which
    things lie too deep inside each other to be entered."""

    def __init__(self, where: str) -> None:
        self.optimizers: list[Keys] = []
        self.lost: list[Keys] = []
        self._where = where
        self._visits = 0
        self._seen: set[int] = set()

    def leaves(self, tree: Any) -> Iterator[tuple[Keys, Any]]:
        """Yield (keys, leaf) for tensors, arrays, and instances that are sliced or sparse tensors, in stored order."""
        for keys, leaf in walk(tree, self._where):
            if isinstance(leaf, Instance | AttributedTensor):
                yield from self._inside(keys, leaf)
            elif is_tensor(leaf):
                yield keys, leaf

    def _inside(self, keys: Keys, root: Any) -> Iterator[tuple[Keys, Any]]:
        stack = [_Place(keys, root)]
        while stack:
            place = stack.pop()
            if is_tensor(place.node) or _is_whole(place.node):
                yield place.keys, place.node
            if isinstance(place.node, _HOLDERS) and not _is_whole(place.node):
                stack += self._entered(place)[::-1]

    def _entered(self, place: _Place) -> list[_Place]:
        """What is inside something; nothing of what was entered before, or lies too deep."""
        node, is_one = place.node, _is_one_tensor(place)
        trail = place.trail or ()
        if id(node) in (trail if is_one else self._seen):
            return []
        if len(trail if is_one else place.keys) >= (_DEEPEST if is_one else MAX_DEPTH):
            self.lost += [place.keys] if len(self.lost) < _MOST_LOST else []
            return []
        if not is_one:
            self._seen.add(id(node))
            self._note_optimizer(place)
        inside = (*trail, id(node)) if is_one else None
        joined = is_one and not (isinstance(node, Instance) and _is_module(node))
        inner = [_Place(_below(place.keys, key, joined), each, inside) for key, each in _children(node)]
        inner = [each for each in inner if isinstance(each.node, _LEADS_ON)]
        self._visits += len(inner)
        check_visits(self._visits, self._where)
        return inner

    def _note_optimizer(self, place: _Place) -> None:
        names = place.node.fields if isinstance(place.node, Instance) else {}
        if place.keys and "param_groups" in names and "state" in names:
            self.optimizers.append(place.keys)


_HOLDERS: Final = (Instance, AttributedTensor, dict, list)
_LEADS_ON: Final = (*_HOLDERS, StoredTensor, StoredArray)


def _is_one_tensor(place: _Place) -> bool:
    """Whether a node stands in place of one tensor, or is part of what does, or is a module: all may well be shared."""
    node = place.node
    if isinstance(node, Instance):
        name = node.cls.rpartition(".")[2]
        return name.startswith("_rebuild") or name in _ARGUMENTS or _is_module(node)
    return isinstance(node, AttributedTensor) or place.trail is not None


def _is_whole(node: Any) -> bool:
    return isinstance(node, Instance) and (sliced_tensor(node) is not None or sparse_tensor(node) is not None)


def _below(keys: Keys, key: Any, is_one: bool) -> Keys:
    if key == "":
        return keys
    return (*keys[:-1], f"{keys[-1]}.{key}") if keys and is_one else (*keys, key)


def _children(node: Any) -> Iterator[tuple[Any, Any]]:
    """The (key, value) pairs of whatever holds something."""
    if isinstance(node, AttributedTensor):
        yield from node.beside.items()
    elif isinstance(node, Instance):
        tensors = module_tensors(node)
        yield from _parts_of(node) if tensors is None else tensors.items()
    else:
        yield from node.items() if isinstance(node, dict) else enumerate(node)


def _parts_of(node: Instance) -> Iterator[tuple[Any, Any]]:
    name, arguments, state = node.cls.rpartition(".")[2], node.arguments, node.state
    if name in _FROM_TYPE and len(arguments) >= 4 and isinstance(arguments[0], Instance):
        inner = arguments[2] if isinstance(arguments[2], list) else []
        yield "", Instance(arguments[0].cls, inner)
        yield from _state(arguments[3])
    elif len(arguments) == 1 and isinstance(arguments[0], dict | list):
        yield from _children(arguments[0])  # keyword arguments, or the items of a set
    else:
        names = _ARGUMENTS.get(name, ())
        for at, each in enumerate(arguments):
            yield (names[at] if at < len(names) else at), each
    yield from node.pairs.items()
    yield from enumerate(node.values)
    yield from _state(state)


def _state(state: Any) -> Iterator[tuple[Any, Any]]:
    """Attributes by their names: of a dict, or of a pair of one for `__dict__` and one for slots."""
    is_pair = isinstance(state, list) and len(state) == 2 and isinstance(state[0], dict | None)
    if isinstance(state, dict) or is_pair:
        yield from Instance("", [], state).fields.items()
    elif state is not None:
        yield "state", state


def sparse_tensor(node: Instance) -> SparseTensor | None:
    """Return the sparse tensor that an instance would become, None when it is none.

    Torch 2.13 pickles every layout as `(layout, (indices, ..., values, size, ...))`.
    """
    name, inner = node.cls.rpartition(".")[2], node.arguments[1] if len(node.arguments) > 1 else None
    if name not in _SPARSE or not isinstance(inner, list):
        return None
    count = next((at for at, each in enumerate(inner[:4]) if not isinstance(each, StoredTensor)), 0)
    sizes = inner[count] if count in (2, 3) else None
    if not isinstance(sizes, list) or len(sizes) > 64 or not all(map(_is_size, sizes)):
        return None
    return SparseTensor(tuple(sizes), tuple(inner[:count]))


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def module_tensors(root: Instance) -> dict[str, Any] | None:
    """Return what the `state_dict` of a pickled nn.Module has, by name; None when the instance is no module."""
    if not _is_module(root):
        return None
    tensors: dict[str, Any] = {}
    stack = [("", root)]
    for _ in range(_MOST_MODULES):
        if not stack:
            break
        prefix, module = stack.pop()
        hidden = module.fields.get("_non_persistent_buffers_set")
        hidden = hidden if isinstance(hidden, list) else []
        for registry in ("_parameters", "_buffers"):
            named = (module.fields.get(registry) or {}).items() if _registry(module, registry) else ()
            tensors |= {f"{prefix}{name}": value for name, value in named if value is not None and name not in hidden}
        children = module.fields["_modules"].items() if _registry(module, "_modules") else ()
        inner = [(f"{prefix}{name}.", child) for name, child in children if isinstance(child, Instance)]
        stack += [each for each in inner[::-1] if len(each[0]) < _LONGEST_NAME]
    return tensors


def _is_module(node: Instance) -> bool:
    return _registry(node, "_modules") and _registry(node, "_parameters")


def _registry(module: Instance, name: str) -> bool:
    return isinstance(module.fields.get(name), dict)
