"""One side of a search by value: every intermediate of one run with its fingerprint, and the few that are looked at.

Each kind of worker lists and computes its values in its own way; here they become the same plain `Value`s. All of them
come from one run per side. The tensors of a small model are saved in that run; of a larger one only fingerprints are,
and the few that are needed come in further runs, as much as fits at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tensoraudit.audit.frameworks import framework_of
from tensoraudit.audit.probing import transfer
from tensoraudit.audit.variations import move
from tensoraudit.equivalence.value_alignment import Value, read_print
from tensoraudit.probes.bfloat16 import BFLOAT16, is_bfloat16
from tensoraudit.probes.fingerprint import fingerprint
from tensoraudit.probes.outcome import Outcome
from tensoraudit.probes.pool import Pool

MEMORY = 2 << 30
"""Bytes that a localisation may use for intermediates, all of them together."""

SHARE = 8
"""Of the memory, one such part is what one side saves or holds at a time. At most eight exist at once: both sides and a
double-precision twin (two parts), each in the run folder and, while it is computed, in its worker."""

SAVED = 2 << 20
"""Bytes of tensors that the first run of a side saves at most: writing a file costs as much as computing it again, and
few are looked at. It spares small models further runs."""

DRAWS = 3
"""Runs on inputs moved by one ULP, as for the outputs."""

Refs = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Side:
    """How to run one side: worker role, model parameters, and the sample as arrays or `{"value": ...}` by the names of
    its own inputs."""

    role: str
    params: Mapping[str, Any]
    arrays: Mapping[str, Any]
    memory: int = MEMORY

    @property
    def budget(self) -> int:
        """Bytes that one run may hold."""
        return max(1, self.memory // SHARE)

    @property
    def saved(self) -> int:
        """Bytes that the first run saves."""
        return min(SAVED, self.budget)

    @property
    def is_graph(self) -> bool:
        """Whether it is an ONNX file."""
        return framework_of(self.role).role == "onnxruntime"

    def job(self, name: str) -> str:
        """The full name of a job of this side."""
        return framework_of(self.role).job(name)


@dataclass(frozen=True, slots=True)
class Survey:
    """What one run of a side showed. `values` are those that depend on the inputs, in execution order, the inputs
    first; `outputs` maps the name of an output to its value; `refs` are the tensors that were saved."""

    side: Side
    values: tuple[Value, ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)
    refs: Mapping[str, Any] = field(default_factory=dict)
    outcome: Outcome = field(default_factory=lambda: Outcome("ok"))


def can_trace(role: str) -> bool:
    """Whether a worker can list and compute intermediate values."""
    framework = framework_of(role)
    return framework.role == "onnxruntime" or framework.can("trace")


def survey(pool: Pool, side: Side) -> Callable[[], Survey]:
    """Start the run of a side; the function that is returned waits for its end."""
    return (_survey_graph if side.is_graph else _survey_trace)(pool, side)


def _survey_trace(pool: Pool, side: Side) -> Callable[[], Survey]:
    how = {"select": "all", "fingerprints": True, "budget": side.budget, "limit": side.saved}
    sample = _sample(pool, side.arrays)
    future = pool.submit(side.role, side.job("trace"), {**side.params, "inputs": sample, **how})

    def finish() -> Survey:
        outcome = future.result()
        if outcome.result is None:
            return Survey(side, outcome=outcome)
        listed = [(event, place) for event in outcome.result["events"] for place in range(len(event["outputs"]))]
        listed = [(event, place) for event, place in listed if event["inputs"] and event["op"] != "module"]
        refs = {f"input:{name}": ref for name, ref in sample["arrays"].items()}
        refs.update({_name(event, place): event["outputs"][place] or {} for event, place in listed})
        values = (_traced_value(event, place) for event, place in listed)
        return Survey(side, (*_inputs(side.arrays), *values), outcome.result["outputs"], _saved(refs), outcome)

    return finish


def _saved(refs: Mapping[str, Any]) -> Refs:
    return {name: ref for name, ref in refs.items() if "file" in ref}


def _sample(pool: Pool, arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": "sample", "arrays": transfer(pool, arrays)}


def _name(event: Mapping[str, Any], place: int) -> str:
    return f"{event['key']}@{place}"


def _traced_value(event: Mapping[str, Any], place: int) -> Value:
    described = event["outputs"][place] or {}
    source = event.get("source") or {}
    op = f"{event['class']}: {event['op']}" if event.get("class") else event["op"]
    return Value(
        name=_name(event, place),
        op=op,
        module=event["module"],
        node=f"{event['module'] or 'model'} ({op})",
        path=str(source.get("path") or ""),
        line=int(source.get("line") or 0),
        shape=tuple(described.get("shape") or ()),
        dtype=described.get("logical") or described.get("dtype", ""),
        print=read_print(described.get("print")),
        inputs=tuple(event["inputs"]),
    )


def _inputs(arrays: Mapping[str, Any], names: Sequence[str] = ()) -> Iterator[Value]:
    """The model's inputs as values; `names` are a graph's own, which stand for the sample's by name or position."""
    for name, own in _named(arrays, names).items():
        array = arrays[own]
        if isinstance(array, np.ndarray):
            made = read_print(fingerprint(array))
            dtype = BFLOAT16 if is_bfloat16(array) else array.dtype.name
            value = Value(f"input:{name}", "input", node=name, shape=array.shape, dtype=dtype, print=made)
            yield replace(value, name=name) if names else value


