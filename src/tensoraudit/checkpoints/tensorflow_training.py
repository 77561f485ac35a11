"""What a TensorFlow checkpoint keeps for a resume: optimisers, counters, generators; and which tensors are the model's.

In an object-based checkpoint the graph tells. In a name-based one a variable whose name goes on below the name of
another of its shape is that one's state: `dense/kernel/Adam_1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from tensoraudit.checkpoints.schema import Entry, Group, OptimizerState, TrainingState
from tensoraudit.checkpoints.tensorflow_objects import KeptState

VALUE: Final = "/.ATTRIBUTES/VARIABLE_VALUE"
"""How the key of a variable ends in an object-based checkpoint."""
_AVERAGES: Final = "ExponentialMovingAverage"
_MOVING: Final = "model_variables_moving_average"
_STEPS: Final = ("step", "global_step", "train_step")
_EPOCHS: Final = ("epoch", "epochs")
_OWN_COUNTERS: Final = ("iterations", "iter", "iteration")
_KINDS: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    ("adam", frozenset(("m", "v"))),
    ("adam", frozenset(("momentums", "velocities"))),
    ("adam", frozenset(("Adam", "Adam_1"))),
    ("adam", frozenset(("adam_m", "adam_v"))),
    ("sgd", frozenset(("momentums",))),
    ("sgd", frozenset(("momentum",))),
    ("sgd", frozenset(("Momentum",))),
    ("adafactor", frozenset(("r", "c", "v"))),
)
_BY_NAME: Final = ("lamb", "adafactor", "adam", "sgd")
_SCALARS: Final = {"int32": "<i4", "int64": "<i8", "uint64": "<u8", "float32": "<f4", "float64": "<f8"}
_SLASH: Final = re.compile("/")
_MOST_PATH: Final = 1_000
"""Characters of a name in which the path of an optimiser is looked for."""
_METRICS: Final = "keras_api/metrics/"
_TWICE: Final = "_all_variables/"
"""Where Keras 3 exports every variable a second time, beside `variables/`."""
_GENERATORS: Final = ("_state_var", "seed_generator_state")

Content = Callable[[str], bytes | None]
"""The bytes of a small tensor by its name, None where they cannot be had."""


def sorted_out(
    entries: Iterable[Entry], states: Iterable[KeptState] | None, content: Content
) -> tuple[tuple[Entry, ...], TrainingState]:
    """Return the entries with their groups, and the state of training.

    `states` is what the optimisers of an object graph keep, None without a graph. `content` is asked for single numbers
    only.
    """
    named = {entry.name: entry for entry in entries}
    kept = [_without_suffix(each) for each in states] if states is not None else list(_slots_by_name(named))
    groups = _groups(named, kept)
    optimizers = tuple(_optimizer(each, named, content) for each in kept)
    step = _counter(named, _STEPS, content)
    if step is None:
        counts = (_own_counter(each, named, content) for each in kept)
        step = next((count for count in counts if count is not None), None)
    loader = {name: entry.dtype for name, entry in named.items() if groups.get(name) == "loader"}
    training = TrainingState(
        optimizers=optimizers,
        step=step,
        epoch=_counter(named, _EPOCHS, content),
        loader=loader or None,
        rng=("tensorflow",) if _has_generator(groups, optimizers) else (),
    )
    sorted_entries = (entry._replace(group=groups[name]) if name in groups else entry for name, entry in named.items())
    return tuple(sorted_entries), training


def _has_generator(groups: Mapping[str, Group], optimizers: tuple[OptimizerState, ...]) -> bool:
    """Whether a generator is stored for a resume: the program's own, or a layer's beside an optimiser."""
    stored = [name for name, group in groups.items() if group == "rng"]
    return bool(stored and optimizers) or any(name.endswith(_GENERATORS[0]) for name in stored)


def _without_suffix(kept: KeptState) -> KeptState:
    def names(keys: Iterable[str]) -> tuple[str, ...]:
        return tuple(key.removesuffix(VALUE) for key in keys)

    fields = {name: names(keys) for name, keys in kept.fields.items()}
    scalars = {name: key.removesuffix(VALUE) for name, key in kept.scalars.items()}
    return KeptState(kept.path, kept.keyed, names(kept.parameters), fields, scalars)


def _groups(named: Mapping[str, Entry], kept: list[KeptState]) -> dict[str, Group]:
    """The group of each entry that is not the model's."""
    found: dict[str, Group] = {}
    once = {(entry.alias, entry.shape) for name, entry in named.items() if not name.startswith(_TWICE)}
    paths = {each.path for each in kept} - {""}
    for name, entry in named.items():
        twin = name.startswith(_TWICE) and (entry.alias, entry.shape) in once
        group = "other" if twin else _plain_group(name, entry, paths)
        if group:
            found[name] = group
    for each in kept:
        for field, keys in each.fields.items():
            group = "ema" if field == _MOVING else "optimizer"
            found.update((key, group) for key in keys if key in named)
        found.update((key, "optimizer") for key in each.scalars.values() if key in named)
        for key in each.parameters:
            found.pop(key, None)  # a weight whose shortest path leads through its optimiser is still a weight
    return found


