"""Leaves the facts of one Python file, for the place in it that is being read.

Of syntax nodes it knows only where they stand.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensoraudit.extract.python_flow import Flow
from tensoraudit.extract.python_inference import Inference
from tensoraudit.extract.python_origins import Bound, Origins
from tensoraudit.extract.python_scopes import ModuleTable, Table
from tensoraudit.extract.python_text import SourceText
from tensoraudit.extract.python_written import written
from tensoraudit.extract.signatures import positional
from tensoraudit.facts import Block, Call, Fact, Operation, Reference, Scope, Side, Site

MOST_NAMES = 64
"""Names and calls that an operation keeps. A longer expression is data, and keeping all would be quadratic."""


@dataclass(slots=True)
class Arguments:
    """What a call is given: `values` and `passes` as in `Call`, the `origins` of those by position, and whether more
    may come by `*` and by `**`."""

    values: dict[int | str, Any]
    passes: dict[int | str, tuple[tuple[str | int, ...], ...]]
    origins: list[Origins]
    starred: bool = False
    mapped: bool = False


class FactWriter:
    """What the readers of expressions and statements share. `scope`, `table`, `flow`, `blocks` are those of the current
    place, `names` and `calls` what the current statement has read so far, `part_of` the dotted name that takes what is
    being read, `statement` the last expression that was a statement of its own. Ids of scopes count from `first_scope`,
    which is the module's."""

    def __init__(self, module: ModuleTable, source: SourceText, side: Side, first_scope: int) -> None:
        self.module, self.source, self.side = module, source, side
        self.inference = Inference(module)
        self.facts: list[Fact] = []
        self.order = 0
        self.scope = 0
        self.table: Table = module
        self.flow = Flow()
        self.blocks: tuple[Block, ...] = ()
        self.names: list[str] = []
        self.calls: list[str] = []
        self.part_of: str | None = None
        self.statement: ast.expr | None = None
        self._next_scope = first_scope

    # names

    def look_up(self, name: str) -> Bound:
        """Return what `name` stands for here."""
        bound = self.flow.get(name)
        return bound if bound is not None else self.inference.look_up(name, self.table)

    # facts

    def new_scope(
        self, kind: Any, name: str, decorators: tuple[str, ...], site: Site, applied: tuple[Call, ...] = ()
    ) -> int:
        """Leave a Scope inside the current one; return its id."""
        number = self._next_scope
        self._next_scope += 1
        parent = None if kind == "module" else self.scope
        self.facts.append(Scope(number, kind, name, parent, decorators, self.module.path, site, applied))
        return number

    def refer(self, node: ast.expr | ast.stmt, names: Origins, store: Any = None, value: Any = None) -> None:
        """Leave one Reference for each of `names`."""
        self.order += 1
        at = self.source.site(node)
        ambiguous = len(names) > 1
        for name in _known(names) if ambiguous else names:
            self.facts.append(
                Reference(
                    name,
                    store,
                    value,
                    self.scope,
                    self.blocks,
                    self.order,
                    at,
                    self.side,
                    ambiguous,
                    names if ambiguous else (),
                )
            )

    def operate(self, node: ast.expr | ast.stmt, op: str, operands: tuple[Any, ...], marks: tuple[int, int]) -> None:
        """Leave an Operation; `marks` are the counts of names and calls before its operands were read."""
        self.order += 1
        names = _once(self.names[marks[0] : marks[0] + MOST_NAMES])
        calls = _once(self.calls[marks[1] : marks[1] + MOST_NAMES])
        self.facts.append(
            Operation(
                op, operands, calls, names, self.scope, self.blocks, self.order, self.source.site(node), self.side
            )
        )

    def marks(self) -> tuple[int, int]:
        """Return the counts of names and calls so far."""
        return len(self.names), len(self.calls)

    def leave_calls(
        self, node: ast.Call, callees: Origins, given: Arguments, splat: bool, assigned: str | None
    ) -> None:
        """Leave one Call for each of `callees`; a receiver that is not known counts only when nothing else is."""
        self.order += 1
        at = self.source.site(node)
        ambiguous = len(callees) > 1
        args, passes = given.values, given.passes or None
        count = sum(type(key) is int for key in args) if given.starred else len(given.origins)
        text = written(node.func)
        for name in _known(callees) if ambiguous else callees:
            self.facts.append(
                Call(
                    name,
                    bind_positional(positional(name, count) or self.inference.positional(name, self.table), args),
                    splat,
                    self.scope,
                    self.blocks,
                    self.order,
                    at,
                    self.side,
                    assigned,
                    ambiguous,
                    text,
                    given.mapped,
                    callees if ambiguous else (),
                    passes,
                    self.part_of,
                    node is self.statement,
                )
            )

    def names_since(self, marks: tuple[int, int]) -> tuple[str, ...]:
        """Return the names and callees read since `marks` were taken."""
        return _once([*self.names[marks[0] : marks[0] + MOST_NAMES], *self.calls[marks[1] : marks[1] + MOST_NAMES]])


def _once(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names)) if len(names) > 1 else tuple(names)


def _known(names: Origins) -> Sequence[str]:
    """Return those of several meanings that are known, all where none is."""
    return [name for name in names if not name.startswith("?")] or names


def bind_positional(parameters: Sequence[str], args: dict[int | str, Any]) -> Mapping[int | str, Any]:
    """Return `args` with the positional ones under their parameter names too."""
    if not parameters:
        return args
    named: dict[int | str, Any] = {
        parameter: args[position] for position, parameter in enumerate(parameters) if parameter and position in args
    }
    return {**args, **named}
