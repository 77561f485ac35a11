"""pytorch.operators: the ATen operators of a model at a sample.

The graph of `torch.export` where the model can be exported: with values, attributes and the graphs of `cond` and its
like. What cannot be exported (a script, control flow on values) is run once, and the operators that ran are listed:
without attributes, edges and control flow, and functions made of several operators show as those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from tensoraudit.probes.listing import Listing, Operation
from tensoraudit.probes.protocol import JobFailed, JobUnsupported, Session
from tensoraudit.probes.pytorch.devices import pinned, seed_everything
from tensoraudit.probes.pytorch.forward import forward_error
from tensoraudit.probes.pytorch.model import Model, open_model, read_input
from tensoraudit.probes.pytorch.recorder import Recorder
from tensoraudit.probes.pytorch.tensors import dtype_name
from tensoraudit.routes.source import stack_place

CONTROL_FLOW = ("cond", "while_loop", "scan", "associative_scan", "map_impl")
_KINDS = {"PARAMETER": "initializer", "BUFFER": "initializer", "CONSTANT_TENSOR": "initializer"}


def operators(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """List the operators of one call (see `listing`).

    `format` is "torch_export", or "torch_trace" and then `reason` says why the model could not be exported.

    Raises JobFailed when the model cannot be loaded or run, JobUnsupported for more than 50,000 operators.
    """
    with pinned():
        model = open_model(session, params["model"])
        leaves = read_input(session, params["inputs"])
        seed_everything(0)
        try:
            program = _exported(model, leaves)
        except JobUnsupported:
            raise
        except Exception as problem:
            reason = f"torch.export: {type(problem).__name__}: {str(problem).strip().partition(chr(10))[0][:200]}"
            return {**_traced(model, leaves), "reason": reason}
    return _list_program(program)


def _exported(model: Model, leaves: Mapping[str, Any]) -> Any:
    if model.loaded.program is not None:
        return model.loaded.program
    call = model.signature.bind(dict(leaves))
    module = model.loaded.fresh(evaluate=True)
    if isinstance(module, torch.jit.ScriptModule):
        raise TypeError("a script is not exported")
    return torch.export.export(module, tuple(call.args), dict(call.kwargs), strict=False)


def _list_program(program: Any) -> dict[str, Any]:
    listing = Listing("torch_export", CONTROL_FLOW)
    roles = {spec.arg.name: _KINDS.get(spec.kind.name, "input") for spec in program.graph_signature.input_specs}
    _list_graph(listing, program.graph_module, "main", roles)
    return listing.result()


def _list_graph(listing: Listing, module: Any, graph: str, roles: Mapping[str, str]) -> None:
    outputs = {each.name for node in module.graph.nodes if node.op == "output" for each in node.all_input_nodes}
    for node in module.graph.nodes:
        if node.op == "placeholder":
            _value(listing, node.name, node.meta.get("val"), roles.get(node.name, "input"), graph)
        elif node.op == "call_function":
            _list_node(listing, module, node, graph, outputs)


def _list_node(listing: Listing, module: Any, node: Any, graph: str, outputs: set[str]) -> None:
    op, domain = _operator(node.target)
    attributes: dict[str, Any] = {}
    for name, value in _arguments(node):
        inner = getattr(module, str(value.target), None) if _is_graph(value) else None
        if inner is not None:
            attributes[name] = f"{graph}/{node.name}.{value.target}"
            _list_graph(listing, inner, attributes[name], {})
        elif next(_nodes(value), None) is None:
            attributes[name] = _plain(value)
    given = (*node.args, *node.kwargs.values())
    inputs = [each.name for value in given for each in _nodes(value) if each.op != "get_attr"]
    _value(listing, node.name, node.meta.get("val"), "output" if node.name in outputs else "intermediate", graph)
    source = stack_place(node.meta.get("stack_trace"))
    listing.node(Operation(op, domain, node.name, graph), inputs, [node.name], attributes, source)


def _operator(target: Any) -> tuple[str, str]:
    """The operator as ExportedProgram files name it: `aten.conv2d.default`, `cond`, `_operator.getitem`."""
    if isinstance(target, torch._ops.OpOverload):
        op = str(target)
        return op, op.partition(".")[0]
    if isinstance(target, torch._ops.HigherOrderOperator):
        return str(target.name()), "higher_order"
    module = str(getattr(target, "__module__", ""))
    return f"{module}.{getattr(target, '__name__', target)}", module


def _arguments(node: Any) -> Iterator[tuple[str, Any]]:
    schema = getattr(node.target, "_schema", None)
    names = [each.name for each in schema.arguments] if schema is not None else []
    for index, value in enumerate(node.args):
        yield (names[index] if index < len(names) else str(index)), value
    yield from node.kwargs.items()


def _is_graph(value: Any) -> bool:
    return isinstance(value, torch.fx.Node) and value.op == "get_attr"


def _nodes(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.fx.Node):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _nodes(each)


def _plain(value: Any) -> Any:
    """Dtypes, devices, layouts by their names; symbolic sizes as their expressions."""
    if isinstance(value, torch.dtype):
        return dtype_name(value)
    if isinstance(value, (torch.device, torch.layout, torch.memory_format, torch.SymInt, torch.SymFloat)):
        return str(value).removeprefix("torch.")
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


def _value(listing: Listing, name: str, meta: Any, role: str, graph: str) -> None:
    if not isinstance(meta, torch.Tensor):
        listing.value(name, role, graph, None, None)
        return
    dims = [size if isinstance(size, int) else str(size) for size in meta.shape]
    listing.value(name, role, graph, dtype_name(meta.dtype), dims)


def _traced(model: Model, leaves: Mapping[str, Any]) -> dict[str, Any]:
    """The operators of one eager run."""
    listing = Listing("torch_trace", ())
    recorder = Recorder(lambda event, tensor: None)
    module = model.loaded.fresh(evaluate=True)
    call = model.signature.bind(dict(leaves))
    if not isinstance(module, torch.jit.ScriptModule):
        recorder.watch(module)
    try:
        with torch.no_grad(), recorder:
            module(*call.args, **call.kwargs)
    except Exception as problem:
        error = forward_error(problem)
        message = f"the model fails on this input: {error['type']}: {error['message']}"
        raise JobFailed(message, source=error["source"]) from problem
    for event in recorder.events:
        op = str(event["op"])
        if op != "module":
            name = f"{op.split('.')[1] if '.' in op else op}_{event['index']}"
            what = Operation(op, op.partition(".")[0], name, "main")
            listing.node(what, [], [f"{name}:0"], {}, event["source"])
            for place, made in enumerate(event["outputs"][:1]):
                if made is not None:
                    listing.value(f"{name}:{place}", "intermediate", "main", made["dtype"], made["shape"])
    return listing.result()
