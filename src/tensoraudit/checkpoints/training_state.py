"""Finds the state of training in a tree of plain values: optimisers, step, epoch, scheduler, scaler, RNG, loader.

The tree is dicts and lists with string or integer keys; a leaf with a `shape` is a tensor, every other leaf a plain
value. It may come from a pickle, from msgpack or from the flat names of a distributed checkpoint. Names decide only
where shape does not: an optimiser's state is known by `state` and `param_groups`, a scaler by its factors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from tensoraudit.checkpoints.optimizer_kinds import kind_of
from tensoraudit.checkpoints.schema import Group, OptimizerState, TrainingState

Keys = tuple[Any, ...]

_DEEPEST: Final = 6
_MOST: Final = 1_000
_MOST_CONTAINERS: Final = 200_000
_MOST_VALUES: Final = 20_000
_MOST_GENERATORS: Final = 16
_LEAST_ADDRESS: Final = 1 << 20
"""No optimiser has a million parameters, and no object lies below it."""

_STEPS: Final = (
    "global_step", "global_steps", "step", "steps", "iteration", "iterations", "iter", "num_steps", "current_step",
    "train_step", "train_steps", "num_updates", "n_iter", "it",
)  # fmt: skip
_EPOCHS: Final = ("epoch", "epochs", "current_epoch", "last_epoch", "num_epochs", "epoch_num")
_COUNTERS: Final = frozenset((*_STEPS, *_EPOCHS))
_SCHEDULER: Final = re.compile(r"(?:^|_)(?:lr_)?sched(?:uler)?s?(?:_|$)|lr_?scheduler", re.IGNORECASE)
_SCALER: Final = re.compile(r"(?:^|_)(?:grad_?|loss_?)?scaler(?:_|$)|gradscaler|^amp$", re.IGNORECASE)
_LOADER: Final = re.compile(r"loader|sampler|dataset_state|data_state|data_iter", re.IGNORECASE)
_RNG: Final = re.compile(r"rng|random|prng|seed_state", re.IGNORECASE)


@dataclass(slots=True)
class Found:
    """What was found, and the keys under which each kind of state stands."""

    training: TrainingState
    places: dict[Keys, Group] = field(default_factory=dict)

    def group_of(self, keys: Keys) -> tuple[Group, Keys] | None:
        """Return the group of a leaf and the keys of the state it belongs to; None for what is no training state."""
        for length in range(min(len(keys), _DEEPEST + 1), 0, -1):
            group = self.places.get(keys[:length])
            if group is not None:
                return group, keys[:length]
        return None

    def place_of(self, keys: Keys) -> tuple[Group, tuple[str, ...], str]:
        """Return group, path and name of a leaf: state is named below its own root, a weight by its last key."""
        found = self.group_of(keys)
        if found is None:
            return "model", tuple(map(str, keys[:-1])), str(keys[-1]) if keys else "tensor"
        group, prefix = found
        if len(prefix) == len(keys):
            prefix = prefix[:-1]
        return group, tuple(map(str, prefix)), ".".join(map(str, keys[len(prefix) :]))


def plain_number(value: Any) -> int | float | None:
    """Return a number, None for what is none (a flag is none)."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def find_training_state(root: Any, tensor_number: Callable[[Any], int | float | None] = plain_number) -> Found:
    """Look through the containers of a tree. Bounded in depth and number; never raises.

    `tensor_number` reads the one element of a leaf that is a tensor: it is asked for counters alone.
    """
    search = _Search(tensor_number)
    for keys, node in _containers(root):
        if search.found.group_of(keys) is None:
            search.look(keys, node)
    return search.done()


class _Search:
    """What was found so far; what stands higher in the tree is found first and stays."""

    def __init__(self, tensor_number: Callable[[Any], int | float | None]) -> None:
        self.found = Found(TrainingState())
        self._tensor_number = tensor_number
        self._optimizers: list[OptimizerState] = []
        self._states: dict[str, Mapping[str, Any]] = {}
        self._generators: dict[str, None] = {}
        self._numbers: dict[str, int | float] = {}
        self._unread: set[str] = set()

    def look(self, keys: Keys, node: dict[Any, Any]) -> None:
        """Take an optimiser's state, or note what is among the values of another dict."""
        _place_addresses(node)
        optimizer = optimizer_of(node, keys)
        if optimizer is not None:
            self._optimizers.append(optimizer)
            self.found.places[keys] = "optimizer"
            return
        for key, value in node.items():
            if isinstance(key, str):
                self._note((*keys, key), value)
        if any(isinstance(value, dict) for value in node.values()):  # beside weights alone it is a buffer of theirs
            self._note_counters(keys, node)

    def _note_counters(self, keys: Keys, node: dict[Any, Any]) -> None:
        """Counts that are stored as tensors of one element."""
        for key, value in node.items():
            name = key.lower() if isinstance(key, str) else ""
            if name in _COUNTERS and plain_number(value) is None:
                number = self._tensor_number(value)
                if number is not None:
                    self._numbers.setdefault(name, number)
                elif _may_count(value):
                    self._unread.add(name)
                else:
                    continue
                self.found.places[(*keys, key)] = "other"

    def _note(self, place: Keys, value: Any) -> None:
        key = place[-1]
        kind = _kind_of_state(key, value)
        if kind is not None:
            self._states.setdefault(kind, _mapping(value))
            self.found.places[place] = kind
            return
        names = _generators(key, value)
        if names:
            self._generators.update(dict.fromkeys(names))
            self.found.places[place] = "rng"
        elif (number := plain_number(value)) is not None:
            self._numbers.setdefault(key.lower(), number)

    def done(self) -> Found:
        """Return what was found."""
        step, epoch = _first(self._numbers, _STEPS), _first(self._numbers, _EPOCHS)
        counts = ("step", step, _STEPS), ("epoch", epoch, _EPOCHS)
        self.found.training = TrainingState(
            tuple(self._optimizers),
            step,
            epoch,
            self._states.get("scheduler"),
            self._states.get("scaler"),
            self._states.get("loader"),
            tuple(self._generators),
            tuple(count for count, number, names in counts if number is None and not self._unread.isdisjoint(names)),
        )
        return self.found


