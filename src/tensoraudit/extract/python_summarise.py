"""From the tables of one file to its summary. Every function and class is worked out once."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from tensoraudit.extract.python_inference import Inference
from tensoraudit.extract.python_scopes import Binding, ClassTable, FunctionTable, ModuleTable
from tensoraudit.extract.python_summary import ClassSummary, FunctionSummary, Summary


def summarise(module: ModuleTable, inference: Inference) -> Summary:
    """Return the summary of a file whose `inference` does not follow other files."""
    exports, constants = {}, {}
    for name in module.bindings:
        bound = inference.bound(name, module)
        exports[name] = bound.origins
        if bound.literal is not None:
            constants[name] = bound.literal
    changed = (origin for node, table in module.stores for origin in inference.expression(node, table))
    return Summary(
        module=module.path,
        exports=exports,
        constants=constants,
        stars=tuple(module.stars),
        public=_public(constants.get("__all__")),
        functions={path: _function(function, inference) for path, function in module.functions.items()},
        classes={path: _class(owner, inference) for path, owner in module.classes.items()},
        changed=frozenset(changed),
    )


def _public(names: Any) -> tuple[str, ...] | None:
    texts = isinstance(names, tuple) and all(isinstance(name, str) for name in names)
    return names if texts else None


def _function(function: FunctionTable, inference: Inference) -> FunctionSummary:
    return FunctionSummary(
        inference.parameters(function),
        inference.returned(function),
        function.instance is not None,
        inference.is_property(function),
        inference.keeps(function),
    )


def _class(owner: ClassTable, inference: Inference) -> ClassSummary:
    assert owner.node is not None
    names = dict.fromkeys([*owner.attributes, *owner.bindings])
    attributes = {name: inference.instance_attribute(owner, name) for name in names if name not in owner.methods}
    bases = inference.direct_bases(owner)
    plain = inference.keeps_constants(owner)
    literals = {name: inference.bound(name, owner).literal for name in owner.bindings if plain}
    return ClassSummary(
        bases=bases,
        attributes={name: origins for name, origins in attributes.items() if origins != (f"self.{name}",)},
        constants={
            name: value for name, value in literals.items() if value is not None and name not in owner.attributes
        },
        methods={name: _function(method, inference) for name, method in owner.methods.items()},
        fields=_fields(owner, inference),
    )


def _fields(owner: ClassTable, inference: Inference) -> tuple[str, ...] | None:
    """Return the parameters of a dataclass, in order, where the file alone tells them."""
    assert owner.node is not None and owner.parent is not None
    decorators = [
        decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in owner.node.decorator_list
    ]
    known = [inference.expression(decorator, owner.parent) for decorator in decorators]
    if ("dataclasses.dataclass",) not in known or owner.node.bases:
        return None
    return tuple(name for name, bindings in owner.bindings.items() if _is_field(bindings))


def _is_field(bindings: Sequence[Binding]) -> bool:
    return bindings[0].annotation is not None
