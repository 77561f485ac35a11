"""Recurrent cells of both sides, gate by gate: who stacks the gates in which order, and who keeps them apart.

A gate's weights are known by (kernel or bias, what it is applied to, gate). A bias that stands for inputs and state
together is the sum of both; one that stands for the inputs alone may hold it, and the other is zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tensoraudit.equivalence.parameter import How, Pair, Parameter, Term, judged
from tensoraudit.equivalence.parameter_names import path_of
from tensoraudit.equivalence.steps import Step, Steps, apply, same

Key = tuple[str, str, str]
PARTS = ("input", "state")
Cell = Sequence[Parameter]


def pair_cells(left: Sequence[Parameter], right: Sequence[Parameter]) -> Iterator[Pair]:
    """Yield the pairs of all cells that are known on both sides, and of the same kind."""
    ours, theirs = _cells(left), _cells(right)
    for mine, other, how in _match(ours, theirs):
        equal = _same_effect(mine, other)
        for parameter in other:
            terms = tuple(_terms(_sources(mine), parameter))
            if terms:
                pair = judged(Pair(parameter.name, terms, how), mine, parameter)
                yield replace(pair, equal=True, difference=0.0) if equal else pair


def _same_effect(mine: Cell, other: Cell) -> bool:
    """Tell whether two cells compute the same: two biases that are always added may share their sum in any way."""
    x, y = effective(gate_arrays(mine)), effective(gate_arrays(other))
    return x.keys() == y.keys() and all(same(x[key], y[key]) for key in x)


def effective(arrays: Mapping[Key, Any]) -> dict[Key, Any]:
    """The arrays of a cell with biases that are always added as one: all but those of a GRU's last gate, whose state
    part is behind the reset gate."""
    found: dict[Key, Any] = {}
    apart = "n" in {gate for _, _, gate in arrays}
    for (kind, part, gate), array in arrays.items():
        summed = kind == "bias" and not (apart and gate == "n" and part != "both")
        key = (kind, "both" if summed else part, gate)
        found[key] = found[key] + array if key in found else array
    return found


def _cells(side: Sequence[Parameter]) -> dict[tuple[str, str], Cell]:
    found: dict[tuple[str, str], list[Parameter]] = {}
    for each in side:
        if each.gates and each.axes and len(each.axes) == each.array.ndim:
            found.setdefault((each.module, each.cell), []).append(each)
    return {key: cell for key, cell in found.items() if any(each.kind == "kernel" for each in cell)}


def _match(
    ours: Mapping[tuple[str, str], Cell], theirs: Mapping[tuple[str, str], Cell]
) -> Iterator[tuple[Cell, Cell, How]]:
    """By name, then by the values of a kernel, then in order; sizes must agree."""
    free = dict(theirs)
    waiting = dict(ours)
    tests: tuple[tuple[How, Any], ...] = (("name", _same_name), ("value", _same_values), ("order", lambda *_: True))
    for how, test in tests:
        for key, mine in list(waiting.items()):
            fitting = [k for k, other in free.items() if sizes(mine) == sizes(other) and test(key, mine, k, other)]
            if fitting and (how != "name" or len(fitting) == 1):
                yield mine, free.pop(fitting[0]), how
                del waiting[key]


def _same_name(a: tuple[str, str], mine: Cell, b: tuple[str, str], other: Cell) -> bool:
    mine_path, path = path_of(a[0]), path_of(b[0])
    return a[1] == b[1] and bool(path) and mine_path[-1:] == path[-1:]


def _same_values(a: tuple[str, str], mine: Cell, b: tuple[str, str], other: Cell) -> bool:
    x, y = gate_arrays(mine), gate_arrays(other)
    return all(same(x[key], y[key]) for key in x.keys() & y.keys() if key[0] == "kernel")


def sizes(cell: Cell) -> tuple[str, int, int]:
    """The gates of a cell in alphabetical order, its input size and its state size."""
    gates = "".join(sorted({gate for each in cell for gate in each.gates}))
    arrays = gate_arrays(cell)
    shapes = {key[1]: array.shape for key, array in arrays.items() if key[0] == "kernel"}
    width = shapes.get("input", (0, 0))
    return gates, width[0], width[1]


def gate_arrays(cell: Cell) -> dict[Key, Any]:
    """The arrays of a cell by key: kernels as (inputs, units), biases as (units,)."""
    return {key: apply(steps, parameter.array) for key, (parameter, steps) in _sources(cell).items()}


def _sources(cell: Cell) -> dict[Key, tuple[Parameter, Steps]]:
    found: dict[Key, tuple[Parameter, Steps]] = {}
    for each in cell:
        for gate in each.gates:
            for key, steps in _extractions(each, gate):
                found[key] = each, steps
    return found


def _extractions(parameter: Parameter, gate: str) -> Iterator[tuple[Key, Steps]]:
    """How one gate is cut out of a parameter; twice for a bias with a row for each part."""
    axes, count = parameter.axes, len(parameter.gates)
    if axes == "po":
        for row, part in enumerate(PARTS):
            yield (parameter.kind, part, gate), ({"take": row}, *_cut(parameter.gates, gate, 0))
        return
    turn: Steps = ({"transpose": [1, 0]},) if axes == "oi" else ()
    yield (
        (parameter.kind, parameter.part, gate),
        (*(_cut(parameter.gates, gate, axes.index("o")) if count > 1 else ()), *turn),
    )


def _cut(gates: str, gate: str, axis: int) -> Steps:
    return ({"gates": {"axis": axis, "of": len(gates), "order": [gates.index(gate)]}},)


def _terms(sources: Mapping[Key, tuple[Parameter, Steps]], parameter: Parameter) -> Iterator[Term]:
    """What makes one parameter of the candidate, as few terms as can be."""
    rows = enumerate(PARTS) if parameter.axes == "po" else [(0, parameter.part)]
    terms: list[Term] = []
    for row, part in rows:
        gates = [list(_summands(sources, (parameter.kind, part, gate))) for gate in parameter.gates]
        if not all(gates):
            return
        whole = _stacked(gates, parameter)
        made = whole if whole is not None else _placed(gates, parameter)
        terms += [Term(each.reference, (*each.steps, *_row(parameter, row))) for each in made]
    yield from terms


def _row(parameter: Parameter, row: int) -> Steps:
    """A bias of one part as its row of the candidate's (2, units)."""
    if parameter.axes != "po":
        return ()
    return ({"reshape": [1, parameter.array.shape[1]]}, {"place": {"axis": 0, "of": len(PARTS), "at": row}})


