"""Second pass, expressions: from an expression to its origins and value, leaving facts on the way.

Facts come in the order of evaluation: the argument of a call before the call. The statement half is in
`python_statements`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensoraudit.extract import known_results
from tensoraudit.extract.python_containers import GROWS, PARTIAL, READS, grown
from tensoraudit.extract.python_facts import Arguments, FactWriter
from tensoraudit.extract.python_inference import BUILTINS
from tensoraudit.extract.python_kinds import arithmetic, constant_origin, display_origin, packed
from tensoraudit.extract.python_origins import (
    LONGEST,
    UNKNOWN,
    Bound,
    Origins,
    any_item,
    bare,
    callee,
    each,
    has_positions,
    is_own,
    is_path,
    told_apart,
    unite,
)
from tensoraudit.extract.python_syntax import inner_expressions
from tensoraudit.extract.python_values import (
    binary,
    constant,
    display,
    held_item,
    is_transparent,
    made_by,
    mapping,
    named,
    unary,
    unknown,
)
from tensoraudit.facts import Block, Name, Unknown
from tensoraudit.facts.record import record

MOST_UNPACKED = 50
"""Entries of a dict that `**` spreads into a call; a larger one counts as not known."""

ENVIRONMENT = ("os.environ",)

_NO_FUNCTIONS = frozenset(
    (origin,) for origin in ("?", "None", "torch.Tensor()", "int()", "str()", "float()", "bool()", "bytes()")
)
"""Origins of most arguments, which say nothing about functions."""

OPERATORS: Mapping[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


@record
class Seen:
    """What an expression came to: where its value comes from, and the value as far as it is known."""

    origins: Origins
    value: Any


@record
class Path:
    """A dotted expression: its origins and text, and those of what stands before the last dot."""

    origins: Origins
    text: str | None
    receivers: Origins
    receiver: str | None


class ExpressionReader(FactWriter):
    """Reads the expressions of one file. `lambda_scope` is that of the lambda read last."""

    lambda_scope = 0

    def read(self, node: ast.expr) -> Seen:
        """Read `node` and all below it."""
        reader = _READERS.get(type(node))
        if reader is not None:
            return reader(self, node)
        for child in inner_expressions(node):
            self.read(child)
        return Seen(display_origin(node), unknown(node))

    # names

    def _name(self, node: ast.Name) -> Seen:
        bound = self.look_up(node.id)
        origins = bound.origins
        text = node.id
        if len(origins) > 1:
            self._refer_to_paths(node, origins)
        elif is_path(origins[0]):
            text = origins[0]
            if text not in BUILTINS:
                self.refer(node, origins)
        self.names.append(text)
        return Seen(origins, named(text) if bound.literal is None else bound.literal)

    def path(self, node: ast.Attribute) -> Path:
        """Resolve a dotted expression without leaving a fact for it."""
        text: str | None
        names = [node.attr]
        root = node.value
        while isinstance(root, ast.Attribute):
            names.append(root.attr)
            root = root.value
        if isinstance(root, ast.Name):
            origins, text = self.look_up(root.id).origins, root.id
        else:
            origins, text = self._anonymous(root)
        receivers, receiver = origins, text
        for name in reversed(names):
            receivers, receiver = origins, text
            origins = self.inference.member(origins, name, self.table)
            text = f"{text}.{name}" if text is not None and len(text) < LONGEST else None
        receiver = _written(receivers, receiver)
        if len(receivers) == 1 and is_path(receivers[0]):  # a variable of a module is shown by its name, not its value
            text = f"{receivers[0]}.{node.attr}"
        return Path(origins, _written(origins, text), receivers, receiver)

    def _attribute(self, node: ast.Attribute) -> Seen:
        path = self.path(node)
        self.refer(node, self._reference_names(path, node.attr))
        if path.text is None:
            return Seen(path.origins, unknown(node))
        self.names.append(path.text)
        value = self._constant_at(path.receivers, node.attr)
        return Seen(path.origins, named(path.text) if value is None else value)

    def _constant_at(self, receivers: Origins, name: str) -> Any:
        """Return the value of a constant of a module or class of the project, else None."""
        if len(receivers) != 1 or not is_path(receivers[0]):
            return None
        return self.inference.constant_of(receivers[0], name)

    def _refer_to_paths(self, node: ast.expr, origins: Origins) -> None:
        """Leave References to the imports and definitions that a name or a callee may be; values leave none."""
        if len(origins) == 1:
            if is_path(origins[0]) and origins[0] not in BUILTINS:
                self.refer(node, origins)
        elif any(map(is_path, origins)) and origins[0] not in BUILTINS:
            self.refer(node, _paths(origins))

    def _reference_names(self, path: Path, name: str) -> Origins:
        """Return the names to report: on the instance as written, else the origin; `?.name` for one of several
        values."""
        if path.text is not None and is_own(path.text):
            return (path.text,)
        if len(path.receivers) == 1 and is_path(path.receivers[0]) and not any(map(is_path, path.origins)):
            return (f"{path.receivers[0]}.{name}",)  # a variable of a module: by its name, not by what it holds
        if len(path.origins) == 1 and path.origins[0] != known_results.TENSOR:
            return (bare(path.origins[0]),)
        return _paths(path.origins) if any(map(is_path, path.origins)) else self.stored_names(path.receivers, name)

    def stored_names(self, receivers: Origins, name: str) -> Origins:
        """Return the names of attribute `name` of a value with origins `receivers`, typed or not."""
        if len(receivers) == 1:
            return (f"{bare(receivers[0])}.{name}",) if receivers[0] != "None" else (f"?.{name}",)
        return tuple(f"{origin}.{name}" for origin in _paths(receivers))

    # calls

    def call(self, node: ast.Call, assigned: str | None = None) -> Seen:
        """Read a call whose result goes to the dotted name `assigned`."""
        path = self._function(node.func)
        outer = self.part_of
        if isinstance(node.func, ast.Attribute) and node.func.attr in GROWS:
            self.part_of = path.receiver
        given = self._arguments(node)
        self.part_of = outer
        args, splat = given.values, given.starred or given.mapped
        functions = path.origins
        if functions[0].startswith(PARTIAL):  # what it was given before is not known here
            functions, splat, given.mapped = unite([self._partial(origin) for origin in functions]), True, True
        callees = (callee(functions[0]),) if len(functions) == 1 else tuple(dict.fromkeys(map(callee, functions)))
        instance = path.text if callees[0] != functions[0] else path.receiver
        if instance is not None and not is_path(callees[0]):
            args["self"] = named(instance)
        self.calls.extend(callees)
        self.leave_calls(node, callees, given, splat, assigned)
        origins = self.inference.made(functions, path.receivers, given.origins, node)
        if origins is None:
            origins = self.inference.result(functions, path.receivers, self.table)
        if isinstance(node.func, ast.Attribute):
            self._change(node.func.value, node.func.attr, given.origins)
        return Seen(origins, self._result_value(callees, path.text, args, splat))

    def _partial(self, origin: str) -> Origins:
        """Return what a value of `functools.partial` calls, where that is known."""
        calls = origin.startswith(PARTIAL) and "<" in origin and not has_positions(origin)
        return any_item(origin) if calls else (origin,)

    def _function(self, node: ast.expr) -> Path:
        if isinstance(node, ast.Attribute):
            path = self.path(node)
            self._refer_to_paths(node, path.origins)
            if path.receiver is not None and not any(map(is_path, path.receivers)):
                self.names.append(path.receiver)
            return path
        if isinstance(node, ast.Name):
            bound = self.look_up(node.id)
            text = _written(bound.origins, node.id)
            self._refer_to_paths(node, bound.origins)
            return Path(bound.origins, text, bound.origins, text)
        origins, text = self._anonymous(node)
        return Path(origins, text, origins, text)

    def _anonymous(self, node: ast.expr) -> tuple[Origins, str | None]:
        """Read an expression that is no dotted name; return its origins, and its text where it can be named."""
        seen = self.read(node)
        return seen.origins, seen.value.name if isinstance(seen.value, Name) else None

    def _change(self, node: ast.expr, method: str | None, given: Sequence[Origins]) -> None:
        """`method` of a variable was called, or (None) an item of it was set: a display it holds may have changed."""
        bound = self.flow.get(node.id) if isinstance(node, ast.Name) else None
        if bound is None or method in READS:
            return
        held = any("<" in origin for origin in bound.origins)
        if held or isinstance(bound.literal, tuple | dict):
            origins = tuple(self._changed(origin, method, given) for origin in bound.origins) if held else bound.origins
            self.flow.set(node.id, Bound(unite([origins])))  # type: ignore[attr-defined]

    def _changed(self, origin: str, method: str | None, given: Sequence[Origins]) -> str:
        known = grown(origin, method, given[0]) if method is not None and len(given) == 1 else None
        return bare(origin) if known is None else known

    def _arguments(self, node: ast.Call) -> Arguments:
        """Return what a call is given, by position and by name."""
        given = Arguments({}, {}, [])
        for position, argument in enumerate(node.args):
            if isinstance(argument, ast.Starred):
                given.starred = True
                given.origins.append(self.read(argument.value).origins)
            else:
                seen = self.read(argument)
                given.origins.append(seen.origins)
                if not given.starred:  # behind *args the position is not known
                    self._give(given, position, argument, seen)
        for keyword in node.keywords:
            seen = self.read(keyword.value)
            value = seen.value
            if keyword.arg is not None:
                self._give(given, keyword.arg, keyword.value, seen)
            elif isinstance(value, dict) and len(value) <= MOST_UNPACKED and all(isinstance(key, str) for key in value):
                given.values.update(value)
            else:
                given.mapped = True
        return given

    def _give(self, given: Arguments, key: int | str, node: ast.expr, seen: Seen) -> None:
        given.values[key] = seen.value
        if seen.origins not in _NO_FUNCTIONS:
            given.passes[key] = told_apart(seen.origins)
        elif isinstance(node, ast.Lambda):
            given.passes[key] = ((self.lambda_scope,),)

    def _result_value(self, callees: Origins, text: str | None, args: Mapping[int | str, Any], splat: bool) -> Any:
        if len(callees) == 1 and is_path(callees[0]):
            made = None if splat else made_by(callees[0], args)
            return named(f"{callees[0]}()") if made is None else made
        return named(f"{text}()") if text is not None else Unknown("the result of a call")

    # constants and displays

    def _constant(self, node: ast.Constant) -> Seen:
        return Seen(constant_origin(node), constant(node.value))

    def _sequence(self, node: ast.Tuple | ast.List | ast.Set) -> Seen:
        seen = [self.read(item.value if isinstance(item, ast.Starred) else item) for item in node.elts]
        starred = any(isinstance(item, ast.Starred) for item in node.elts)
        origins = packed(display_origin(node)[0], node.elts, [item.origins for item in seen])
        if isinstance(node, ast.Set):
            return Seen(origins, unknown(node))
        return Seen(origins, Unknown("an unpacked display") if starred else display([item.value for item in seen]))

    def _dict(self, node: ast.Dict) -> Seen:
        keys = [self.read(key).value if key is not None else unknown(node) for key in node.keys]
        values = [self.read(value) for value in node.values]
        known = UNKNOWN if None in node.keys else unite([value.origins for value in values]) if values else ()
        return Seen((each("dict()", known),), mapping(keys, [value.value for value in values]))

    # operators

    def _binary(self, node: ast.BinOp) -> Seen:
        chain = [node]
        while isinstance(chain[-1].left, ast.BinOp):  # a + b + c + ... is long, not deep
            chain.append(chain[-1].left)
        marks = self.marks()
        left = self.read(chain[-1].left)
        for step in reversed(chain):
            right = self.read(step.right)
            if not (isinstance(step.op, ast.Mod) and left.origins == ("str()",)):  # formatting is no arithmetic
                self.operate(step, OPERATORS[type(step.op)], (left.value, right.value), marks)
            origins = left.origins if left.origins == ("str()",) else arithmetic((left.origins, right.origins))
            left = Seen(origins, binary(step.op, left.value, right.value))
        return left

    def _unary(self, node: ast.UnaryOp) -> Seen:
        seen = self.read(node.operand)
        return Seen(arithmetic((seen.origins,)), unary(node.op, seen.value))

    def _compare(self, node: ast.Compare) -> Seen:
        marks = self.marks()
        seen = [self.read(node.left)]
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            seen.append(self.read(comparator))
            self.operate(node, OPERATORS[type(op)], (seen[-2].value, seen[-1].value), marks)
        identity = all(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops)
        return Seen(("bool()",) if identity else arithmetic([item.origins for item in seen]), unknown(node))

    def _boolean(self, node: ast.BoolOp) -> Seen:
        return Seen(unite([self.read(value).origins for value in node.values]), unknown(node))

    def _conditional(self, node: ast.IfExp) -> Seen:
        block = self.test("if", node, node.test)
        outer = self.blocks
        self.blocks = (*outer, block)
        chosen = self.read(node.body)
        self.blocks = (*outer, otherwise([block]))
        other = self.read(node.orelse)
        self.blocks = outer
        return Seen(unite([chosen.origins, other.origins]), unknown(node))

    def test(self, op: str, node: ast.expr | ast.stmt, condition: ast.expr) -> Block:
        """Read a condition, leave its Operation, return the block that it opens."""
        marks = self.marks()
        value = self.read(condition).value
        self.operate(node, op, (value,), marks)
        kind: Any = "loop" if op == "while" else "if"
        return Block(kind, self.names_since(marks), self.source.segment(condition), self.source.site(condition))

    # items

    def _subscript(self, node: ast.Subscript) -> Seen:
        seen = self.read(node.value)
        origins, held = seen.origins, seen.value
        key = self.read(node.slice).value
        if origins == ENVIRONMENT and isinstance(key, str):
            name = f"os.environ.{key}"
            self.refer(node, (name,))
            return Seen(("str()",), named(name))
        value: Any = unknown(node)
        if isinstance(held, Name):
            value = held if held.name.endswith("[]") else named(f"{held.name}[]")
        elif isinstance(held, tuple | dict):
            value = held_item(held, key)
        return Seen(self.inference.subscript(origins, node.slice), value)

    # expressions with names of their own

    def _lambda(self, node: ast.Lambda) -> Seen:
        arguments = node.args
        for default in (*arguments.defaults, *filter(None, arguments.kw_defaults)):
            self.read(default)
        mark = self.flow.mark()
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for argument in (*parameters, *filter(None, (arguments.vararg, arguments.kwarg))):
            self.flow.set(argument.arg, Bound(UNKNOWN))
        outer = self.blocks, self.scope
        number = self.new_scope("lambda", self.table.name or self.module.path, (), self.source.site(node))
        self.blocks, self.scope = (), number  # the body runs later, wherever it is called
        self.read(node.body)
        self.blocks, self.scope = outer
        self.lambda_scope = number
        self.flow.undo(mark)
        return Seen(UNKNOWN, unknown(node))

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Seen:
        mark, outer = self.flow.mark(), self.blocks
        for generator in node.generators:
            block = self.iteration(generator.iter, generator.target, generator.iter)
            self.blocks = (*self.blocks, block)
            for condition in generator.ifs:
                self.blocks = (*self.blocks, self.test("if", condition, condition))
        if isinstance(node, ast.DictComp):
            self.read(node.key)
        made = self.read(node.value if isinstance(node, ast.DictComp) else node.elt).origins
        self.blocks = outer
        self.flow.undo(mark)
        return Seen((each(display_origin(node)[0], made),), unknown(node))

    def iteration(self, node: ast.expr | ast.stmt, target: ast.expr, iterable: ast.expr) -> Block:
        """Read what a `for` runs over, bind its target, leave its Operation, return the block that it opens."""
        marks = self.marks()
        seen = self.read(iterable)
        self.operate(node, "for", (seen.value,), marks)
        block = Block("loop", self.names_since(marks), self.source.segment(iterable), self.source.site(iterable))
        self.assign(target, Seen(self.inference.item(seen.origins, "*"), unknown(iterable)))
        return block

    def _walrus(self, node: ast.NamedExpr) -> Seen:
        seen = self.read_for(node.value, node.target.id)
        self.assign(node.target, seen)
        return seen

    def read_for(self, node: ast.expr, assigned: str | None) -> Seen:
        """Read `node`, whose value goes to the dotted name `assigned`."""
        inner = node.value if isinstance(node, ast.Await) else node
        outer = self.part_of
        self.part_of = assigned or outer
        seen = self.call(inner, assigned) if isinstance(inner, ast.Call) else self.read(node)
        self.part_of = outer
        return seen

    # targets

    def assign(self, target: ast.expr, seen: Seen, store: str = "set") -> None:
        """Let `target` stand for what was `seen`."""
        if isinstance(target, ast.Name):
            self._assign_name(target, seen, store)
        elif isinstance(target, ast.Attribute):
            receivers = self._base(target.value).origins
            self.refer(target, self.stored_names(receivers, target.attr), store, seen.value)
        elif isinstance(target, ast.Subscript):
            self._assign_item(target, seen, store)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, Seen(("list()",), unknown(target)))
        elif isinstance(target, ast.Tuple | ast.List):
            starred = any(isinstance(item, ast.Starred) for item in target.elts)
            for position, item in enumerate(target.elts):
                self.assign(item, self.part(seen, position, None if starred else len(target.elts)))

    def part(self, seen: Seen, position: int, count: int | None) -> Seen:
        """Return what an unpacking into `count` names (None: any number) gives to the one at `position`."""
        origins = self.inference.item(seen.origins, "" if count is None else str(position))
        known = isinstance(seen.value, tuple) and len(seen.value) == count
        return Seen(origins, seen.value[position] if known else Unknown("an unpacked value"))

    def _assign_name(self, target: ast.Name, seen: Seen, store: str) -> None:
        outer = self.table.redirected.get(target.id)
        if outer is not None:
            name = f"{outer.name}.{target.id}" if outer.name else target.id
            self.refer(target, (self.module.qualified(name),), store, seen.value)
            return
        if store != "set":
            self.refer(target, (target.id,), store, seen.value)
        literal = seen.value if is_transparent(seen.value) else None
        self.flow.set(target.id, Bound(seen.origins, literal))

    def _assign_item(self, target: ast.Subscript, seen: Seen, store: str) -> None:
        base = self._base(target.value)
        key = self.read(target.slice).value
        self._change(target.value, "append" if store == "set" else None, [seen.origins])
        if base.origins == ENVIRONMENT and isinstance(key, str):
            self.refer(target, (f"os.environ.{key}",), "set", seen.value)
        else:
            self.refer(target, (base.value,), "item" if store == "set" else store, seen.value)

    def _base(self, node: ast.expr) -> Seen:
        """Return the origins of what is written to, and the name to report for an item of it."""
        if isinstance(node, ast.Name):
            origins = self.look_up(node.id).origins
            return Seen(origins, _written(origins, node.id))
        if isinstance(node, ast.Attribute):
            path = self.path(node)
            own = path.text is not None and is_own(path.text)
            names = self.stored_names(path.receivers, node.attr)
            return Seen(path.origins, path.text if own else names[0] if len(names) == 1 else f"?.{node.attr}")
        seen = self.read(node)
        return Seen(seen.origins, seen.value.name if isinstance(seen.value, Name) else "?")


def otherwise(blocks: Sequence[Block]) -> Block:
    """Return the block of the `else` after `blocks`."""
    names = tuple(dict.fromkeys(name for block in blocks for name in block.names))
    text = " and ".join(f"not ({block.text})" for block in blocks[:4])
    return Block("if", names, text, blocks[-1].at)


def _paths(origins: Origins) -> Origins:
    """Return those of several meanings that a Reference can name, and `?` for the others."""
    return tuple(dict.fromkeys(origin if is_path(origin) else "?" for origin in origins))


def _written(origins: Origins, text: str | None) -> str | None:
    """Return the name to show for an expression: resolved where imports and definitions alone lead to it, else as
    written."""
    return origins[0] if len(origins) == 1 and is_path(origins[0]) else text


_READERS: Mapping[type[ast.expr], Callable[[ExpressionReader, Any], Seen]] = {
    ast.Name: ExpressionReader._name,
    ast.Attribute: ExpressionReader._attribute,
    ast.Call: ExpressionReader.call,
    ast.Constant: ExpressionReader._constant,
    ast.Tuple: ExpressionReader._sequence,
    ast.Set: ExpressionReader._sequence,
    ast.List: ExpressionReader._sequence,
    ast.Dict: ExpressionReader._dict,
    ast.BinOp: ExpressionReader._binary,
    ast.UnaryOp: ExpressionReader._unary,
    ast.Compare: ExpressionReader._compare,
    ast.BoolOp: ExpressionReader._boolean,
    ast.IfExp: ExpressionReader._conditional,
    ast.Subscript: ExpressionReader._subscript,
    ast.Lambda: ExpressionReader._lambda,
    ast.ListComp: ExpressionReader._comprehension,
    ast.SetComp: ExpressionReader._comprehension,
    ast.GeneratorExp: ExpressionReader._comprehension,
    ast.DictComp: ExpressionReader._comprehension,
    ast.NamedExpr: ExpressionReader._walrus,
    ast.Await: lambda reader, node: reader.read(node.value),
}
