"""From the code of one TorchScript function to the nodes of its graph.

Serialised TorchScript is Python in a few fixed forms (torch/csrc/jit/serialization/python_print.cpp), read here with
`ast`. What each form becomes, under the names of the TorchScript IR:

1. `torch.conv2d(...)`, `ops.quantized.add(...)`: `aten::conv2d`, `quantized::add`.
2. `(x).forward(y, )`: `prim::CallMethod`; `__torch__.f(x)`: `prim::CallFunction`, the target in `attributes["name"]`.
3. `x.weight`, `getattr(x, "0")`: `prim::GetAttr`; `self.n = y`: `prim::SetAttr`, the attribute in `attributes["name"]`,
   the class of its owner in `attributes["class"]` (torch keeps state too, in `torch.autograd.grad_mode.no_grad`).
4. `if`, `for`, `while`, `with`: `prim::If`, `prim::Loop`, `prim::Enter`/`prim::Exit`; bodies are graphs of their own
   (`main/If_0.then_branch`), and what they hand on is an output of the node.
5. `a, b, = x`: `prim::TupleUnpack` or `prim::ListUnpack`; displays: `prim::ListConstruct` and its like.
6. Constants are values (`const:1`), not nodes.

A name that is assigned again is another value (`x`, `x#1`). Calls nest; inner ones come first.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tensoraudit.extract.python_values import literal
from tensoraudit.extract.torchscript_nodes import GraphBlock, GraphWriter
from tensoraudit.facts import ABSENT, Site, Unknown, Value

_LIST_OPS: Final = frozenset(
    f"aten::{name}"
    for name in (
        "align_tensors", "broadcast_tensors", "chunk", "dsplit", "hsplit", "meshgrid", "size", "split",
        "split_with_sizes", "tensor_split", "unbind", "unsafe_chunk", "unsafe_split", "vsplit",
    )
)  # fmt: skip
"""Operators whose one result is a list."""

_BUILTINS: Final = {
    "bool": "aten::Bool", "int": "aten::Int", "float": "aten::Float", "complex": "aten::Complex", "str": "aten::str",
    "print": "prim::Print",
}  # fmt: skip
_SPECIAL: Final = {"inf": float("inf"), "nan": float("nan"), "infj": complex(0, float("inf"))}
_COMPARISONS: Final = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Is: "__is__",
    ast.IsNot: "__isnot__", ast.In: "__contains__",
}  # fmt: skip
_NO_CONSTANT: Final = object()


class FunctionReader(GraphWriter):
    """Reads one function into nodes and values. `inputs` and `outputs` are value names afterwards."""

    def read(self, node: ast.FunctionDef) -> None:
        """Read the whole function."""
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            name = self.assign(argument.arg)
            written = "" if argument.annotation is None else ast.unparse(argument.annotation)
            self.types[name] = written
            if argument.arg != "self":
                dtype, shape = type_of(written)
                self.inputs.append(
                    Value(name, dtype, shape, ABSENT, "input", self.graph, self.file.side, Site(self.file.model))
                )
        self.file.facts.extend(self.inputs)
        self._body(node.body)

    # statements

    def _body(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            reader = _STATEMENTS.get(type(statement))
            if reader is not None:
                reader(self, statement)

    def _assignment(self, node: ast.Assign) -> None:
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Name):
            self._assign_name(target, value)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, value)
        elif isinstance(target, ast.Attribute):
            held, new = self._value(target.value), self._value(value)
            attributes = {"name": target.attr, "class": self.types.get(held, "")}
            self.emit("prim::SetAttr", node, inputs=[held, new], attributes=attributes)
        elif isinstance(target, ast.Subscript):
            inputs = [self._value(target.value), self._value(target.slice), self._value(value)]
            self.emit("aten::_set_item", node, inputs=inputs)

    def _assign_name(self, target: ast.Name, value: ast.expr) -> None:
        path = dotted(value)
        if path is not None and path.startswith("__torch__.") and self._enum(path) is None:
            self.targets[self.assign(target.id)] = path  # a function under a short name
            return
        made = self._value(value, target.id)
        if self.look_up(target.id) != made:
            self.assign(target.id, made)

    def _unpack(self, target: ast.Tuple | ast.List, value: ast.expr) -> None:
        names = [item.id for item in target.elts if isinstance(item, ast.Name)]
        if isinstance(value, ast.Tuple) and len(value.elts) == len(names):
            values = [self._value(item) for item in value.elts]
            for name, made in zip(names, values, strict=True):
                self.assign(name, made)
            return
        if isinstance(value, ast.Call) and not self._forces_unpacking(target):
            self._call(value, names)  # an operator with several results
            return
        held = self._value(value)
        is_list = isinstance(target, ast.List) or self.makers.get(held) in _LIST_OPS
        outputs = [self.assign(name) for name in names]
        self.emit("prim::ListUnpack" if is_list else "prim::TupleUnpack", target, inputs=[held], outputs=outputs)

    def _forces_unpacking(self, target: ast.Tuple | ast.List) -> bool:
        """`a, b, = x` unpacks one value; `a, b = f()` takes the two results of an operator."""
        end = self.file.line_starts[(target.end_lineno or 1) - 1] + (target.end_col_offset or 0)
        return isinstance(target, ast.List) or self.file.text[end - 1 : end] == b","

    def _expression(self, node: ast.Expr) -> None:
        self._value(node.value)

    def _return(self, node: ast.Return) -> None:
        if node.value is not None:
            made = self._value(node.value)
            self.outputs = list(self.tuples.get(made, [made]))

    def _if(self, node: ast.If) -> None:
        condition = self._value(node.test)
        name, position = self.reserve("prim::If")
        then = self._inner(f"{name}.then_branch", node.body)
        other = self._inner(f"{name}.else_branch", node.orelse)
        outputs = [self.assign(key) for key in then if key in other]
        self.emit("prim::If", node, inputs=[condition], outputs=outputs, name=name, position=position)

    def _loop(self, node: ast.For | ast.While) -> None:
        inputs = [self._value(part) for part in _loop_inputs(node)]
        name, position = self.reserve("prim::Loop")
        targets = _loop_targets(node)
        changed = self._inner(f"{name}.body", node.body, targets)
        outputs = [self.assign(key) for key in changed if key not in targets and self.look_up(key) is not None]
        self.emit("prim::Loop", node, inputs=inputs, outputs=outputs, name=name, position=position)

    def _with(self, node: ast.With) -> None:
        managers = [self._value(item.context_expr) for item in node.items]
        for manager in managers:
            self.emit("prim::Enter", node, inputs=[manager])
        self._body(node.body)
        for manager in reversed(managers):
            self.emit("prim::Exit", node, inputs=[manager])

    def _function(self, node: ast.FunctionDef) -> None:
        """A function inside a function: what `fork` runs. It sees the names around it."""
        graph = f"{self.blocks[-1].graph}/{node.name}"
        self.blocks.append(GraphBlock(graph))
        self._body(node.body)
        self.blocks.pop()
        self.assign(node.name)

    def _inner(self, name: str, statements: Sequence[ast.stmt], targets: Sequence[str] = ()) -> dict[str, str]:
        """Read a body as a graph of its own; return the names it assigned."""
        block = GraphBlock(f"{self.blocks[-1].graph}/{name}")
        self.blocks.append(block)
        for target in targets:
            self.assign(target)
        self._body(statements)
        return self.blocks.pop().names

    # expressions

    def _value(self, node: ast.expr, name: str = "") -> str:
        """Return the value of `node`; when a new one is made it is called `name`."""
        constant = self._written(node)
        if constant is not _NO_CONSTANT:
            return self.constant(constant)
        reader = _EXPRESSIONS.get(type(node))
        if reader is not None:
            return reader(self, node, name)
        inputs = [self._value(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return self._made(f"prim::{type(node).__name__}", node, inputs, name)

    def _made(
        self, op: str, at: ast.expr, inputs: Sequence[str], name: str, attributes: dict[str, Any] | None = None
    ) -> str:
        output = self.assign(name) if name else self.fresh("_")
        self.emit(op, at, inputs=inputs, outputs=[output], attributes=attributes)
        return output

    def _written(self, node: ast.expr) -> Any:
        """Return the constant that `node` writes down, or `_NO_CONSTANT`."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return _SPECIAL.get(node.id, _NO_CONSTANT)
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Name) and node.operand.id in _SPECIAL:
            return -_SPECIAL[node.operand.id]
        if isinstance(node, ast.Dict) or (isinstance(node, ast.List | ast.Tuple) and not node.elts):
            return _NO_CONSTANT if isinstance(node, ast.Dict | ast.List) else ()
        path = dotted(node) if isinstance(node, ast.Attribute) else None
        if path is not None and path.startswith("CONSTANTS.c"):
            number = path.removeprefix("CONSTANTS.c")
            known = number.isdigit() and int(number) < len(self.file.constants)
            return self.file.constants[int(number)] if known else Unknown(path)
        value = literal(node)
        return _NO_CONSTANT if value is None else value

    def _enum(self, path: str) -> str | None:
        owner, _, member = path.rpartition(".")
        return member if self.file.classes.get(owner, {}).get(member) == "=" else None

    def _name_value(self, node: ast.Name, _: str) -> str:
        return self.look_up(node.id) or node.id

    def _get_attribute(self, node: ast.Attribute, name: str) -> str:
        path = dotted(node)
        if path is not None and path.startswith("__torch__."):
            return self.constant(path)
        return self._attribute(node, self._value(node.value), node.attr, name)

    def _attribute(self, at: ast.expr, held: str, attribute: str, name: str) -> str:
        made = self._made("prim::GetAttr", at, [held], name, {"name": attribute})
        self.types[made] = self.file.classes.get(self.types.get(held, ""), {}).get(attribute, "")
        return made

    def _subscript(self, node: ast.Subscript, name: str) -> str:
        return self._made("aten::__getitem__", node, [self._value(node.value), self._value(node.slice)], name)

    def _display(self, node: ast.List | ast.Tuple, name: str) -> str:
        op = "prim::ListConstruct" if isinstance(node, ast.List) else "prim::TupleConstruct"
        inputs = [self._value(item) for item in node.elts]
        made = self._made(op, node, inputs, name)
        if isinstance(node, ast.Tuple):
            self.tuples[made] = inputs
        return made

    def _dict(self, node: ast.Dict, name: str) -> str:
        pairs = [(self._value(key), self._value(item)) for key, item in zip(node.keys, node.values, strict=True) if key]
        return self._made("prim::DictConstruct", node, [part for pair in pairs for part in pair], name)

    def _compare(self, node: ast.Compare, name: str) -> str:
        op = _COMPARISONS.get(type(node.ops[0]), "eq")
        return self._made(f"aten::{op}", node, [self._value(node.left), self._value(node.comparators[0])], name)

    def _call_value(self, node: ast.Call, name: str) -> str:
        return self._call(node, [name])[0]

    # calls

    def _call(self, node: ast.Call, names: Sequence[str]) -> list[str]:
        """Read a call with as many results as `names`; an empty name stands for one without."""
        special = _FORMS.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if special is not None:
            return [special(self, node, names[0])]
        op, inputs, attributes = self._callee(node.func)
        inputs += [self._value(argument) for argument in node.args]
        for keyword in node.keywords:
            inputs.append(self._value(keyword.value))
            constant = self.constants.get(inputs[-1], _NO_CONSTANT)
            if constant is not _NO_CONSTANT:
                attributes[keyword.arg or ""] = constant
        if op == "prim::RaiseException":
            texts = zip(("message", "class"), map(self._text, inputs), strict=False)
            attributes.update({key: text for key, text in texts if text})
            self.emit(op, node, inputs=inputs, attributes=attributes)
            return [""]
        outputs = [self.assign(name) if name else self.fresh("_") for name in names]
        self.emit(op, node, inputs=inputs, outputs=outputs, attributes=attributes)
        if op == "aten::format":
            self.texts[outputs[0]] = self._text(inputs[0]) or ""
        return outputs

    def _callee(self, node: ast.expr) -> tuple[str, list[str], dict[str, Any]]:
        path = dotted(node)
        if path is not None:
            local = self.look_up(path.partition(".")[0])
            if local is not None and local in self.targets:
                return "prim::CallFunction", [], {"name": self.targets[local]}
            if local is None:
                return self._global(path)
        if isinstance(node, ast.Attribute):
            held = self._value(node.value)
            attributes = {"name": node.attr}
            if self.types.get(held):
                attributes["class"] = self.types[held]
            return "prim::CallMethod", [held], attributes
        return "prim::CallFunction", [self._value(node)], {}

    def _global(self, path: str) -> tuple[str, list[str], dict[str, Any]]:
        head, _, rest = path.partition(".")
        if head == "torch":
            return f"aten::{rest}", [], {}
        if head == "ops":
            return rest.replace(".", "::", 1), [], {}
        if head == "__torch__":
            made = path.removesuffix(".__new__")
            return ("prim::CallFunction" if made == path else "prim::CreateObject"), [], {"name": made}
        return _BUILTINS.get(path, f"prim::{path}"), [], {}

    def _text(self, value: str) -> str | None:
        """Return the text that a value is, or the one that it is formatted from."""
        text = self.constants.get(value, self.texts.get(value))
        return text if isinstance(text, str) else None

    def _second(self, node: ast.Call, name: str) -> str:
        """`annotate(T, x)` and `unchecked_cast(T, x)` are x to the reader of a graph."""
        made = self._value(node.args[1], name) if len(node.args) > 1 else self.constant(None)
        self.types[made] = ast.unparse(node.args[0])[:200] if node.args else ""
        return made

    def _uninitialized(self, node: ast.Call, name: str) -> str:
        return self._made("prim::Uninitialized", node, [], name)

    def _getattr(self, node: ast.Call, name: str) -> str:
        attribute = literal(node.args[1]) if len(node.args) > 1 else ""
        return self._attribute(node, self._value(node.args[0]), str(attribute), name)


