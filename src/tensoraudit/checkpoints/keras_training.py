"""The optimiser's state in a Keras HDF5 file: counted variables in Keras 3's layout, named ones in the older."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensoraudit.checkpoints.schema import Entry, Group, OptimizerState, TrainingState

_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("adam", "adamw", "nadam", "lamb"), ("momentums", "velocities")),
    **dict.fromkeys(("sgd", "lion"), ("momentums",)),
    "adagrad": ("accumulators",),
    "adadelta": ("accumulated_grads", "accumulated_delta_vars"),
    "adamax": ("momentums", "norms"),
    "ftrl": ("accumulators", "linears"),
}
"""What Keras 3 keeps per parameter, in its order."""
_KINDS: Final = {
    **{kind: kind for kind in ("adadelta", "adafactor", "adagrad", "adam", "adamax", "ftrl", "lamb", "lion", "muon")},
    **{kind: kind for kind in ("nadam", "rmsprop", "sgd")},
    "adamw": "adam",
}
_SCALARS: Final = {"iteration": "step", "iter": "step", "learning_rate": "learning_rate"}
_SCALER: Final = ("step_counter", "dynamic_scale")
_OWN: Final = 4
"""What LossScaleOptimizer has of its own: a count and a learning rate that it never uses, then its `_SCALER`."""
_INNER: Final = "optimizer/inner_optimizer/"
_WRAPPER: Final = re.compile(r"^loss_scale_optimizer(?:_\d+)?/")
_OWN_NAME: Final = re.compile(rf"{_WRAPPER.pattern}[^/]+")
_NUMBERS: Final = {"int32": "<i4", "int64": "<i8", "float32": "<f4", "float64": "<f8"}
_AVERAGE: Final = "_average"
_BY_SUFFIX: Final = {"momentum": "momentums", "velocity": "velocities", "m": "m", "v": "v"}

_Wrapped = tuple[dict[str, Entry], list[Entry], dict[str, str]]
"""The scaler's variables, what the inner optimiser keeps, and its names by those of their twins."""

Content = Callable[[Entry], bytes | None]
"""The bytes of a scalar, None where they do not stand in the file as they are."""


def sorted_out(
    entries: Sequence[Entry], named: str, content: Content, inner: str = ""
) -> tuple[tuple[Entry, ...], TrainingState]:
    """Return the entries, those that are averages of weights told apart, and what they keep for a resume.

    `named` is the name that the file gives its optimiser, or "", and `inner` that of the one inside it. Generators
    count where there is an optimiser: the seeds of a model's own layers alone are no state of a training.
    """
    state = [entry for entry in entries if entry.group == "optimizer"]
    if not state:
        return tuple(entries), TrainingState()
    by_name = any(entry.alias for entry in state)
    scaler, state, twins = (_named_scaler if by_name else _counted_scaler)(state)
    named = inner if twins else named
    averages = [entry for entry in state if entry.alias.endswith(_AVERAGE)] if by_name else _averages(state, named)
    kept = {entry.name for entry in averages}
    rest = [entry for entry in state if entry.name not in kept]
    optimizer, step = (_by_name if by_name else _by_place)(rest, named, content)
    rng = ("keras",) if any(entry.group == "rng" for entry in entries) else ()
    groups: dict[str, Group] = {
        **dict.fromkeys(kept, "ema"),
        **{twin: "ema" for twin, name in twins.items() if name in kept},
        **{entry.name: "scaler" for entry in scaler.values()},
    }
    regrouped = (
        entry._replace(group=groups.get(entry.name, "optimizer")) if entry.group == "optimizer" else entry
        for entry in entries
    )
    scale = {name: _number(entry, content) for name, entry in scaler.items()} or None
    return tuple(regrouped), TrainingState(optimizers=(optimizer,), step=step, scaler=scale, rng=rng)


def _counted_scaler(state: list[Entry]) -> _Wrapped:
    """Keras 3's layout: the outer optimiser's list ends with the variables of the inner one, which has them again."""
    inner = [entry for entry in state if entry.name.startswith(_INNER)]
    outer = [entry for entry in state if not entry.name.startswith(_INNER)]
    if not inner or [each.shape for each in outer] != [(), (), (), (), *(each.shape for each in inner)]:
        return {}, state, {}
    scaler = dict(zip(_SCALER, outer[_OWN - len(_SCALER) : _OWN], strict=True))
    twins = zip(outer[_OWN:], inner, strict=True)
    return scaler, inner, {twin.name: entry.name for twin, entry in twins}


