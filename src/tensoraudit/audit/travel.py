"""Take a model along one route: hop after hop, each in its worker, to a model on the target's side."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensoraudit.audit.frameworks import FRAMEWORKS
from tensoraudit.audit.layouts import taken_names
from tensoraudit.audit.migration import Hop, Route, worker_of
from tensoraudit.audit.prepare import export_sample
from tensoraudit.audit.probing import wire
from tensoraudit.audit.state import Audit
from tensoraudit.probes.outcome import Outcome

Permutations = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Stop:
    """A model after some hops. `params` are what the next job takes; `result` is what the last one said.

    `inputs` are the names of its inputs in the order of the reference's sample, `outputs` those of its outputs in the
    order of the reference's; empty where nothing says that they have changed. `layouts` are the axes that converters
    have permuted on their own: name of the input or output to the order as for `numpy.transpose`.
    """

    params: Mapping[str, Any]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    layouts: Mapping[str, Permutations] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Journey:
    """What became of a route. `outcome` is that of the hop that failed, else of the last one; `hop` is its tool.

    `options` holds what each tool was given, `told` what each said of its result, `seconds` the time of all hops. `end`
    is None when the model did not arrive.
    """

    route: Route
    outcome: Outcome
    hop: str
    end: Stop | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    told: tuple[Mapping[str, Any], ...] = ()
    seconds: float = 0.0

    def facts(self, keys: Sequence[str]) -> dict[str, Any]:
        """What the tools said under these keys: lists and mappings of all of them together, else what the last said.

        A dtype that the first of three converters changes, or a size that it fixes, stays so to the end.
        """
        found: dict[str, Any] = {}
        for key in (key for key in keys if any(key in each for each in self.told)):
            values = [each[key] for each in self.told if key in each]
            found[key] = values[-1] if key in OF_THE_LAST else _together(values)
        return found

    @property
    def reason(self) -> str:
        """Why it stopped, with the tool where there are several."""
        many = len(self.route.hops) > 1 and self.outcome.reason
        return f"{self.hop}: {self.outcome.reason}" if many else self.outcome.reason


OF_THE_LAST = frozenset({"input_names", "output_names"})
"""What holds for the model that a tool leaves, and no longer behind the next one."""


def _together(values: Sequence[Any]) -> Any:
    if all(isinstance(value, Mapping) for value in values):
        return {name: each for value in values for name, each in value.items()}
    if all(isinstance(value, list | tuple) for value in values):
        return list(dict.fromkeys(each for value in values for each in value))
    return values[-1]


Known = dict[str, tuple[Outcome, Stop | None]]
"""Hops that another route of the same audit has taken already, by the names of the tools so far and the sizes that
were to vary. Routes to several targets share them: a second conversion would write over the file of the first."""


def travel(audit: Audit, route: Route, known: Known) -> Journey:
    """Convert the reference along a route. A worker that dies or hangs ends it, like a refusal."""
    assert audit.reference is not None
    stop = Stop(audit.reference.params)
    options: dict[str, Any] = {}
    told: list[Mapping[str, Any]] = []
    seconds = 0.0
    for place, hop in enumerate(route.hops):
        outcome, after = _hop(audit, route.hops[: place + 1], stop, known)
        seconds += outcome.seconds
        if after is None:
            return Journey(route, outcome, hop.tool, None, options, tuple(told), seconds)
        stop = after
        options[hop.tool] = stop.result.get("options", {})
        told.append(stop.result)
    only = options[route.name] if len(options) == 1 else options
    return Journey(route, outcome, hop.tool, stop, only, tuple(told), seconds)


def _hop(audit: Audit, hops: Sequence[Hop], before: Stop, known: Known) -> tuple[Outcome, Stop | None]:
    key = "+".join(hop.tool for hop in hops) + repr(sorted(audit.dynamic.items()))
    if key not in known:
        known[key] = _take(audit, hops[-1], before, f"hop{len(known)}")
    return known[key]


def _take(audit: Audit, hop: Hop, before: Stop, folder: str) -> tuple[Outcome, Stop | None]:
    assert audit.pool is not None
    framework = FRAMEWORKS[hop.framework]
    role = worker_of(hop, framework.role, audit.options.python)
    hello = audit.pool.hello(role)
    if hello.result is None:
        return hello, None
    if lacking := _lacking(hello.result.get("packages", {}), hop, role):
        return Outcome("missing", reason=lacking), None
    audit.progress(f"converting with {hop.tool}")
    outcome = audit.pool.run(role, framework.job(hop.job), _request(audit, hop, before, folder)).of_the_model
    return outcome, None if outcome.result is None else _after(hop, before, outcome.result)


def _lacking(there: Collection[str], hop: Hop, role: str) -> str:
    """Why a converter is not there; "" when it is. One that is not installed says nothing of the model."""
    absent = [need.split("|")[0] for need in hop.packages if not any(name in there for name in need.split("|"))]
    if not absent:
        return ""
    how = f"pip install {' '.join(absent)}, or name an interpreter that has it: --python {hop.tool}=PATH"
    return f"{hop.tool} needs {', '.join(absent)}, not installed where {role} runs ({how})"


def _request(audit: Audit, hop: Hop, before: Stop, folder: str) -> dict[str, Any]:
    assert audit.pool is not None
    sample = wire(audit.pool, export_sample(audit))
    names = taken_names(sample["arrays"], before.inputs)
    request = {
        **before.params,
        "inputs": {**sample, "arrays": {own: sample["arrays"][name] for name, own in names.items()}},
        "dynamic": {names.get(name, name): axes for name, axes in audit.dynamic.items()},
        "opset": audit.options.opset,
    }
    if hop.job == "export":
        return {**request, "route": hop.tool, "path": str(audit.pool.folder / f"{folder}-{hop.tool}.onnx")}
    place = audit.pool.folder / f"{folder}-{hop.tool}"
    place.mkdir(exist_ok=True)
    return {**request, "tool": hop.tool, "folder": str(place)}


def _after(hop: Hop, before: Stop, result: Mapping[str, Any]) -> Stop:
    """The model behind a hop; what a converter does not name keeps its name."""
    params = {"path": str(result["path"])} if hop.job == "export" else result["params"]
    inputs, outputs = tuple(result.get("input_names") or before.inputs), _outputs(before, result)
    told = result.get("layouts") or {}
    layouts = {
        "inputs": _composed(before.layouts, told, "inputs", dict(zip(before.inputs, inputs, strict=False))),
        "outputs": _composed(before.layouts, told, "outputs", dict(zip(before.outputs, outputs, strict=False))),
    }
    return Stop(params, inputs, outputs, layouts, result)


def _outputs(before: Stop, result: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the outputs in the order of the reference's.

    A converter goes by the order of the model that it is given, and a file may have another one than the model that it
    was made of: TensorFlow sorts a dict by its keys.
    """
    names, order = tuple(result.get("output_names") or before.outputs), before.result.get("file_output_names", ())
    if len(order) != len(names) or set(order) != set(before.outputs):
        return names
    found = dict(zip(order, names, strict=True))
    return tuple(found[name] for name in before.outputs)


def _composed(
    before: Mapping[str, Permutations], told: Mapping[str, Permutations], kind: str, names: Mapping[str, str]
) -> dict[str, Sequence[int]]:
    """Permutations of two hops in a row, under the names that the later one gives."""
    later = told.get(kind, {})
    renamed = {names.get(name, name): axes for name, axes in before.get(kind, {}).items()}
    found: dict[str, Sequence[int]] = {}
    for name in {**renamed, **later}:
        first = renamed.get(name) or range(len(later.get(name, ())))
        found[name] = [first[axis] for axis in later.get(name) or range(len(first))]
    return found
