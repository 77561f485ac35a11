"""ONNX to PyTorch by onnx2torch: one module for each node, in an fx graph."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tensoraudit.routes.source import Place, chain, frames

NODE = "onnx_node"
"""The attribute of a module that says which ONNX node it is, as a place; the line is the node's number in the file."""

_NEEDS_TORCHVISION = ("NonMaxSuppression", "RoiAlign")
_COUNTING = ("Resize", "Upsample", "Range")
"""Operators whose floats decide a size."""

MAX_SIZES = 64
"""Entries of an integer constant that may be a shape; longer ones are tables."""

_KEPT = ("value", "value_float", "value_floats", "value_int", "value_ints")
"""The forms of a Constant that an initializer can hold."""


@dataclass(frozen=True)
class Conversion:
    """`module` is an fx.GraphModule whose arguments are the names in `inputs`, and which returns a dict by the names in
    `outputs`; both map to the dtypes that the file declares. `called` maps the file's names of inputs to arguments."""

    module: Any
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    called: Mapping[str, str]


def convert(path: str) -> Conversion:
    """Convert an ONNX file. Raises whatever onnx and onnx2torch raise."""
    import onnx

    model = onnx.load(path)
    _check(model.graph)
    numbers = {tuple(node.output): number for number, node in enumerate(model.graph.node, 1)}
    _lift_constants(model.graph)
    with torchvision_stand_in():
        import onnx2torch
    from onnx2torch.onnx_graph import OnnxGraph

    initializers = {each.name for each in model.graph.initializer}
    inputs = [each for each in model.graph.input if each.name not in initializers]
    names = identifiers([each.name for each in inputs])
    module = onnx2torch.convert(model)
    graph = OnnxGraph(model.graph)
    _name_inputs(module, names)
    _name_outputs(module, graph)
    _keep_sizes_known(module, {name: node.operation_type for name, node in graph.nodes.items()})
    for name, node in graph.nodes.items():
        text = f"{node.operation_type} node {node.name or name!r}"
        place = {"path": str(Path(path)), "line": numbers[node.output_values], "text": text}
        setattr(module.get_submodule(name), NODE, place)
    module.recompile()
    dtypes = dict(zip(names, map(_dtype, inputs)))  # noqa: B905 - Python 3.9
    called = {each.name: name for each, name in zip(inputs, names)}  # noqa: B905
    return Conversion(module, dtypes, {each.name: _dtype(each) for each in model.graph.output}, called)


def _dtype(value: Any) -> str:
    from onnx import helper

    return str(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))


def _check(graph: Any) -> None:
    for node in graph.node:
        if node.op_type in _NEEDS_TORCHVISION and not _has_torchvision():
            raise NotImplementedError(f"torchvision is missing: {node.op_type}")


def _has_torchvision() -> bool:
    try:
        import torchvision.ops  # noqa: F401
    except Exception:  # it may be there and not fit this torch, with whatever that raises
        return False
    return True


@contextmanager
def torchvision_stand_in() -> Iterator[None]:
    """Let onnx2torch be imported without torchvision, which it needs for two operators alone (see `_check`)."""
    if _has_torchvision():
        yield
        return
    package, ops = ModuleType("torchvision"), ModuleType("torchvision.ops")
    package.ops, ops.roi_align = ops, None  # type: ignore[attr-defined]
    stand_ins = {"torchvision": package, "torchvision.ops": ops}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name in stand_ins:
            sys.modules.pop(name, None)


def _lift_constants(graph: Any) -> None:
    """Turn Constant nodes into initializers, which is the same: onnx2torch wants weights to be initializers."""
    from onnx import helper, numpy_helper

    used = {each.name for each in graph.output}
    for node in [each for each in graph.node if each.op_type == "Constant" and not each.domain]:
        attribute = node.attribute[0]
        if attribute.name not in _KEPT or node.output[0] in used:
            continue
        value = helper.get_attribute_value(attribute)
        tensor = value if attribute.name == "value" else numpy_helper.from_array(_array(attribute.name, value))
        graph.initializer.add().CopyFrom(tensor)
        graph.initializer[-1].name = node.output[0]
        graph.node.remove(node)


def _array(name: str, value: Any) -> Any:
    import numpy as np

    return np.asarray(value, np.float32 if "float" in name else np.int64)