def _may_count(value: Any) -> bool:
    """Tell whether a value is a tensor of one real number."""
    shape, dtype = getattr(value, "shape", None), str(getattr(value, "dtype", ""))
    return shape is not None and all(size == 1 for size in shape) and not dtype.startswith(("bool", "complex"))


def optimizer_of(node: Any, keys: Keys = ()) -> OptimizerState | None:
    """Return the optimiser whose `state_dict` a dict is, None when it is none."""
    node = _unflattened(node)
    if not isinstance(node, dict) or not isinstance(node.get("param_groups"), list | dict):
        return None
    state = node.get("state", {})
    state = dict(enumerate(state)) if isinstance(state, list) else state
    listed = node["param_groups"]
    rows = [row for row in (listed.values() if isinstance(listed, dict) else listed) if isinstance(row, dict)]
    if not isinstance(state, dict) or len(rows) != len(listed):
        return None
    groups = tuple(_hyperparameters(row) for row in rows)
    per_parameter = {key: value for key, value in state.items() if isinstance(value, dict)}
    fields = tuple(dict.fromkeys(str(name) for value in per_parameter.values() for name in value))
    ids = list(per_parameter) or [each for group in groups for each in _ids(group)]
    extra = tuple(str(key) for key in node if key not in ("state", "param_groups"))
    path = tuple(map(str, keys))
    kind = kind_of(fields, {str(name) for group in groups for name in group})
    return OptimizerState(path, kind, _keyed(ids), fields, len(per_parameter), groups, extra)


def _place_addresses(node: dict[Any, Any]) -> None:
    """Put positions for the addresses (`id`) by which torch before 1.6 named parameters in an optimiser's state.

    They are others in every run, and mean the same: a loader goes by the order of the groups.
    """
    state, rows = node.get("state"), node.get("param_groups")
    if not isinstance(state, dict) or not isinstance(rows, list):
        return
    lists = [row["params"] for row in rows if isinstance(row, dict) and isinstance(row.get("params"), list)]
    ids = [each for listed in lists for each in listed]
    if len(lists) != len(rows) or not all(isinstance(each, int) and each >= _LEAST_ADDRESS for each in ids):
        return
    places = {each: place for place, each in enumerate(ids)}
    if len(places) == len(ids):
        node["state"] = {places.get(key, key): value for key, value in state.items()}
        for row in rows:
            row["params"] = [places[each] for each in row["params"]]


def plain_value(value: Any) -> Any:
    """Return a value as JSON data: tensors as words, long lists cut at 1,000, deep ones at six levels, and no more than
    20,000 values in all."""
    return _Plain().of(value, 0)