def _named_scaler(state: list[Entry]) -> _Wrapped:
    """The older layout: each variable once, those of the inner optimiser with `loss_scale_optimizer/` before them but
    for its numbers."""
    own = {entry.name: entry.alias.rpartition("/")[2] for entry in state if _OWN_NAME.fullmatch(entry.alias)}
    scaler = {own[entry.name]: entry for entry in state if own.get(entry.name) in _SCALER}
    inner = [entry._replace(alias=_WRAPPER.sub("", entry.alias)) for entry in state if entry.name not in own]
    return (scaler, inner, {}) if inner and len(scaler) == len(_SCALER) else ({}, state, {})


def _class(named: str) -> str:
    """The optimiser's class in small letters, from a name that may end with a counter: `adam_w_1` is "adamw"."""
    return named.rstrip("_0123456789").lower().replace("_", "")


def _kept(state: list[Entry], named: str) -> list[Entry]:
    """What comes after the count of steps and the learning rate; Nadam's own product stands before or behind it."""
    rest = state[2:]
    if _class(named) != "nadam" or not rest:
        return rest
    return rest[1:] if not rest[0].shape else rest[: None if rest[-1].shape else -1]


def _averages(state: list[Entry], named: str) -> list[Entry]:
    """Keras 3 puts the averages of all weights (`use_ema`) before the other fields."""
    rest = _kept(state, named)
    fields = len(_FIELDS.get(_class(named), ()))
    count = len(rest) // (fields + 1)
    fits = fields and count and _parameters(rest[count:], fields) == count
    shapes = [entry.shape for entry in rest[count::fields]] if fits else []
    return rest[:count] if fits and [entry.shape for entry in rest[:count]] == shapes else []


def _by_place(state: list[Entry], named: str, content: Content) -> tuple[OptimizerState, int | float | None]:
    """Keras 3: the count of steps, the learning rate, then the fields of each parameter in turn."""
    name = _class(named)
    numbers = [_number(entry, content) for entry in state[:2]]
    rest = _kept(state, named)
    fields = _FIELDS.get(name, ()) if rest else ()
    parameters = _parameters(rest, len(fields))
    group: dict[str, Any] = {"learning_rate": numbers[1]} if len(numbers) > 1 and numbers[1] is not None else {}
    optimizer = OptimizerState(
        path=("optimizer",),
        kind=_KINDS.get(name, "unknown") if rest else "none",
        keyed="position",
        fields=fields if parameters else (),
        parameters=parameters or len(rest),  # at most so many: how they belong together is not told
        groups=({**group, "params": list(range(parameters))},),
    )
    return optimizer, numbers[0] if numbers else None


def _parameters(rest: list[Entry], fields: int) -> int:
    """How many parameters have that many variables each, 0 where the shapes say otherwise."""
    if not fields or len(rest) % fields:
        return 0
    shapes = [{entry.shape for entry in rest[place : place + fields]} for place in range(0, len(rest), fields)]
    return len(shapes) if all(len(each) == 1 for each in shapes) else 0


def _by_name(state: list[Entry], named: str, content: Content) -> tuple[OptimizerState, int | float | None]:
    """The older layout: `adam/dense_kernel_momentum`, or `Adam/dense/kernel/m` of Keras 2."""
    fields: dict[str, list[str]] = {}
    numbers: dict[str, Any] = {}
    for entry in state:
        last = entry.alias.rpartition("/")[2]
        if last in _SCALARS and not entry.shape:
            numbers[_SCALARS[last]] = _number(entry, content)
            continue
        parameter, _, suffix = entry.alias.rpartition("/") if last in _BY_SUFFIX else entry.alias.rpartition("_")
        if suffix in _BY_SUFFIX:
            fields.setdefault(_BY_SUFFIX[suffix], []).append(parameter.partition("/")[2])
    name = state[0].alias.split("/", 1)[0] if state else ""
    parameters = list(dict.fromkeys(each for names in fields.values() for each in names))
    step = numbers.pop("step", None)
    optimizer = OptimizerState(
        path=("optimizer_weights",),
        kind=_KINDS.get(_class(name), "unknown") if fields else "none",
        keyed="name",
        fields=tuple(fields),
        parameters=len(parameters),
        groups=({**{key: value for key, value in numbers.items() if value is not None}, "params": parameters},),
    )
    return optimizer, step


def _number(entry: Entry, content: Content) -> int | float | None:
    raw = content(entry) if not entry.shape and entry.dtype in _NUMBERS else None
    if raw is None:
        return None
    value: int | float = np.frombuffer(raw, np.dtype(_NUMBERS[entry.dtype]))[0].item()
    return value
