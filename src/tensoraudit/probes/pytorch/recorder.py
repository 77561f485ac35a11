"""Record every operator of one eager run: what it was, in which module, on which of the user's lines, what came out.

Knows how to listen, not what to keep: `keep` is asked for every event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tensoraudit.probes.pytorch.arguments import flatten
from tensoraudit.probes.pytorch.modes import EagerMode
from tensoraudit.probes.pytorch.tensors import dtype_name
from tensoraudit.routes.onnx_to_torch_onnx2torch import NODE
from tensoraudit.routes.source import Place, frame_place, stack_place

Event = dict[str, Any]
_MADE_BY = "_tensoraudit_made_by"
"""Names of the values that a tensor comes from. They lie on the tensor itself, which is the same object wherever the
model takes it; a table of all tensors would keep them alive."""

Keep = Callable[[Event, torch.Tensor], "dict[str, Any] | None"]
"""Gets the event and one of its outputs; returns the reference of the saved tensor, or None."""

_QUIET = frozenset({"aten._assert_tensor_metadata.default", "aten.detach.default", "aten.lift_fresh.default"})
"""Operators without a result of their own: they would only make two traces harder to align."""


class EnoughError(BaseException):
    """All that was asked for has been seen; no `except Exception` of the model's own may stop it."""


