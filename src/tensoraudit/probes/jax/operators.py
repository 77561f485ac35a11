"""jax.operators: the primitives of a model at a sample, or the StableHLO operators of a serialized program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax

from tensoraudit.probes.jax.devices import device_of, pinned
from tensoraudit.probes.jax.forward import Subject, forward_error
from tensoraudit.probes.jax.jaxpr import source_of
from tensoraudit.probes.jax.loading import Model, open_model, read_input
from tensoraudit.probes.jax.names import named_leaves
from tensoraudit.probes.jax.stablehlo import list_module
from tensoraudit.probes.listing import Listing, Operation, constant
from tensoraudit.probes.protocol import JobFailed, Session

CONTROL_FLOW = ("cond", "scan", "while")
_HIDDEN = frozenset((
    *("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd", "jvp", "fwd"),
    *("in_shardings", "out_shardings", "in_layouts", "out_layouts", "donated_invars", "ctx_mesh", "sharding"),
    *("out_sharding", "compiler_options_kvs"),
))  # fmt: skip
"""Parameters that are functions, or say where values lie: nothing of what is computed."""


def operators(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Trace the model at a sample and list its operators (see `listing`); the inside of `scan`, `while`, `cond` and of
    functions under jit are graphs of their own. One that several operators share is listed once.

    Raises JobFailed when the model cannot be loaded or traced, JobUnsupported for more than 50,000 operators.
    """
    model = open_model(session, params["model"])
    if model.loaded.exported is not None:
        return list_module(model.loaded.exported)
    with pinned(device_of("cpu")):
        leaves = read_input(session, params["inputs"])
        closed, names = _trace(model, leaves)
    walker = _Walker()
    walker.read(closed.jaxpr, closed.consts, "main", (), names)
    return walker.listing.result()


def _trace(model: Model, leaves: Mapping[str, Any]) -> tuple[Any, list[tuple[str, str]]]:
    """The jaxpr of the model, and (name, role) of its inputs: parameters first."""
    loaded = model.loaded
    subject = Subject(loaded.apply, loaded.parameters, model.signature, jit=False)
    function, arrays = subject.function(leaves)
    try:
        closed = jax.make_jaxpr(function)(loaded.parameters, arrays)
    except Exception as problem:
        error = forward_error(problem)
        raise JobFailed(
            f"the model cannot be traced: {error['type']}: {error['message']}", stage="trace", source=error["source"]
        ) from problem
    own = [(name, "initializer") for name in named_leaves(loaded.parameters)]
    return closed, [*own, *((name, "input") for name in named_leaves(arrays))]


class _Walker:
    """Lists the operators of a jaxpr and of those inside it."""

    def __init__(self) -> None:
        self.listing = Listing("jaxpr", CONTROL_FLOW)
        self._names: dict[int, str] = {}
        self._graphs: dict[int, str] = {}
        self._kept: list[Any] = []  # an id is that of one object only while the object lives

    def read(self, jaxpr: Any, consts: Any, graph: str, road: tuple[Any, ...], names: list[tuple[str, str]]) -> None:
        """List one graph. `road` are the operators that it stands in."""
        self._kept.append(jaxpr)
        given = names or [("", "input")] * len(jaxpr.invars)
        for variable, (name, role) in zip(jaxpr.invars, given):  # noqa: B905 - Python 3.9
            self._declare(variable, graph, role, name)
        for variable, value in zip(jaxpr.constvars, consts or [None] * len(jaxpr.constvars)):  # noqa: B905
            row = self._declare(variable, graph, "initializer")
            row["constant"] = {"unknown": "not told"} if value is None else _constant(value)
        outputs = {id(each) for each in jaxpr.outvars}
        for number, operation in enumerate(jaxpr.eqns):
            self._node(operation, f"{operation.primitive.name}_{number}", graph, road, outputs)

    def _declare(self, variable: Any, graph: str, role: str, name: str = "") -> dict[str, Any]:
        known = self._names.setdefault(id(variable), name or f"v{len(self._names)}")
        self._kept.append(variable)
        dtype = getattr(variable.aval, "dtype", None)
        shape = getattr(variable.aval, "shape", None)
        dims = None if shape is None else [each if isinstance(each, int) else str(each) for each in shape]
        return self.listing.value(known, role, graph, None if dtype is None else str(dtype), dims)

    def _node(self, operation: Any, name: str, graph: str, road: tuple[Any, ...], outputs: set[int]) -> None:
        attributes = dict(self._attributes(operation, name, graph, road))
        inputs = [self._input(each, graph) for each in operation.invars]
        for each in operation.outvars:
            self._declare(each, graph, "output" if id(each) in outputs else "intermediate")
        made = [self._names[id(each)] for each in operation.outvars]
        what = Operation(operation.primitive.name, "jax", name, graph)
        self.listing.node(what, inputs, made, attributes, source_of((*road, operation)))

    def _input(self, variable: Any, graph: str) -> str:
        if not hasattr(variable, "val"):
            return self._names[id(variable)]
        value = _constant(variable.val)
        name = f"const:{value}" if isinstance(value, (bool, int, float)) else f"const:{variable.aval}"
        dtype, shape = getattr(variable.aval, "dtype", None), getattr(variable.aval, "shape", ())
        row = self.listing.value(name, "initializer", graph, None if dtype is None else str(dtype), shape)
        row["constant"] = value
        return name

    def _attributes(self, operation: Any, name: str, graph: str, road: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
        for key, value in operation.params.items():
            if key in _HIDDEN:
                continue
            inner = [value] if _jaxpr(value) is not None else value
            if isinstance(inner, (list, tuple)) and inner and all(_jaxpr(each) is not None for each in inner):
                single = inner is not value
                places = [
                    f"{graph}/{name}.{key}" if single else f"{graph}/{name}.{key}[{i}]" for i in range(len(inner))
                ]
                found = [self._graph(each, place, (*road, operation)) for each, place in zip(inner, places)]  # noqa: B905
                yield key, found[0] if single else found
            else:
                yield key, _parameter(value)

    def _graph(self, value: Any, place: str, road: tuple[Any, ...]) -> str:
        jaxpr = _jaxpr(value)
        if id(jaxpr) not in self._graphs:
            self._graphs[id(jaxpr)] = place
            self.read(jaxpr, getattr(value, "consts", ()), place, road, [])
        return self._graphs[id(jaxpr)]


def _jaxpr(value: Any) -> Any:
    if hasattr(value, "eqns") and hasattr(value, "invars"):
        return getattr(value, "jaxpr", value)
    inner = getattr(value, "jaxpr", None)
    return inner if hasattr(inner, "eqns") else None


def _constant(value: Any) -> Any:
    try:
        return constant(value)
    except TypeError:  # random keys have no array
        return {"unknown": f"a {type(value).__name__}"}


def _parameter(value: Any) -> Any:
    """Named tuples of numbers (dimension_numbers of a convolution) by their fields, enumerations by their names."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [_parameter(each) for each in value]
    if hasattr(value, "name") and hasattr(value, "value") and type(value).__mro__[1:2]:
        return str(value.name)
    if isinstance(value, (list, tuple)):
        return [_parameter(each) for each in value]
    return value
