"""tensorflow.trace: all intermediate values of one run, or the selected ones, from the frozen graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensoraudit.probes.fingerprint import fingerprint
from tensoraudit.probes.protocol import JobError, JobFailed, JobUnsupported, Session
from tensoraudit.probes.tensorflow.loading import open_model, read_input
from tensoraudit.probes.tensorflow.model import Model
from tensoraudit.probes.tensorflow.run import run_error
from tensoraudit.probes.tensorflow.settings import check_device, seed_everything, settings
from tensoraudit.probes.tensorflow.state import State
from tensoraudit.probes.tensorflow.trace_graph import TracedGraph, is_number
from tensoraudit.probes.ulp import perturb

DEFAULT_BUDGET = 1 << 30
"""Bytes of saved tensors of one job, and of values that are alive at once, when the caller gives no budget."""
_WEIGHTS = frozenset(("Const", "Placeholder", "NoOp"))
"""Nodes that compute nothing."""
_PASSES = "Identity"

Event = dict[str, Any]


def trace(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Run the model once and return its operators as events {"index", "key", "op", "module", "call", "source",
    "inputs", "outputs"}, each after those that it reads.

    The model is one frozen graph; a while loop or branch is one operator. `key` is the node's name, `module` the path
    of its Keras layer (and `class` its class) or else its name scope, `source` the user's line where it is known.
    `inputs` are the values that it reads and that depend on the model's inputs: `KEY@POSITION` of an event, or
    `input:NAME`. `select`: the keys or indexes of the events whose outputs are saved, "all" (of which `limit` bytes are
    saved, where given), or None. `fingerprints`: True adds a "print" (see `fingerprint`) to each output that depends on
    the inputs. `dtype`: "as_is" or "float64". `perturb`: a seed to move the inputs by one ULP first. `budget`: bytes
    that may be saved, or be fetched by one run. `outputs` names the value of each output.

    Raises JobFailed when the model fails, or when the selection goes over the budget; JobUnsupported where there is no
    double precision, or no input that could move.
    """
    check_device(params.get("device", "cpu"))
    session.pack()
    model = open_model(session, params["model"]).model
    leaves = read_input(session, params["inputs"], model)
    if params.get("perturb") is not None:
        leaves, names = perturb(leaves, int(params["perturb"]))
        if not names:
            raise JobUnsupported("no input is floating, so that none can move by one ULP")
    wide = params.get("dtype", "as_is") == "float64"
    seed_everything(int(params.get("seed", 0)))
    state = State(model)
    try:
        found = _Trace(_graph(model, leaves, session, wide=wide), params, session)
        found.run(leaves)
    except JobError:
        raise
    except Exception as problem:
        error = run_error(problem)
        what = "does not run in double precision" if wide else "fails while it is traced"
        raise (JobUnsupported if wide else JobFailed)(
            f"the model {what}: {error['type']}: {error['message']}", source=error["source"]
        ) from problem
    finally:
        state.restore()
    return {
        "events": found.events,
        "modules": {event["module"]: 1 for event in found.events},
        "outputs": found.outputs,
        "settings": settings(),
        "oracle_reason": "",
        "bytes": found.bytes,
    }


def _graph(model: Model, leaves: Mapping[str, Any], session: Session, *, wide: bool) -> TracedGraph:
    """The graph for leaves of these shapes, from the session where it was made before: tracing takes seconds."""
    shapes = {name: (getattr(each, "shape", repr(each)), getattr(each, "dtype", None)) for name, each in leaves.items()}
    key = f"tensorflow.trace {id(model)} {shapes} {wide}"
    if key not in session.cache:
        try:
            session.cache[key] = (
                model,
                TracedGraph(model, leaves, wide=wide),
            )  # the model too: its identity is the key
        except Exception as problem:
            what = "in double precision" if wide else "without variables (does it write to some?)"
            reason = run_error(problem)["message"]
            raise JobUnsupported(f"the model cannot be made into one graph {what}: {reason}") from problem
    graph: TracedGraph = session.cache[key][1]
    return graph


class _Trace:
    """The events of one graph, and what is kept of their values."""

    def __init__(self, graph: TracedGraph, params: Mapping[str, Any], session: Session) -> None:
        self.bytes = 0
        self._graph, self._session, self._fingerprints = graph, session, bool(params.get("fingerprints"))
        self._select = params.get("select")
        self._wanted = set() if self._select in ("all", None) else set(self._select)
        self._budget = DEFAULT_BUDGET if params.get("budget") is None else int(params["budget"])
        self._limit = self._budget if params.get("limit") is None else int(params["limit"])
        values = {tensor: f"input:{name}" for name, tensor in graph.inputs.items()}
        operators = [each for each in graph.operators if self._computes(each, values)]
        self.events = [self._event(index, each, values) for index, each in enumerate(operators)]
        self.outputs = {name: values[tensor] for name, tensor in graph.outputs.items() if tensor in values}
        self._tensors = {tensor.name: tensor for each in operators for tensor in each.outputs if is_number(tensor)}

    def _computes(self, operator: Any, values: dict[str, str]) -> bool:
        """Whether an operator makes a value of its own; what only passes one on has the name of that one."""
        if operator.type in _WEIGHTS or not operator.outputs:
            return False
        read = [values[each.name] for each in operator.inputs if each.name in values]
        if operator.type == _PASSES and read:
            values[operator.outputs[0].name] = read[0]
            return False
        if read:
            values.update({each.name: f"{operator.name}@{place}" for place, each in enumerate(operator.outputs)})
        return True

    def _event(self, index: int, operator: Any, values: dict[str, str]) -> Event:
        read = [values[each.name] for each in operator.inputs if each.name in values]
        places = self._graph.places
        return {
            "index": index,
            "key": operator.name,
            "op": operator.type,
            "module": places.modules.get(operator.name) or operator.name.rpartition("/")[0],
            "class": places.classes.get(operator.name, ""),
            "call": 0,
            "source": places.lines.get(operator.name),
            "inputs": list(dict.fromkeys(read)),
            "outputs": [_described(each) for each in operator.outputs],
        }

    def run(self, leaves: Mapping[str, Any]) -> None:
        """Compute the values that were asked for."""
        places = {
            f"{event['key']}:{place}": (event, place) for event in self.events for place in range(len(event["outputs"]))
        }
        wanted = [name for name in self._tensors if self._is_asked(places[name][0])]
        for name, array in self._graph.fetch(leaves, wanted, max(self._budget, 1)):
            event, place = places[name]
            described = event["outputs"][place]
            described["shape"] = list(array.shape)
            if not array.size:
                continue
            if self._fingerprints and event["inputs"]:
                described["print"] = fingerprint(array)
            if self._is_selected(event):
                described.update(self._save(array))

    def _is_asked(self, event: Event) -> bool:
        return self._is_selected(event) or bool(self._fingerprints and event["inputs"])

    def _is_selected(self, event: Event) -> bool:
        return self._select == "all" or event["key"] in self._wanted or event["index"] in self._wanted

    def _save(self, array: Any) -> dict[str, Any]:
        self.bytes += int(array.nbytes)
        if self.bytes <= (self._limit if self._select == "all" else self._budget):
            return self._session.put(array)
        if self._select == "all":
            return {}
        raise JobFailed(
            f"the selected values take more than {self._budget} bytes",
            bytes=self.bytes,
            remedy="Ask for fewer values at a time.",
        )


def _described(tensor: Any) -> dict[str, Any] | None:
    if not is_number(tensor):
        return None
    return {
        "dtype": tensor.dtype.name,
        "shape": tensor.shape.as_list() if tensor.shape.rank is not None else [],
    }
