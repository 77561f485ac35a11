"""A traced function as one flat list of operations: calls are opened, loops and branches stay one operation each.

Every value has a number. What is known of a step is where it comes from: its line, and the modules around it (a name
stack, which Flax fills). Nothing is run here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tensoraudit.probes.jax.jaxpr import source_of
from tensoraudit.probes.jax.widening import CALLS, called
from tensoraudit.routes.source import Place

Atom = Any
"""A number of a value, or a literal of the jaxpr."""


@dataclass(frozen=True)
class Step:
    """One operation. `inputs` are numbers of values or literals, `outputs` numbers; `key` names it in every trace."""

    key: str
    operation: Any
    module: str
    source: Place | None
    inputs: tuple[Atom, ...]
    outputs: tuple[int, ...]

    @property
    def op(self) -> str:
        """The name of the primitive."""
        return str(self.operation.primitive.name)


class Steps:
    """All steps of a closed jaxpr. `arguments` and `results` are the values that it takes and returns; `constants` the
    arrays that it holds, by number."""

    def __init__(self, closed: Any) -> None:
        self.constants: dict[int, Any] = {}
        self._numbers = 0
        self._seen: Counter[str] = Counter()
        self.steps: list[Step] = []
        self.arguments = [self._new() for _ in closed.jaxpr.invars]
        self.results = self._open(closed, self.arguments, (), "")

    def _new(self) -> int:
        self._numbers += 1
        return self._numbers

    def _open(self, function: Any, arguments: Sequence[Atom], road: tuple[Any, ...], outer: str) -> list[Atom]:
        jaxpr, constants = (function.jaxpr, function.consts) if hasattr(function, "consts") else (function, ())
        known: dict[Any, Atom] = dict(zip(jaxpr.invars, arguments))  # noqa: B905 - Python 3.9
        for variable, value in zip(jaxpr.constvars, constants):  # noqa: B905
            known[variable] = self._new()
            self.constants[known[variable]] = value

        def read(variable: Any) -> Atom:
            return variable if hasattr(variable, "val") else known[variable]

        for operation in jaxpr.eqns:
            inputs = [read(each) for each in operation.invars]
            outputs = self._operation(operation, inputs, (*road, operation), outer)
            known.update(zip(operation.outvars, outputs))  # noqa: B905
        return [read(each) for each in jaxpr.outvars]

    def _operation(self, operation: Any, inputs: Sequence[Atom], road: tuple[Any, ...], outer: str) -> list[Atom]:
        scope = "/".join(part for part in (outer, str(operation.source_info.name_stack)) if part)
        if operation.primitive.name in CALLS:
            return self._open(called(operation.params), inputs, road, scope)
        outputs = [self._new() for _ in operation.outvars]
        module = scope.replace("/", ".")
        prefix = f"{module}#0:{operation.primitive.name}"
        key = f"{prefix}:{self._seen[prefix]}"
        self._seen[prefix] += 1
        self.steps.append(Step(key, operation, module, source_of(road), tuple(inputs), tuple(outputs)))
        return list(outputs)


def depends(steps: Sequence[Step], names: dict[int, str]) -> Iterator[tuple[Step, list[str]]]:
    """Yield each step with the names of the values among its inputs that depend on the model's inputs.

    `names` (number to name) starts with the inputs and grows: `KEY@POSITION` for the results of such a step.
    """
    for step in steps:
        read = [names[each] for each in step.inputs if isinstance(each, int) and each in names]
        if read:
            names.update({number: f"{step.key}@{place}" for place, number in enumerate(step.outputs)})
        yield step, list(dict.fromkeys(read))