def dotted(node: ast.expr) -> str | None:
    """Return `a.b.c` when `node` is a dotted name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else None


def type_of(written: str) -> tuple[str | Unknown, tuple[int, ...] | Unknown]:
    """Return dtype and shape of a value of a TorchScript type; both are known for plain numbers only."""
    scalars = {"int": "int64", "float": "float64", "bool": "bool", "str": "string", "complex": "complex128"}
    inner = written.removeprefix("Optional[").removesuffix("]") if written.startswith("Optional[") else written
    if inner in scalars:
        return scalars[inner], ()
    reason = Unknown(
        "TorchScript declares no dtype" if inner == "Tensor" else f"the type is {written[:80] or 'not given'}"
    )
    return reason, reason


def _loop_inputs(node: ast.For | ast.While) -> list[ast.expr]:
    """Return what a loop runs over: the bounds of a range, a sequence, or a condition."""
    if isinstance(node, ast.While):
        return [node.test]
    over = node.iter
    is_range = isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range"
    return over.args if is_range else [over]  # type: ignore[attr-defined]


def _loop_targets(node: ast.For | ast.While) -> list[str]:
    if isinstance(node, ast.While):
        return []
    return [item.id for item in ast.walk(node.target) if isinstance(item, ast.Name)]


_FORMS: Final[Mapping[str, Callable[[FunctionReader, ast.Call, str], str]]] = {
    "annotate": FunctionReader._second,
    "unchecked_cast": FunctionReader._second,
    "uninitialized": FunctionReader._uninitialized,
    "getattr": FunctionReader._getattr,
}
_EXPRESSIONS: Final[Mapping[type[ast.expr], Callable[[FunctionReader, Any, str], str]]] = {
    ast.Name: FunctionReader._name_value,
    ast.Attribute: FunctionReader._get_attribute,
    ast.Subscript: FunctionReader._subscript,
    ast.List: FunctionReader._display,
    ast.Tuple: FunctionReader._display,
    ast.Dict: FunctionReader._dict,
    ast.Compare: FunctionReader._compare,
    ast.Call: FunctionReader._call_value,
}
_STATEMENTS: Final[Mapping[type[ast.stmt], Callable[[FunctionReader, Any], None]]] = {
    ast.Assign: FunctionReader._assignment,
    ast.Expr: FunctionReader._expression,
    ast.Return: FunctionReader._return,
    ast.If: FunctionReader._if,
    ast.For: FunctionReader._loop,
    ast.While: FunctionReader._loop,
    ast.With: FunctionReader._with,
    ast.FunctionDef: FunctionReader._function,
}
