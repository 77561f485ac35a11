"""Second pass, statements: scopes, blocks, assignments and imports of one file, in source order."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from tensoraudit.extract.python_annotations import instances
from tensoraudit.extract.python_containers import PARTIAL_MAKER
from tensoraudit.extract.python_expressions import OPERATORS, ExpressionReader, Seen, otherwise
from tensoraudit.extract.python_facts import bind_positional
from tensoraudit.extract.python_flow import Changes, Flow, merge
from tensoraudit.extract.python_kinds import arithmetic
from tensoraudit.extract.python_origins import MOST_CANDIDATES, UNKNOWN, Bound, any_item, callee, is_path, unite
from tensoraudit.extract.python_scopes import (
    ClassTable,
    FunctionNode,
    FunctionTable,
    Table,
    absolute,
    pairs,
    pattern_names,
)
from tensoraudit.extract.python_syntax import inner_expressions
from tensoraudit.extract.python_values import unknown
from tensoraudit.extract.python_written import target_text
from tensoraudit.extract.signatures import positional
from tensoraudit.facts import Block, Call, ClassDef, Fact, Import, Name, Site

NOT_NARROWED: Changes = {}

Branch = tuple[Changes, bool]
"""What a branch left its names at, and whether it ended in `return` or `raise`."""


class StatementReader(ExpressionReader):
    """Reads one file."""

    def read_module(self, tree: ast.Module) -> list[Fact]:
        """Read the whole file."""
        site = Site(self.source.path, 1, 1)
        self.scope = self.new_scope("module", self.module.path, (), site)
        self.body(tree.body)
        return self.facts

    def body(self, statements: Sequence[ast.stmt]) -> bool:
        """Read statements; tell whether they end in `return` or `raise`."""
        ended = False
        for statement in statements:
            reader = _READERS.get(type(statement))
            if reader is not None:
                ended = bool(reader(self, statement)) or ended
                self.names.clear()
                self.calls.clear()
        return ended

    # simple statements

    def _expression(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.statement = node.value.value if isinstance(node.value, ast.Await) else node.value
            self.read(node.value)

    def _parts(self, node: ast.stmt) -> None:
        for child in inner_expressions(node):
            self.read(child)

    def _end(self, node: ast.Return | ast.Raise) -> bool:
        self._parts(node)
        return True

    def _assert(self, node: ast.Assert) -> None:
        self.test("assert", node, node.test)
        if node.msg is not None:
            self.read(node.msg)

    def _assignment(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, node.value)
            return
        seen = self.read_for(node.value, target_text(target))
        for target in node.targets:
            self.assign(target, seen)

    def _unpack(self, target: ast.Tuple | ast.List, value: ast.expr) -> None:
        matched = pairs(target, value, False)
        if any(source is value for _, source in matched):
            self.assign(target, self.read(value))
            return
        seen = [self.read_for(source, target_text(item)) for item, source in matched]
        for (item, _), part in zip(matched, seen, strict=True):
            self.assign(item, part)

    def _annotated(self, node: ast.AnnAssign) -> None:
        self.read(node.annotation)
        seen = (
            Seen(UNKNOWN, unknown(node.target))
            if node.value is None
            else self.read_for(node.value, target_text(node.target))
        )
        annotated = self.inference.annotation(node.annotation, self.table)
        if node.value is not None:
            self.assign(node.target, seen if annotated == UNKNOWN else Seen(annotated, seen.value))

    def _augmented(self, node: ast.AugAssign) -> None:
        marks = self.marks()
        before = self._augmented_target(node.target)
        seen = self.read(node.value)
        self.operate(node, OPERATORS[type(node.op)], (before.value, seen.value), marks)
        self.assign(node.target, Seen(arithmetic((before.origins, seen.origins)), seen.value), "augment")
        if isinstance(node.target, ast.Name) and self.flow.get(node.target.id) is not None:
            self.flow.set(node.target.id, Bound(arithmetic((before.origins, seen.origins))))

    def _augmented_target(self, node: ast.expr) -> Seen:
        """Return what the target held; its Reference comes from the assignment that follows."""
        if isinstance(node, ast.Name):
            self.names.append(node.id)
            return Seen(self.look_up(node.id).origins, Name(node.id))
        if isinstance(node, ast.Attribute):
            path = self.path(node)
            self.names.append(path.text or node.attr)
            return Seen(path.origins, Name(path.text) if path.text is not None else unknown(node))
        return Seen(UNKNOWN, unknown(node))

    # imports

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            local = alias.asname or alias.name.partition(".")[0]
            name = self.module.located(alias.name)
            self.flow.set(local, self.imported(name if alias.asname else self.module.located(local)))
            self.facts.append(Import(name, (local,), self.scope, self.source.site(node), self.side))

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = absolute(self.module, node.module, node.level)
        names = tuple(alias.asname or alias.name for alias in node.names)
        self.facts.append(Import(module, names, self.scope, self.source.site(node), self.side))
        prefix = module if module.endswith(".") else f"{module}."
        for alias in node.names:
            if alias.name != "*":
                bound = self.imported(f"{prefix}{alias.name}")
                self.flow.set(alias.asname or alias.name, bound)
                named = any(map(is_path, bound.origins))
                self.refer(node, bound.origins if named else (f"{prefix}{alias.name}",))

    def imported(self, name: str) -> Bound:
        """Return what an imported name stands for."""
        world = self.module.world
        return Bound(world.canonical((name,)), world.constant(name))

    # branches

    def branch(self, statements: Sequence[ast.stmt], block: Block, narrowed: Changes = NOT_NARROWED) -> Branch:
        """Read one branch, in which the names of `narrowed` are known better; leave the names as they were before."""
        mark, outer = self.flow.mark(), self.blocks
        self.blocks = (*outer, block)
        for name, bound in narrowed.items():
            self.flow.set(name, bound)
        ended = self.body(statements)
        self.blocks = outer
        changes = self.flow.undo(mark)
        for name, bound in narrowed.items():
            if changes[name] is bound:
                del changes[name]
        return changes, ended

    def narrowed(self, condition: ast.expr) -> Changes:
        """Return what names stand for where `condition` holds: `isinstance(x, C)` tells of a name of which nothing was
        known."""
        found: Changes = {}
        both = isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And)
        for part in condition.values if both else [condition]:  # type: ignore[attr-defined]
            if isinstance(part, ast.Call) and target_text(part.func) == "isinstance" and len(part.args) == 2:
                subject, classes = part.args
                if isinstance(subject, ast.Name) and self.look_up(subject.id).origins == UNKNOWN:
                    nodes = classes.elts if isinstance(classes, ast.Tuple) else [classes]
                    groups = self.inference.all_of(nodes[: MOST_CANDIDATES + 1], self.table)
                    found[subject.id] = Bound(unite(list(map(instances, groups))))
        return found

    def join(self, branches: Sequence[Branch], *, complete: bool) -> bool:
        """Continue after `branches`; tell whether all of them ended and none can be skipped."""
        going_on = [changes for changes, ended in branches if not ended]
        self.flow.join(going_on, complete=complete)
        return complete and not going_on

    def _if(self, node: ast.If) -> bool:
        blocks: list[Block] = []
        branches: list[Branch] = []
        rest: list[ast.stmt] = [node]
        while len(rest) == 1 and isinstance(rest[0], ast.If):
            current = rest[0]
            blocks.append(self.test("if", current, current.test))
            branches.append(self.branch(current.body, blocks[-1], self.narrowed(current.test)))
            rest = current.orelse
        if rest:
            branches.append(self.branch(rest, otherwise(blocks)))
        return self.join(branches, complete=bool(rest))

    def _for(self, node: ast.For | ast.AsyncFor) -> bool:
        mark = self.flow.mark()
        block = self.iteration(node, node.target, node.iter)
        return self._loop(node, block, mark)

    def _while(self, node: ast.While) -> bool:
        self._meet_loop(node)
        block = self.test("while", node, node.test)
        return self._loop(node, block, self.flow.mark())

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, block: Block, mark: int) -> bool:
        if not isinstance(node, ast.While):
            target = self.flow.undo(mark)
            self._meet_loop(node)
            for name, bound in target.items():
                self.flow.set(name, bound)
        changes, _ = self.branch(node.body, block)
        self.join([(changes, False)], complete=False)
        return self.body(node.orelse)

    def _meet_loop(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        """Let every name that the loop binds stand for what it may hold when an iteration begins."""
        start, end = self.module.loops[node]
        for name in dict.fromkeys(self.table.sequence[start:end]):
            if name not in self.table.bindings:
                continue
            anywhere = self.inference.bound(name, self.table)
            before = self.flow.get(name)
            self.flow.set(name, anywhere if before is None else merge([before, anywhere]))

    def _with(self, node: ast.With | ast.AsyncWith) -> bool:
        outer = self.blocks
        for item in node.items:
            marks = self.marks()
            target = item.optional_vars
            seen = self.read_for(item.context_expr, target_text(target) if target is not None else None)
            names = tuple(self.calls[-1:]) if isinstance(item.context_expr, ast.Call) else self.names_since(marks)
            text, site = self.source.segment(item.context_expr), self.source.site(item.context_expr)
            self.blocks = (*self.blocks, Block("with", names, text, site))
            if target is not None:
                self.assign(target, seen)
        ended = self.body(node.body)
        self.blocks = outer
        return ended

    def _try(self, node: ast.Try) -> bool:
        after_body, ended = self.branch(node.body, Block("try", self._caught(node), "try", self.source.site(node)))
        handlers = [self._handler(handler, after_body) for handler in node.handlers]
        mark = self.flow.mark()
        self.flow.join([after_body], complete=True)
        ended = self.body(node.orelse) or ended
        branches = [(self.flow.undo(mark), ended), *handlers]
        ended = self.join(branches, complete=True)
        return self.body(node.finalbody) or ended

    def _caught(self, node: ast.Try) -> tuple[str, ...]:
        """Return the names of the exceptions that the handlers catch; a bare `except` catches BaseException."""
        names = []
        for handler in node.handlers:
            types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            names += ["BaseException" if each is None else self._exception(each) for each in types]
        return tuple(dict.fromkeys(filter(None, names)))

    def _exception(self, node: ast.expr) -> str:
        if isinstance(node, ast.Attribute):
            return self.path(node).text or ""
        if not isinstance(node, ast.Name):
            return ""
        (*_, origin) = self.look_up(node.id).origins
        return callee(origin) if is_path(origin) else node.id

    def _handler(self, handler: ast.ExceptHandler, after_body: Changes) -> Branch:
        mark, marks = self.flow.mark(), self.marks()
        self.flow.join([after_body], complete=False)
        text = "except"
        if handler.type is not None:
            self.read(handler.type)
            text = f"except {self.source.segment(handler.type)}"
        if handler.name:
            self.flow.set(handler.name, Bound(UNKNOWN))
        block = Block("try", self.names_since(marks), text, self.source.site(handler))
        inner, ended = self.branch(handler.body, block)
        self.flow.join([inner], complete=True)
        return self.flow.undo(mark), ended

    def _match(self, node: ast.Match) -> bool:
        marks = self.marks()
        self.read(node.subject)
        names = self.names_since(marks)
        branches = []
        for case in node.cases:
            mark = self.flow.mark()
            for name in pattern_names(case.pattern):
                self.flow.set(name, Bound(UNKNOWN))
            block = Block("if", names, f"case {self.source.segment(case.pattern)}", self.source.site(case.pattern))
            if case.guard is not None:
                self.test("if", case.guard, case.guard)
            inner, ended = self.branch(case.body, block)
            self.flow.join([inner], complete=True)
            branches.append((self.flow.undo(mark), ended))
        return self.join(branches, complete=False)

    # definitions

    def _decorators(self, nodes: Sequence[ast.expr], path: str) -> tuple[tuple[str, ...], tuple[Call, ...]]:
        """Return the names of the decorators of what is defined at `path`, and the calls that they make of it."""
        names: list[str] = []
        applied: list[Call] = []
        for node in nodes:
            seen = self.read(node)
            if isinstance(node, ast.Call):
                names.append(self.calls[-1])
                applied += self._made_by_call(seen, path)
            else:
                if isinstance(seen.value, Name):
                    names.append(seen.value.name)
                site = self.source.site(node)
                applied += (self._applied(callee(origin), {0: Name(path)}, site) for origin in seen.origins)
        return tuple(names), tuple(applied)

    def _made_by_call(self, seen: Seen, path: str) -> Iterator[Call]:
        """Yield the calls that a decorator with arguments stands for: itself, or the function of a `partial`."""
        written = takewhile(lambda fact: isinstance(fact, Call) and fact.order == self.order, reversed(self.facts))
        for call in written:
            assert isinstance(call, Call)
            if call.callee != PARTIAL_MAKER:
                yield call
                continue
            by_position = [call.args[key] for key in sorted(key for key in call.args if type(key) is int)]
            args: dict[int | str, Any] = dict(enumerate([*by_position[1:], Name(path)]))
            args |= {key: value for key, value in call.args.items() if type(key) is not int}
            for origin in any_item(seen.origins[0]):
                yield self._applied(callee(origin), args, call.at, call.splat)

    def _applied(self, name: str, args: dict[int | str, Any], at: Site, splat: bool = False) -> Call:
        count = sum(type(key) is int for key in args)
        bound = bind_positional(positional(name, count), args)
        return Call(name, bound, splat, self.scope, self.blocks, self.order, at, self.side)

    def _function_definition(self, node: FunctionNode) -> None:
        table = self.module.tables[node]
        decorators, applied = self._decorators(node.decorator_list, self.module.qualified(table.name))
        self._signature(node)
        number = self.new_scope("function", table.name, decorators, self.source.site(node), applied)
        outer_blocks, self.blocks = self.blocks, ()  # the body runs later, wherever it is called
        self._inside(number, table, node.body)
        self.blocks = outer_blocks
        self.flow.set(node.name, Bound((self.module.qualified(table.name),)))

    def _signature(self, node: FunctionNode) -> None:
        arguments = node.args
        for default in (*arguments.defaults, *filter(None, arguments.kw_defaults)):
            self.read(default)
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for argument in (*named, *filter(None, (arguments.vararg, arguments.kwarg))):
            if argument.annotation is not None:
                self.read(argument.annotation)
        if node.returns is not None:
            self.read(node.returns)

    def _inside(self, number: int, table: Table, statements: Sequence[ast.stmt]) -> None:
        """Read the body of a function or class with its own names."""
        outer = self.scope, self.table, self.flow, self.names, self.calls
        self.scope, self.table, self.flow, self.names, self.calls = number, table, Flow(), [], []
        if isinstance(table, FunctionTable):
            self._parameters(table)
        self.body(statements)
        self.scope, self.table, self.flow, self.names, self.calls = outer

    def _parameters(self, table: FunctionTable) -> None:
        assert table.node is not None
        arguments = table.node.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for argument in (*named, *filter(None, (arguments.vararg, arguments.kwarg))):
            self.flow.set(argument.arg, Bound(self.inference.binding(table.bindings[argument.arg][0])))

    def _class_definition(self, node: ast.ClassDef) -> None:
        table = self.module.tables[node]
        assert isinstance(table, ClassTable)
        decorators, applied = self._decorators(node.decorator_list, table.path)
        for base in (*node.bases, *(keyword.value for keyword in node.keywords)):
            self.read(base)
        site = self.source.site(node)
        number = self.new_scope("class", table.name, decorators, site, applied)
        bases, methods = self.inference.lineage(table), tuple(table.methods)
        self.facts.append(ClassDef(table.name, bases, methods, number, site, self.side))
        self._inside(number, table, node.body)
        self.flow.set(node.name, Bound((table.path,)))


_READERS: Mapping[type[ast.stmt], Callable[[StatementReader, Any], bool | None]] = {
    ast.Expr: StatementReader._expression,
    ast.Assign: StatementReader._assignment,
    ast.AnnAssign: StatementReader._annotated,
    ast.AugAssign: StatementReader._augmented,
    ast.Return: StatementReader._end,
    ast.Raise: StatementReader._end,
    ast.If: StatementReader._if,
    ast.For: StatementReader._for,
    ast.AsyncFor: StatementReader._for,
    ast.While: StatementReader._while,
    ast.With: StatementReader._with,
    ast.AsyncWith: StatementReader._with,
    ast.Try: StatementReader._try,
    ast.TryStar: StatementReader._try,
    ast.Match: StatementReader._match,
    ast.Assert: StatementReader._assert,
    ast.Import: StatementReader._import,
    ast.ImportFrom: StatementReader._import_from,
    ast.FunctionDef: StatementReader._function_definition,
    ast.AsyncFunctionDef: StatementReader._function_definition,
    ast.ClassDef: StatementReader._class_definition,
    ast.Delete: StatementReader._parts,
}
