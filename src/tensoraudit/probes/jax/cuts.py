"""Which sources of a traced function its results are differentiable in, and what stands in between where they are not.

JAX gives zeros both where a derivative is zero and where there is none, so only the trace can tell them apart. Every
variable carries on the names of the sources that it was computed from: `live` those through which a derivative can
come, `held` those of which it was held back, by the cuts with the numbers in `cuts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp

from tensoraudit.probes.jax.jaxpr import source_of

UNUSED = "the function does not use it"
UNREACHED = "no output depends on it"

_NO_DERIVATIVE = frozenset(("stop_gradient", "round", "floor", "ceil", "sign", "nextafter"))
_CALLS = frozenset(("jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2"))
"""Operations that only run an inner function. A custom derivative is none of them: what counts is that derivative."""


@dataclass(frozen=True)
class Marks:
    """What one variable was computed from."""

    live: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    cuts: frozenset[int] = frozenset()

    def __or__(self, other: Marks) -> Marks:
        return Marks(self.live | other.live, self.held | other.held, self.cuts | other.cuts)


NONE = Marks()


class Flow:
    """How the sources of a closed jaxpr reach its results: `sources` names its flat arguments, "" for no source."""

    def __init__(self, closed: Any, sources: Sequence[str]) -> None:
        self._cuts: list[tuple[str, frozenset[str]]] = []
        self._used: set[str] = set()
        marks = [Marks(frozenset((name,))) if name else NONE for name in sources]
        self._end = _together(self._run(closed, marks, ()))

    def is_connected(self, name: str) -> bool:
        """Whether a derivative can come from the results to a source."""
        return name in self._end.live

    def reason(self, name: str) -> str:
        """Why none comes."""
        return self.cuts(name) or (UNREACHED if name in self._used else UNUSED)

    def cuts(self, name: str) -> str:
        """The cuts between a source and the results, in words; "" for none."""
        found = [text for number, (text, names) in enumerate(self._cuts) if number in self._end.cuts and name in names]
        return "; ".join(list(dict.fromkeys(found))[:3])

    def _run(self, function: Any, arguments: Sequence[Marks], callers: tuple[Any, ...]) -> list[Marks]:
        jaxpr = function.jaxpr if hasattr(function, "consts") else function
        known: dict[Any, Marks] = dict(zip(jaxpr.invars, arguments))  # noqa: B905 - Python 3.9

        def read(variable: Any) -> Marks:
            return NONE if hasattr(variable, "val") else known.get(variable, NONE)

        for operation in jaxpr.eqns:
            given = [read(each) for each in operation.invars]
            results = self._operation(operation, given, (*callers, operation))
            known.update(zip(operation.outvars, results))  # noqa: B905
        return [read(each) for each in jaxpr.outvars]

    def _operation(self, operation: Any, given: list[Marks], road: tuple[Any, ...]) -> list[Marks]:
        name, parameters = operation.primitive.name, operation.params
        if name in _CALLS:
            inner = next(parameters[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in parameters)
            return self._run(inner, given, road)
        if name == "scan":
            return self._scan(parameters, given, road)
        if name == "while":
            return self._while(parameters, given, road)
        if name == "cond":
            branches = [self._run(each, given[1:], road) for each in parameters["branches"]]
            return [_together(results) for results in zip(*branches)]  # noqa: B905
        marks = _together(given)
        self._used |= marks.live
        return [self._passed(name, marks, each, road) for each in operation.outvars]

    def _passed(self, name: str, marks: Marks, result: Any, road: tuple[Any, ...]) -> Marks:
        exact = not jax.dtypes.issubdtype(result.aval.dtype, jnp.inexact)
        if not marks.live or not (exact or name in _NO_DERIVATIVE):
            return marks
        number = len(self._cuts)
        self._cuts.append((_described(name, road, exact=exact), marks.live))
        return Marks(frozenset(), marks.held | marks.live, marks.cuts | {number})

    def _scan(self, parameters: Any, given: list[Marks], road: tuple[Any, ...]) -> list[Marks]:
        constants, carried = parameters["num_consts"], parameters["num_carry"]
        fixed, state, rows = given[:constants], given[constants : constants + carried], given[constants + carried :]
        while True:
            results = self._run(parameters["jaxpr"], [*fixed, *state, *rows], road)
            after = [old | new for old, new in zip(state, results)]  # noqa: B905
            if _same(after, state):
                return [*after, *results[carried:]]
            state = after

    def _while(self, parameters: Any, given: list[Marks], road: tuple[Any, ...]) -> list[Marks]:
        first, second = parameters["cond_nconsts"], parameters["body_nconsts"]
        fixed, state = given[first : first + second], given[first + second :]
        while True:
            results = self._run(parameters["body_jaxpr"], [*fixed, *state], road)
            after = [old | new for old, new in zip(state, results)]  # noqa: B905
            if _same(after, state):
                return after
            state = after


def _same(after: Sequence[Marks], before: Sequence[Marks]) -> bool:
    """Whether a loop brings no source to a new place; the numbers of cuts grow with every look at it."""
    return all((a.live, a.held) == (b.live, b.held) for a, b in zip(after, before))  # noqa: B905


def _together(marks: Sequence[Marks]) -> Marks:
    return reduce(Marks.__or__, marks, NONE)


def _described(name: str, road: tuple[Any, ...], *, exact: bool) -> str:
    at = source_of(road)
    where = f" at {at['path']}:{at['line']}" if at else ""
    if name == "stop_gradient":
        return f"held back by stop_gradient{where}"
    if exact:
        return f"only its integers or truth values go on ({name}{where})"
    return f"{name} has no derivative{where}"
