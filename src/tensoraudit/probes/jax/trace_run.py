"""Compute the values of a list of steps: compiled in few pieces, each of which returns what is wanted of it.

Operation by operation, JAX would compile each for itself; in one piece all values would be alive at once. A piece holds
as many steps as the budget allows, and values that no later step reads are let go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from tensoraudit.probes.jax.trace_steps import Step
from tensoraudit.probes.jax.widening import run_widened, widened

Values = dict[int, Any]
See = Callable[[Step, Sequence[Any]], None]
"""Is shown each step that is wanted, with its results."""


def compute(
    steps: Sequence[Step], known: Values, budget: int, wanted: Callable[[Step], bool], see: See, *, wide: bool = False
) -> None:
    """Run the steps on `known` values (arguments and constants, by number) and show what `wanted` ones give, in order.

    `wide` computes in double precision (64-bit types must be on, `known` widened). `budget`: bytes of results in one
    piece; a step that needs more stands alone. Raises NotAnOracle, and whatever JAX raises.
    """
    last = {number: place for place, step in enumerate(steps) for number in _read(step)}
    done = 0
    for piece in _pieces(steps, budget, 2 if wide else 1):
        done += len(piece)
        needed = {number: known[number] for step in piece for number in _read(step) if number in known}
        shown = [step for step in piece if wanted(step)]
        kept = {number for step in shown for number in step.outputs}
        kept |= {number for step in piece for number in step.outputs if last.get(number, -1) >= done}
        known.update(jax.jit(_piece(piece, kept, wide=wide))(needed))
        for step in shown:
            see(step, [known[number] for number in step.outputs])
        for number in [each for each in known if last.get(each, -1) < done]:
            del known[number]


def _read(step: Step) -> Iterator[int]:
    return (each for each in step.inputs if isinstance(each, int))


def _pieces(steps: Sequence[Step], budget: int, width: int) -> Iterator[list[Step]]:
    piece: list[Step] = []
    size = 0
    for step in steps:
        more = width * sum(map(_bytes, step.operation.outvars))
        if piece and size + more > budget:
            yield piece
            piece, size = [], 0
        piece.append(step)
        size += more
    if piece:
        yield piece


def _bytes(variable: Any) -> int:
    dtype = getattr(variable.aval, "dtype", None)
    return int(math.prod(variable.aval.shape) * getattr(dtype, "itemsize", 8))


def _piece(steps: Sequence[Step], kept: set[int], *, wide: bool) -> Callable[[Mapping[int, Any]], Values]:
    run = run_widened if wide else _run

    def results(given: Mapping[int, Any]) -> Values:
        values = dict(given)
        for step in steps:
            found = run(step.operation, [_value(each, values, wide=wide) for each in step.inputs])
            values.update(zip(step.outputs, found))  # noqa: B905 - Python 3.9
        return {number: values[number] for number in kept}

    return results


def _value(atom: Any, values: Mapping[int, Any], *, wide: bool) -> Any:
    if isinstance(atom, int):
        return values[atom]
    literal = np.asarray(atom.val, atom.aval.dtype)
    return widened(literal) if wide else literal


def _run(operation: Any, values: Sequence[Any]) -> list[Any]:
    bound = operation.primitive.get_bind_params(operation.params)
    functions, parameters = bound if isinstance(bound, tuple) else ((), bound)  # a tuple before JAX 0.8
    with operation.ctx.manager:
        found = operation.primitive.bind(*functions, *values, **parameters)
    return list(found) if operation.primitive.multiple_results else [found]
