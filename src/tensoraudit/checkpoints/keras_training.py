"""The optimiser's state in a Keras HDF5 file: counted variables in Keras 3's layout, named ones in the older."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensoraudit.checkpoints.schema import Entry, OptimizerState, TrainingState

_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("adam", "adamw", "nadam", "lamb"), ("momentums", "velocities")),
    **dict.fromkeys(("sgd", "lion"), ("momentums",)),
    "adagrad": ("accumulators",),
}
"""What Keras 3 keeps per parameter, in its order."""
_KINDS: Final = {"adamw": "adam", "nadam": "adam"}
_KNOWN: Final = ("adam", "sgd", "lamb", "adafactor")
_SCALARS: Final = {"iteration": "step", "iter": "step", "learning_rate": "learning_rate"}
_NUMBERS: Final = {"int32": "<i4", "int64": "<i8", "float32": "<f4", "float64": "<f8"}
_AVERAGE: Final = "_average"
_BY_SUFFIX: Final = {"momentum": "momentums", "velocity": "velocities", "m": "m", "v": "v"}

Content = Callable[[Entry], bytes | None]
"""The bytes of a scalar, None where they do not stand in the file as they are."""


def sorted_out(entries: Sequence[Entry], named: str, content: Content) -> tuple[tuple[Entry, ...], TrainingState]:
    """Return the entries, those that are averages of weights told apart, and what they keep for a resume.

    `named` is the name that the file gives its optimiser, or "". Generators count where there is an optimiser: the
    seeds of a model's own layers alone are no state of a training.
    """
    state = [entry for entry in entries if entry.group == "optimizer"]
    if not state:
        return tuple(entries), TrainingState()
    by_name = any(entry.alias for entry in state)
    averages = [entry for entry in state if entry.alias.endswith(_AVERAGE)] if by_name else _averages(state, named)
    kept = set(averages)
    rest = [entry for entry in state if entry not in kept]
    optimizer, step = (_by_name if by_name else _by_place)(rest, named, content)
    rng = ("keras",) if any(entry.group == "rng" for entry in entries) else ()
    regrouped = (entry._replace(group="ema") if entry in kept else entry for entry in entries)
    return tuple(regrouped), TrainingState(optimizers=(optimizer,), step=step, rng=rng)


def _class(named: str) -> str:
    """The optimiser's class in small letters, from a name that may end with a counter."""
    return named.rstrip("_0123456789").lower()


def _leading(named: str) -> int:
    """The optimiser's own numbers before the fields: steps, learning rate, and of Nadam one more."""
    return 3 if _class(named) == "nadam" else 2


def _averages(state: list[Entry], named: str) -> list[Entry]:
    """Keras 3 puts the averages of all weights (`use_ema`) before the other fields."""
    rest = state[_leading(named) :]
    fields = len(_FIELDS.get(_class(named), ()))
    count = len(rest) // (fields + 1)
    fits = fields and count and _parameters(rest[count:], fields) == count
    shapes = [entry.shape for entry in rest[count::fields]] if fits else []
    return rest[:count] if fits and [entry.shape for entry in rest[:count]] == shapes else []


def _by_place(state: list[Entry], named: str, content: Content) -> tuple[OptimizerState, int | float | None]:
    """Keras 3: the count of steps, the learning rate, then the fields of each parameter in turn."""
    name = _class(named)
    numbers = [_number(entry, content) for entry in state[:2]]
    rest = state[_leading(named) :]
    fields = _FIELDS.get(name, ()) if rest else ()
    parameters = _parameters(rest, len(fields))
    group: dict[str, Any] = {"learning_rate": numbers[1]} if len(numbers) > 1 and numbers[1] is not None else {}
    optimizer = OptimizerState(
        path=("optimizer",),
        kind=_KINDS.get(name, name if name in _KNOWN else "unknown") if rest else "none",
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
    name = state[0].alias.split("/", 1)[0].lower()
    parameters = list(dict.fromkeys(each for names in fields.values() for each in names))
    step = numbers.pop("step", None)
    optimizer = OptimizerState(
        path=("optimizer_weights",),
        kind=next((kind for kind in _KNOWN if name.startswith(kind)), "unknown") if fields else "none",
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
