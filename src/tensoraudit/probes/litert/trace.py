"""litert.trace: all intermediate values of one run, or the selected ones.

The interpreter keeps every tensor, and no delegate takes part, because what a delegate fuses has no values in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensoraudit.probes.fingerprint import fingerprint
from tensoraudit.probes.litert.program import CallError, Program, read_input
from tensoraudit.probes.litert.settings import check_device, settings
from tensoraudit.probes.protocol import JobFailed, JobUnsupported, Session
from tensoraudit.probes.ulp import perturb

DEFAULT_BUDGET = 1 << 30
"""Bytes of saved tensors of one job, when the caller gives no budget."""
Event = dict[str, Any]


def trace(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Run the model once and return its operations as events {"index", "key", "op", "module", "class", "call",
    "source", "inputs", "outputs"}, in the order of the file.

    `key` is the name of the first tensor that the operation writes (with a number where another has it too), `module`
    the path in front of it. `inputs` are the values that it reads and that depend on the model's inputs:
    `KEY@POSITION` of an event, or `input:NAME`. `select`: the keys or indexes of the events whose outputs are saved,
    "all" (which saves no more once the budget is used up), or None. `fingerprints`: True adds a "print" to each output.
    `perturb`: a seed to move the inputs by one ULP first. `outputs` names the value of each output.

    Raises JobFailed when the model fails, or when the selection goes over the budget; JobUnsupported for double
    precision, and for a signature whose graph is not the file's first.
    """
    check_device(params)
    if params.get("dtype", "as_is") == "float64":
        raise JobUnsupported("TensorFlow Lite's kernels have no double precision")
    session.pack()
    program = Program(str(params["model"]["path"]), xnnpack=False, preserve=True)
    leaves = read_input(session, params["inputs"])
    if params.get("perturb") is not None:
        leaves, names = perturb(leaves, int(params["perturb"]))
        if not names:
            raise JobUnsupported("no input is floating, so that none can move by one ULP")
    _require_first_graph(program)
    try:
        program.invoke(program.checked(leaves))
    except (CallError, ValueError, RuntimeError) as problem:
        raise JobFailed(f"the model fails while it is traced: {problem}") from problem
    found = _Trace(program, params, session)
    return {
        "events": found.events,
        "modules": {event["module"]: 1 for event in found.events},
        "outputs": {n: found.written[each.index] for n, each in program.outputs.items() if each.index in found.written},
        "settings": settings(xnnpack=False),
        "oracle_reason": "",
        "bytes": found.bytes,
    }


def _require_first_graph(program: Program) -> None:
    """The names of tensors and operations are known for the first graph only."""
    first = [sorted(each["index"] for each in found) for found in program._details()]
    own = [sorted(each.index for each in ends.values()) for ends in (program.inputs, program.outputs)]
    if first[0] != own[0] or not set(own[1]) <= set(first[1]):
        raise JobUnsupported(f"signature {program.signature} is not the first graph of the file, which alone is traced")


class _Trace:
    """The events of one run. `written` names each value by the index of its tensor, `values` those alone that depend on
    the inputs."""

    def __init__(self, program: Program, params: Mapping[str, Any], session: Session) -> None:
        self.bytes = 0
        self.values = {each.index: f"input:{name}" for name, each in program.inputs.items()}
        self.written = dict(self.values)
        self.events: list[Event] = []
        self._interpreter, self._session = program.interpreter, session
        self._select, self._fingerprints = params.get("select"), bool(params.get("fingerprints"))
        self._budget = DEFAULT_BUDGET if params.get("budget") is None else int(params["budget"])
        self._known: set[str] = set()
        self._details = {each["index"]: each for each in self._interpreter.get_tensor_details()}
        for operation in self._interpreter._get_ops_details():
            self._add(operation)

    def _add(self, operation: Mapping[str, Any]) -> None:
        written = [int(index) for index in operation["outputs"] if index in self._details]
        if not written:
            return
        key = self._key(str(self._details[written[0]]["name"]))
        read = [self.values[index] for index in map(int, operation["inputs"]) if index in self.values]
        event: Event = {
            "index": len(self.events),
            "key": key,
            "op": operation["op_name"],
            "module": key.rpartition("/")[0],
            "class": "",
            "call": 0,
            "source": None,
            "inputs": list(dict.fromkeys(read)),
        }
        places = {index: f"{key}@{place}" for place, index in enumerate(written)}
        self.written.update(places)
        if read:
            self.values.update(places)
        event["outputs"] = [self._output(event, index) for index in written]
        self.events.append(event)

    def _key(self, name: str) -> str:
        """A name of its own: fused operations list several (`a/Relu;b/Conv2D`), of which the first counts."""
        plain = name.partition(";")[0] or "tensor"
        key, number = plain, 1
        while key in self._known:
            number += 1
            key = f"{plain}#{number}"
        self._known.add(key)
        return key

    def _output(self, event: Event, index: int) -> dict[str, Any] | None:
        try:
            array = np.asarray(self._interpreter.get_tensor(index))
        except ValueError:  # a resource: a variable's handle
            return None
        described: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape)}
        if array.dtype.kind in "SUO":
            return None
        if array.size and self._fingerprints and event["inputs"]:
            described["print"] = fingerprint(array)
        if array.size and self._is_selected(event):
            described.update(self._save(array))
        return described

    def _is_selected(self, event: Event) -> bool:
        wanted = self._select or ()
        return wanted == "all" or event["key"] in wanted or event["index"] in wanted

    def _save(self, array: Any) -> dict[str, Any]:
        self.bytes += int(array.nbytes)
        if self.bytes <= self._budget:
            return self._session.put(array)
        if self._select == "all":
            return {}
        raise JobFailed(
            f"the selected values take more than {self._budget} bytes",
            bytes=self.bytes,
            remedy="Ask for fewer values at a time.",
        )