def _named(arrays: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    if not names or set(names) <= arrays.keys():
        return {name: name for name in names or arrays}
    return dict(zip(names, arrays, strict=False))


def _survey_graph(pool: Pool, side: Side) -> Callable[[], Survey]:
    listed = pool.run(side.role, side.job("values"), dict(side.params))
    if listed.result is None:
        return lambda: Survey(side, outcome=listed)
    inputs = tuple(_inputs(side.arrays, listed.result["inputs"]))
    rows = list(_dependent(listed.result["values"], {value.name for value in inputs}))
    how = {"values": [row["name"] for row in rows], "fingerprints": True, "budget": side.budget, "limit": side.saved}
    sample = _sample(pool, side.arrays)
    future = pool.submit(side.role, side.job("intermediates"), {**side.params, "inputs": sample, **how})

    def finish() -> Survey:
        outcome = future.result()
        if outcome.result is None:
            return Survey(side, outcome=outcome)
        prints = outcome.result["fingerprints"]
        values = (_graph_value(row, prints.get(row["name"]) or {}) for row in rows)
        outputs = {name: name for name in (listed.result or {})["outputs"]}
        given = _named(side.arrays, [value.name for value in inputs])
        refs = {name: sample["arrays"][own] for name, own in given.items()}
        return Survey(side, (*inputs, *values), outputs, _saved({**refs, **outcome.result["values"]}), outcome)

    return finish


def _dependent(rows: Iterable[Mapping[str, Any]], inputs: set[str]) -> Iterator[dict[str, Any]]:
    """The values that depend on the inputs, each with those of its own inputs that do."""
    known = set(inputs)
    for row in rows:
        if read := [name for name in row["inputs"] if name in known]:
            known.add(row["name"])
            yield {**row, "inputs": read}


def _graph_value(row: Mapping[str, Any], made: Mapping[str, Any]) -> Value:
    source = row.get("source") or {}
    return Value(
        name=row["name"],
        op=row["op"],
        module=row.get("module") or "",
        node=row["node"] or row["name"],
        path=str(source.get("path") or ""),
        line=int(source.get("line") or 0),
        shape=tuple(made.get("shape") or ()),
        dtype=row.get("dtype") or "float32",
        print=read_print(made),
        inputs=tuple(row["inputs"]),
    )


class Reader:
    """The tensors of one side's values, from the survey or from another run. Up to the budget they are held until
    `close`, so that nothing is computed twice."""

    def __init__(self, pool: Pool, seen: Survey) -> None:
        self._pool, self.side = pool, seen.side
        self._held: dict[str, Refs] = {"as_is": dict(seen.refs), "float64": {}}
        self._fetched: list[Any] = []
        self._room = seen.side.budget
        self._inputs = {value.name for value in seen.values if value.is_input}
        self._wide = not self.side.is_graph
        self._sizes: dict[str, int] = {}  # of all that one event makes: they are saved together
        for value in seen.values:
            self._sizes[_key(value.name)] = self._sizes.get(_key(value.name), 0) + size_of(value)

    def start(self, names: Sequence[str], dtype: str = "as_is") -> Callable[[], Refs]:
        """Begin to compute values; the function that is returned waits and gives references by name. What cannot be
        computed or carried is missing."""
        held = self._held[dtype]
        known = {name: held[name] for name in names if name in held}
        finish = self._run([name for name in names if name not in known], self.side.arrays, dtype=dtype)

        def finished() -> Refs:
            found = finish()
            size = sum(self._sizes.get(_key(name), 0) for name in found) * (2 if dtype == "float64" else 1)
            if size <= self._room:
                self._room -= size
                held.update(found)
            return {**known, **found}

        return finished

    def twins(self, names: Sequence[str]) -> Refs:
        """The same values in double precision; nothing where there is none."""
        found = self.start(names, "float64")() if self._wide else {}
        self._wide = bool(found) or not names
        return found

    def draw(self, names: Sequence[str], seed: int) -> Refs:
        """The same values on inputs moved by one ULP; nothing where no input can move."""
        if not self.side.is_graph:
            return self._run(names, self.side.arrays, perturb=seed)()
        moved = move(self.side.arrays, seed)
        return self._run(names, {**self.side.arrays, **moved})() if moved else {}

    def _run(self, wanted: Sequence[str], arrays: Mapping[str, Any], **how: Any) -> Callable[[], Refs]:
        names = [name for name in wanted if name not in self._inputs]
        if not names:
            return dict
        budget = max(self.side.budget, 2 * sum(self._sizes.get(_key(name), 0) for name in names))
        request = {**self.side.params, "inputs": _sample(self._pool, arrays), "budget": budget, **how}
        job, asked = (
            ("intermediates", names) if self.side.is_graph else ("trace", list(dict.fromkeys(map(_key, names))))
        )
        request["values" if self.side.is_graph else "select"] = asked
        future = self._pool.submit(self.side.role, self.side.job(job), request)

        def finish() -> Refs:
            result = future.result().result or {}
            found = dict(result.get("values", {})) if self.side.is_graph else _traced_refs(result, names)
            self._fetched += found.values()
            return found

        return finish

    def close(self) -> None:
        """Delete what was fetched, and what the survey saved."""
        self._pool.discard([self._fetched, list(self._held["as_is"].values())])


def _traced_refs(result: Mapping[str, Any], names: Sequence[str]) -> Refs:
    events = {event["key"]: event for event in result.get("events", ())}
    found: Refs = {}
    for name in names:
        key, _, place = name.rpartition("@")
        outputs = events[key]["outputs"] if key in events else []
        if int(place) < len(outputs) and "file" in (outputs[int(place)] or {}):
            found[name] = outputs[int(place)]
    return found


def _key(name: str) -> str:
    return name.rpartition("@")[0] or name


def size_of(value: Value) -> int:
    """Bytes of a value in single precision."""
    return 4 * math.prod(value.shape)
