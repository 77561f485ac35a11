"""What the converters of PyTorch models know of its operators.

Operators are named as in an ExportedProgram (`aten.conv2d.default`, `cond`, `_operator.getitem`) or in TorchScript
(`aten::conv2d`, `prim::If`), where any overload counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

_OVERLOADED = re.compile(r"(?P<namespace>\w+)\.(?P<name>\w+)\.(?P<overload>\w+)")
_SCRIPTED = re.compile(r"(?P<namespace>\w+)::(?P<name>\w+)")
_INPLACE = re.compile(r"^(\w+\.\w*[^\W_])_\.(?=\w+$)")
_RESOLVED = frozenset((
    *("prim::GetAttr", "prim::CallMethod", "prim::CallFunction", "prim::TupleUnpack", "prim::TupleConstruct"),
    *("prim::ListConstruct", "prim::ListUnpack", "prim::DictConstruct", "prim::Enter", "prim::Exit", "prim::Print"),
))  # fmt: skip
"""What inlining and freezing take away before anything is translated."""
_DEFAULT_OPSET = 18


def torch_onnx_dynamo(operators: Sequence[str], opsets: Mapping[str, int]) -> set[str]:
    """Those with a translation in the exporter's registry, and those that PyTorch decomposes on the way to it.

    Whether a decomposition ends in operators that are translated shows in the conversion alone. Raises ImportError
    without onnxscript.
    """
    translated, decomposed = _dynamo_tables()
    return {op for op in operators if op in _RESOLVED or _in_dynamo(op, translated, decomposed)}


def _in_dynamo(op: str, translated: set[Any], decomposed: set[Any]) -> bool:
    """The exporter looks an operator up by its own full name, overload included, and falls back to no other."""
    plain = _INPLACE.sub(r"\g<1>.", op)  # the program is made functional first
    if (_names(op) | _names(plain)) & translated:
        return True
    found = (*_overloads(op), *_overloads(plain))
    return any(_key(each) in translated or each in decomposed or _implicit(each) for each in found)


@cache
def _dynamo_tables() -> tuple[set[Any], set[Any]]:
    """What the exporter translates, by the keys of its registry, and what PyTorch decomposes. A second to build, and
    asked for once per target."""
    import onnxscript  # noqa: F401 - without it the registry is silently empty
    from torch.onnx._internal.exporter import _decomp, _registration

    registry = _registration.ONNXRegistry.from_torchlib()
    implemented = {each for each in _decomp.get_onnx_implemented_overloads(registry) if not isinstance(each, str)}
    return set(registry.functions), set(_decomp.create_onnx_friendly_decomposition_table(implemented))


def _key(target: Any) -> Any:
    """An operator as a key of the registry: an overload by its name, `aten::sort` or `aten::sort.stable`."""
    import torch

    return target.name() if isinstance(target, torch._ops.OpOverload) else target


def _names(op: str) -> set[str]:
    """The key of an operator that this PyTorch may not have, such as one of torchvision."""
    found = _OVERLOADED.fullmatch(op)
    if found is None:
        return set()
    name = f"{found['namespace']}::{found['name']}"
    return {name if found["overload"] == "default" else f"{name}.{found['overload']}"}


def torchax(operators: Sequence[str], opsets: Mapping[str, int]) -> set[str]:
    """Those with a lowering in torchax, and those that are decomposed before. Raises ImportError."""
    import torch

    from tensoraudit.routes.torch_to_jax_torchax import imported

    imported()
    from torchax import decompositions
    from torchax.ops import ops_registry

    tables = (torch.export.default_decompositions(), decompositions.DECOMPOSITIONS, ops_registry.all_aten_ops)
    known = {key for table in tables for key in table}
    return {op for op in operators if op.startswith("_operator.") or op in _RESOLVED or _known(op, known)}


def torch_export(operators: Sequence[str], opsets: Mapping[str, int]) -> set[str]:
    """All: an ExportedProgram holds PyTorch's own operators, whichever they are."""
    return set(operators)


def _known(op: str, known: set[Any]) -> bool:
    """Whether an operator, its packet, or its decomposition is among the keys of a registry."""
    found = list(_overloads(op))
    return any(each in known or getattr(each, "overloadpacket", None) in known or _implicit(each) for each in found)


def _implicit(overload: Any) -> bool:
    """Whether PyTorch itself defines the operator by others (CompositeImplicitAutograd)."""
    import torch

    if not isinstance(overload, torch._ops.OpOverload):
        return False
    try:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), "CompositeImplicitAutograd"))
    except RuntimeError:  # operators of TorchScript alone, on numbers and lists
        return False


def _overloads(op: str) -> Iterable[Any]:
    """The objects that a name stands for; none for one that this PyTorch does not have."""
    import operator

    import torch

    if found := _OVERLOADED.fullmatch(op):
        return _attribute(_packet(found), found["overload"])
    if found := _SCRIPTED.fullmatch(op):
        packet = _packet(found)
        names = packet.overloads() if packet is not None else []
        return [each for name in names for each in _attribute(packet, name)]
    if op.startswith("_operator."):
        return _attribute(operator, op.partition(".")[2])
    return _attribute(torch.ops.higher_order, op) or _attribute(torch, op.rpartition(".")[2])


def _packet(found: Any) -> Any:
    import torch

    return next(iter(_attribute(getattr(torch.ops, found["namespace"]), found["name"])), None)


def _attribute(owner: Any, name: str) -> list[Any]:
    try:
        return [getattr(owner, name)] if owner is not None else []
    except (AttributeError, RuntimeError):
        return []


def torch_onnx_torchscript(operators: Sequence[str], opsets: Mapping[str, int]) -> set[str]:
    """Those with a symbolic function at the opset; of an operator in place the one that is not. Raises ImportError."""
    for module in _symbolic_modules():
        import_module(module)
    registration = _registration()
    registry, opset = registration.registry, int(opsets.get("", _DEFAULT_OPSET))
    return {op for op in operators if op in _RESOLVED or any(registry.is_registered_op(s, opset) for s in _symbols(op))}


def _registration() -> Any:
    try:
        return import_module("torch.onnx._internal.torchscript_exporter.registration")
    except ImportError:  # before torch 2.9
        return import_module("torch.onnx._internal.registration")


def _symbolic_modules() -> list[str]:
    """The modules that register functions, one for each opset, where this PyTorch has them. Raises ImportError."""
    for package in ("torch.onnx._internal.torchscript_exporter", "torch.onnx"):
        names = [each.name for each in iter_modules(import_module(package).__path__)]
        found = [f"{package}.{name}" for name in names if name.startswith("symbolic_opset")]
        if found:
            return found
    raise ImportError("this PyTorch has no symbolic functions")


def _symbols(op: str) -> Iterator[str]:
    """The names under which TorchScript's exporter may know an operator."""
    if op.startswith("_operator."):
        yield f"aten::__{op.partition('.')[2]}_"
    found = _OVERLOADED.fullmatch(op) or _SCRIPTED.fullmatch(op)
    if found is None:
        yield {"cond": "prim::If", "while_loop": "prim::Loop"}.get(op, op)
        return
    name = f"{found['namespace']}::{found['name']}"
    yield name
    if name.endswith("_"):
        yield name[:-1]  # the exporter takes the last underscore for one of an operator in place: `__getitem_`