def _summands(sources: Mapping[Key, tuple[Parameter, Steps]], key: Key) -> Iterator[tuple[Parameter, Steps]]:
    kind, part, gate = key
    if key in sources:
        yield sources[key]
    elif part == "both":
        yield from (sources[kind, each, gate] for each in PARTS if (kind, each, gate) in sources)
    elif (kind, "both", gate) in sources:
        parameter, steps = sources[kind, "both", gate]
        yield parameter, steps if part == "input" else (*steps, {"zero": True})


def _stacked(gates: Sequence[Sequence[tuple[Parameter, Steps]]], aim: Parameter) -> list[Term] | None:
    """All gates cut out of one parameter, in the candidate's order, are one term."""
    if any(len(each) != 1 for each in gates):
        return None
    owners = {each[0][0].name for each in gates}
    cuts = [[step for step in each[0][1] if "gates" in step] for each in gates]
    rests = [[step for step in each[0][1] if "gates" not in step] for each in gates]
    if len(owners) != 1 or any(len(cut) != 1 for cut in cuts) or any(rest != rests[0] for rest in rests):
        return None
    order = [index for cut in cuts for index in cut[0]["gates"]["order"]]
    whole: Step = {"gates": {**cuts[0][0]["gates"], "order": order}}
    unmoved = order == list(range(cuts[0][0]["gates"]["of"]))
    before = [step for step in rests[0] if "take" in step]
    after = [step for step in rests[0] if "take" not in step]
    turned = _turned(after, aim)
    return [Term(owners.pop(), (*before, *(() if unmoved else (whole,)), *turned))]


def _turned(steps: Sequence[Step], aim: Parameter) -> Steps:
    """From (inputs, units) to the candidate's axes; two transpositions cancel."""
    transposed = bool([step for step in steps if "transpose" in step]) != (aim.axes == "oi")
    rest = [step for step in steps if "transpose" not in step]
    return (*rest, {"transpose": [1, 0]}) if transposed else tuple(rest)


def _placed(gates: Sequence[Sequence[tuple[Parameter, Steps]]], aim: Parameter) -> list[Term]:
    """Gates that come from several parameters: each is put in its place among zeros."""
    of, axis = len(gates), max(0, aim.axes.replace("p", "").index("o"))
    found = []
    for at, summands in enumerate(gates):
        for parameter, steps in summands:
            turned = _turned([step for step in steps if "transpose" in step], aim)
            rest = [step for step in steps if "transpose" not in step]
            place: Steps = ({"place": {"axis": axis, "of": of, "at": at}},) if of > 1 else ()
            found.append(Term(parameter.name, (*rest, *turned, *place)))
    return found