class Recorder(EagerMode):
    """Collect events.

    An event is {"index", "key", "op", "module", "call", "source", "inputs", "outputs"}: `call` counts the calls of the
    module from 0, `key` (module, call, operator, how many of these before it in that call) stays the same in a trace of
    the same model in another precision, where casts may come and go. When a module ends, an event {"op": "module"} with
    its outputs follows. `outputs` has an entry per result: {"dtype", "shape"} and, if kept, the reference's fields;
    None for what is no tensor. `inputs` names the values that it reads, `KEY@POSITION` of an event or `input:NAME`, as
    far as they depend on the model's inputs (see `feed`); it is empty for what only weights go into. When `enough` says
    so after an event, the run ends with EnoughError.
    """

    def __init__(self, keep: Keep, enough: Callable[[], bool] = lambda: False) -> None:
        super().__init__()
        self._enough = enough
        self.events: list[Event] = []
        self._keep = keep
        self._stack: list[tuple[str, int]] = [("", 0)]
        self._calls: Counter[str] = Counter()
        self._seen: Counter[str] = Counter()
        self._node: Any = None
        self._origins: dict[str, Place] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made_by = _made_by((args, kwargs))  # before it runs: it may write into what it reads
        result = func(*args, **(kwargs or {}))
        results = result if isinstance(result, (list, tuple)) else [result]
        if str(func) in _QUIET:
            _mark(results, [made_by] * len(results))
            return result
        key = self._add(str(func), results, self._source(), made_by)
        if made_by:
            names: list[tuple[str, ...]] = [(f"{key}@{position}",) for position in range(len(results))]
            _mark(results, names)
            _mark_written(func, args, names[:1])
        return result

    def feed(self, leaves: Mapping[str, Any]) -> None:
        """Name the tensors that go into the model, so that events know what depends on them."""
        _mark(list(leaves.values()), [(f"input:{name}",) for name in leaves])

    def outputs(self, named: Mapping[str, torch.Tensor]) -> dict[str, str]:
        """Return the value that each named result of the model is."""
        found = {name: getattr(tensor, _MADE_BY, ()) for name, tensor in named.items()}
        return {name: made_by[0] for name, made_by in found.items() if made_by}

    def _add(self, op: str, results: Any, source: Place | None, made_by: tuple[str, ...]) -> str:
        module, call = self._place()
        prefix = f"{module}#{call}:{op}"
        event: Event = {
            "index": len(self.events),
            "key": f"{prefix}:{self._seen[prefix]}",
            "op": op,
            "module": module,
            "call": call,
            "source": source,
            "inputs": list(made_by),
        }
        self._seen[prefix] += 1
        event["outputs"] = [self._output(event, each) for each in results]
        self.events.append(event)
        if self._enough():
            raise EnoughError
        return str(event["key"])

    def _output(self, event: Event, value: Any) -> dict[str, Any] | None:
        if not isinstance(value, torch.Tensor):
            return None
        return {"dtype": dtype_name(value.dtype), "shape": list(value.shape), **(self._keep(event, value) or {})}

    def _source(self) -> Place | None:
        if self._node is not None:
            return stack_place(self._node.meta.get("stack_trace"))
        return frame_place() or self._origins.get(self._stack[-1][0])

    def _place(self) -> tuple[str, int]:
        return self._stack[-1] if self._node is None else _node_module(self._node)

    def watch(self, module: torch.nn.Module) -> None:
        """Follow the calls of all submodules. A script takes no hooks: its operators count to the module around it."""
        for path, inner in module.named_modules():
            if origin := vars(inner).get(NODE):  # the nodes of an ONNX file are not on the stack
                self._origins.update({path: origin, **{f"{path}.{name}": origin for name, _ in inner.named_children()}})
            if not isinstance(inner, torch.jit.ScriptModule):
                inner.register_forward_pre_hook(self._enter(path))
                inner.register_forward_hook(self._leave(path))

    def _enter(self, path: str) -> Callable[..., None]:
        def hook(module: Any, args: Any) -> None:
            self._stack.append((path, self._calls[path]))
            self._calls[path] += 1

        return hook

    def _leave(self, path: str) -> Callable[..., None]:
        def hook(module: Any, args: Any, output: Any) -> None:
            tensors = [leaf for _, leaf in flatten(output, "") if isinstance(leaf, torch.Tensor)]
            self._add("module", tensors, None, _made_by(tensors))
            self._stack.pop()

        return hook

    def interpret(self, graph: torch.fx.GraphModule, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an ExportedProgram's module node by node: its nodes know the modules and lines that they came from.

        Returns what the program returns.
        """
        recorder = self

        class Walker(torch.fx.Interpreter):  # type: ignore[misc]
            def run_node(self, n: Any) -> Any:
                recorder._node = n
                try:
                    return super().run_node(n)
                finally:
                    recorder._node = None

        leaves, _ = torch.utils._pytree.tree_flatten((tuple(args), dict(kwargs)))
        return graph.graph.process_outputs(Walker(graph).run(*leaves, enable_io_processing=False))


def _made_by(value: Any) -> tuple[str, ...]:
    """The values behind all tensors in the arguments of an operator."""
    found: dict[str, None] = {}
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, torch.Tensor):
            found.update(dict.fromkeys(getattr(item, _MADE_BY, ())))
        elif isinstance(item, (list, tuple)):
            waiting.extend(reversed(item))
        elif isinstance(item, dict):
            waiting.extend(item.values())
    return tuple(found)


def _mark(tensors: Any, names: list[tuple[str, ...]]) -> None:
    for tensor, made_by in zip(tensors, names):  # noqa: B905 - Python 3.9
        if isinstance(tensor, torch.Tensor) and made_by:
            setattr(tensor, _MADE_BY, made_by)


def _mark_written(func: Any, args: Any, names: list[tuple[str, ...]]) -> None:
    """What is written into a part of a tensor (`x[:, 0] = y`) is in the whole of it too."""
    if not func._schema.is_mutable or not args or not isinstance(args[0], torch.Tensor):
        return
    whole = args[0]._base
    if whole is not None:
        setattr(whole, _MADE_BY, (*getattr(whole, _MADE_BY, ()), *names[0]))


def _node_module(node: Any) -> tuple[str, int]:
    """The module path of an exported node, and which of its calls it was (the key ends in `@1` for the second)."""
    stack = list((node.meta.get("nn_module_stack") or {}).items())
    if not stack:
        return "", 0
    key, (path, _) = stack[-1]
    call = key.rpartition("@")[2]
    return str(path), int(call) if call.isdigit() else 0