def _plain_group(name: str, entry: Entry, paths: set[str]) -> Group | None:
    last = name.rpartition("/")[2]
    if last == _AVERAGES:
        return "ema"
    if last in _GENERATORS or entry.alias.endswith(_GENERATORS[1]):
        return "rng"
    if "/.ATTRIBUTES/ITERATOR" in name:
        return "loader"
    if paths and any(name[: mark.start()] in paths for mark in _SLASH.finditer(name, 0, _MOST_PATH)):
        return "optimizer"
    if name.startswith(_METRICS) or name == "save_counter" or (not entry.shape and last in (*_STEPS, *_EPOCHS)):
        return "other"
    return None


def _slots_by_name(named: Mapping[str, Entry]) -> Iterator[KeptState]:
    """The one optimiser that names tell of."""
    fields: dict[str, dict[str, str]] = {}
    for name, entry in named.items():
        parent, _, slot = name.rpartition("/")
        above = named.get(parent)
        if slot != _AVERAGES and above is not None and above.shape == entry.shape and entry.shape:
            fields.setdefault(slot, {})[parent] = name
    scalars = {name: name for name in named if name.rsplit("/", 1)[-1] in ("beta1_power", "beta2_power")}
    if fields or scalars:
        parameters = tuple(dict.fromkeys(parent for slot in fields.values() for parent in slot))
        keys = {slot: tuple(found.get(parent, "") for parent in parameters) for slot, found in fields.items()}
        yield KeptState("", "name", parameters, keys, scalars)


def _optimizer(kept: KeptState, named: Mapping[str, Entry], content: Content) -> OptimizerState:
    fields = tuple(field for field in kept.fields if field != _MOVING)
    numbers = {name: _number(named.get(key), content) for name, key in kept.scalars.items()}
    group: dict[str, Any] = {name: value for name, value in numbers.items() if value is not None}
    filled = {place for field in fields for place, key in enumerate(kept.fields[field]) if key}
    return OptimizerState(
        path=tuple(kept.path.split("/")) if kept.path else (),
        kind=_kind(fields, kept, named),
        keyed="position" if kept.keyed == "position" else "name",
        fields=fields,
        parameters=min(len(filled), len(kept.parameters)),
        groups=({**group, "params": list(kept.parameters)},),
        extra=tuple(name for name in kept.scalars if name not in group),
    )


def _kind(fields: tuple[str, ...], kept: KeptState, named: Mapping[str, Entry]) -> str:
    """By the optimiser's own name where its variables bear it, else by its fields."""
    aliases = (named[key].alias for key in kept.scalars.values() if key in named)
    own = next((alias.split("/", 1)[0] for alias in aliases if "/" in alias), "")
    by_name = next((kind for kind in _BY_NAME if kind in own.lower()), "")
    if by_name:
        return by_name
    if not fields:
        return "none"
    return next((kind for kind, known in _KINDS if known == set(fields)), "unknown")


def _own_counter(kept: KeptState, named: Mapping[str, Entry], content: Content) -> int | float | None:
    keys = (kept.scalars.get(name) for name in _OWN_COUNTERS)
    return next((_number(named.get(key), content) for key in keys if key), None)


def _counter(named: Mapping[str, Entry], names: tuple[str, ...], content: Content) -> int | float | None:
    """The first scalar whose last name is one of `names`."""
    for name, entry in named.items():
        if not entry.shape and name.rsplit("/", 1)[-1] in names:
            return _number(entry, content)
    return None


def _number(entry: Entry | None, content: Content) -> int | float | None:
    """The value of a scalar."""
    if entry is None or entry.shape or entry.dtype not in _SCALARS:
        return None
    raw = content(entry.name)
    dtype = np.dtype(_SCALARS[entry.dtype])
    if raw is None or len(raw) != dtype.itemsize:
        return None
    value: int | float = np.frombuffer(raw, dtype)[0].item()
    return value