def _name_inputs(module: Any, names: Sequence[str]) -> None:
    old = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node, name in zip(old, names):  # noqa: B905 - Python 3.9
        with module.graph.inserting_before(node):
            node.replace_all_uses_with(module.graph.placeholder(name))
        module.graph.erase_node(node)


def _name_outputs(module: Any, graph: Any) -> None:
    """onnx2torch returns all results of a node that has several, and each node once: other outputs than the file's."""
    import operator

    nodes = {node.target: node for node in module.graph.nodes if node.op == "call_module"}
    end = next(node for node in module.graph.nodes if node.op == "output")
    results = {}
    with module.graph.inserting_before(end):
        for name in graph.output_values:
            owner, index = graph.value_as_node_output(name)
            node = nodes[owner.unique_name]
            several = len(owner.output_values) > 1
            results[name] = module.graph.call_function(operator.getitem, (node, index)) if several else node
        module.graph.output(results)
    module.graph.erase_node(end)


def known(like: Any, values: Any, dtype: Any) -> Any:
    """Return a small constant beside another tensor."""
    import torch

    return torch.tensor(values, dtype=dtype, device=like.device)


def _keep_sizes_known(module: Any, operators: Mapping[str, str]) -> None:
    """Make small integers part of the graph instead of buffers, whose values torch.export must not look at.

    They are the shapes, axes and bounds of other nodes; so are a few floats.
    """
    like = next((node for node in module.graph.nodes if node.op == "placeholder"), None)
    for node in [each for each in module.graph.nodes if each.op == "get_attr" and like is not None]:
        owner, _, name = node.target.rpartition(".")
        tensor = getattr(module.get_submodule(owner), name)
        counts = all(operators.get(str(user.target)) in _COUNTING for user in node.users)
        if tensor.numel() > MAX_SIZES or (tensor.is_floating_point() and not counts):
            continue
        with module.graph.inserting_before(node):
            node.replace_all_uses_with(module.graph.call_function(known, (like, tensor.tolist(), tensor.dtype)))
        module.graph.erase_node(node)
        delattr(module.get_submodule(owner), name)
    for each in module.modules():
        if type(each).__name__ in _TRACEABLE:
            each.forward = _TRACEABLE[type(each).__name__]


def _reshape(tensor: Any, shape: Any) -> Any:
    return tensor.reshape([tensor.shape[axis] if size == 0 else size for axis, size in enumerate(shape.tolist())])


def _slice(tensor: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    count = len(starts)
    index, flipped = [slice(None)] * tensor.dim(), []
    bounds = zip(  # noqa: B905 - Python 3.9
        starts.tolist(),
        ends.tolist(),
        range(count) if axes is None else axes.tolist(),
        [1] * count if steps is None else steps.tolist(),
    )
    for start, end, axis, step in bounds:
        if step < 0:
            flipped.append(axis)
            start, end, step = -start - 1, -end - 1, -step  # noqa: PLW2901
        index[axis] = slice(start, end, step)
    return (tensor.flip(flipped) if flipped else tensor)[tuple(index)]


_TRACEABLE = {"OnnxReshape": _reshape, "OnnxSlice": _slice}
"""Modules of onnx2torch that take their sizes through NumPy or ask about all of them at once, where torch.export cannot
follow, and the same computation without that."""


def identifiers(names: Sequence[str]) -> list[str]:
    """Return names that Python takes for arguments, all different, in the same order."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"\W", "_", name)
        plain = f"input_{plain}" if not plain or plain[0].isdigit() or keyword.iskeyword(plain) else plain
        while plain in found:
            plain += "_"
        found.append(plain)
    return found


def node_place(problem: BaseException) -> Place | None:
    """Return the ONNX node whose module raised an exception."""
    for cause in reversed(chain(problem)):
        for frame, _ in reversed(list(frames(cause.__traceback__))):
            found = getattr(frame.f_locals.get("self"), NODE, None)
            if isinstance(found, dict):
                return found
    return None


def translating(problem: BaseException) -> str:
    """Return the operator that onnx2torch was translating when it raised an exception; "" when it was not."""
    for cause in reversed(chain(problem)):
        for frame, _ in reversed(list(frames(cause.__traceback__))):
            node: Any = frame.f_locals.get("onnx_node")
            if hasattr(node, "operation_type"):
                return f"{node.operation_type} node {node.name or node.unique_name!r}"
    return ""