class _Plain:
    """One conversion; `left` bounds it where a few containers refer to each other again and again."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES

    def of(self, value: Any, depth: int) -> Any:
        if isinstance(value, bool | int | float | str | None):
            return value[:_MOST] if isinstance(value, str) else value
        shape = getattr(value, "shape", None)
        if shape is not None:
            return f"tensor {getattr(value, 'dtype', '?')}{list(shape)}"
        if not isinstance(value, dict | list | tuple):
            return f"<{getattr(value, 'cls', type(value).__name__)}>"
        kept = list(value.items() if isinstance(value, dict) else value)[: min(_MOST, self._left)]
        if depth >= _DEEPEST or (value and not kept):
            return "..."
        self._left -= len(kept)
        if isinstance(value, dict):
            return {str(key): self.of(each, depth + 1) for key, each in kept}
        return [self.of(each, depth + 1) for each in kept]


def _containers(root: Any) -> Iterator[tuple[Keys, dict[Any, Any]]]:
    """Yield (keys, dict) breadth first, each once, so that what stands higher is found first."""
    queue: list[tuple[Keys, Any]] = [((), root)]
    seen = {id(root)}
    for keys, node in queue:
        if isinstance(node, dict):
            yield keys, node
        if len(keys) >= _DEEPEST:
            continue
        for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
            if isinstance(value, dict | list) and id(value) not in seen and len(queue) < _MOST_CONTAINERS:
                seen.add(id(value))
                queue.append(((*keys, key), value))


def _kind_of_state(key: str, value: Any) -> Group | None:
    if not isinstance(value, dict | list) and not hasattr(value, "fields"):
        return None
    names = set(islice(_fields(value), _MOST))
    if names >= {"last_epoch", "_step_count"} or (_SCHEDULER.search(key) and "param_groups" not in names):
        return "scheduler"
    if names >= {"scale", "growth_factor", "backoff_factor"} or _SCALER.search(key):
        return "scaler"
    return "loader" if _LOADER.search(key) else None


def _mapping(value: Any) -> dict[str, Any]:
    plain: dict[str, Any] = plain_value(_fields(value))
    return plain


def _fields(value: Any) -> dict[Any, Any]:
    """What a state consists of: a dict, the fields of an object, or the first of a list of them."""
    if isinstance(value, list):
        first = next((each for each in value if isinstance(each, dict)), None)
        return first if first is not None else dict(enumerate(value[:_MOST]))
    fields = value if isinstance(value, dict) else getattr(value, "fields", {})
    return fields if isinstance(fields, dict) else {}


def _generators(key: str, value: Any, depth: int = 0) -> tuple[str, ...]:
    """Name the generators whose state a value is, by its form where it has one of its own, else by its key."""
    form = next((name for name, fits in _FORMS if fits(value)), "")
    if form:
        return (form,)
    if not _RNG.search(key):
        return ()
    if isinstance(value, dict):
        inner = list(value.items())[:_MOST_GENERATORS] if depth < 2 else []
        named = [name for each, state in inner for name in _generators(f"rng_{each}", state, depth + 1)]
        return tuple(dict.fromkeys(named))
    if isinstance(value, int | float | str | None):
        return ()  # a seed is no state
    return (next((name for name, words in _WORDS if words.search(key)), "torch"),)


_WORDS: Final = (
    ("cuda", re.compile(r"cuda|gpu|device", re.IGNORECASE)),
    ("numpy", re.compile(r"numpy|np(?:_|$)", re.IGNORECASE)),
    ("python", re.compile(r"python|py(?:_|$)|random_state|random$", re.IGNORECASE)),
    ("jax", re.compile(r"jax|prng|flax|dropout", re.IGNORECASE)),
)


def _is_bytes(value: Any, sizes: tuple[int, ...]) -> bool:
    shape = getattr(value, "shape", None)
    return getattr(value, "dtype", "") == "uint8" and shape is not None and len(shape) == 1 and shape[0] in sizes


def _is_numpy_state(value: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(value.get("bit_generator"), str)
    return isinstance(value, list) and len(value) == 5 and value[0] == "MT19937"


def _is_python_state(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and isinstance(value[1], list) and len(value[1]) == 625


_FORMS: Final[tuple[tuple[str, Callable[[Any], bool]], ...]] = (
    ("torch", lambda value: _is_bytes(value, (5056,))),
    ("cuda", lambda value: _is_bytes(value, (16, 816))),
    ("cuda", lambda value: isinstance(value, list) and bool(value) and all(_is_bytes(v, (16, 816)) for v in value)),
    ("numpy", _is_numpy_state),
    ("python", _is_python_state),
)
"""The state of torch's Mersenne twister on the CPU has 5,056 bytes, of CUDA's Philox 16 (816 before torch 1.7)."""


def _unflattened(node: Any) -> Any:
    """The tree of flat names, `state.NAME.FIELD` and `param_groups.NAME.FIELD`, that DCP can make of an optimiser."""
    if not isinstance(node, dict) or "param_groups" in node:
        return node
    flat = [key for key in node if isinstance(key, str) and key.startswith(("state.", "param_groups."))]
    if not flat or len(flat) != len(node):
        return node
    tree: dict[str, dict[str, dict[str, Any]]] = {"state": {}, "param_groups": {}}
    for key in flat:
        part, _, rest = key.partition(".")
        name, _, leaf = rest.rpartition(".")
        tree[part].setdefault(name, {"params": [name]} if part == "param_groups" else {})[leaf] = node[key]
    return tree


def _hyperparameters(row: dict[Any, Any]) -> Mapping[str, Any]:
    names = row["params"] if isinstance(row.get("params"), list) else None
    plain: dict[str, Any] = plain_value({key: value for key, value in islice(row.items(), _MOST) if key != "params"})
    ids = [each if isinstance(each, int | str) else str(type(each).__name__) for each in names or ()]
    return plain | {"params": ids}


def _ids(group: Mapping[str, Any]) -> list[Any]:
    ids: list[Any] = group["params"]
    return ids


def _keyed(ids: list[Any]) -> Any:
    if not ids:
        return ""
    if all(isinstance(each, int) for each in ids):
        return "position"
    return "digits" if all(isinstance(each, str) and each.isdigit() for each in ids) else "name"


def _first(numbers: dict[str, int | float], names: tuple[str, ...]) -> int | float | None:
    return next((numbers[name] for name in names if name in numbers), None)
