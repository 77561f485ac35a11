"""From YAML to patterns: anchors, field tests, booleans and relations, with every fault placed and named.

Faults are collected key by key, so that one bad key does not hide the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

from tensoraudit.errors import RuleError
from tensoraudit.facts import ABSENT
from tensoraudit.facts.store import CONSTANT_KEY, FactStore, on_side
from tensoraudit.language import problems as wrong
from tensoraudit.language.document import Items, Leaf, Table, Tree
from tensoraudit.language.effective import effective
from tensoraudit.language.equality import Test
from tensoraudit.language.fields import ARGUMENT_NAME, argument, argument_keys, field_getter, field_question
from tensoraudit.language.kleene import NO, truth
from tensoraudit.language.names import NamePattern, literal_name
from tensoraudit.language.operators import compile_names, compile_test
from tensoraudit.language.pattern import Body, Condition, Pattern, Question
from tensoraudit.language.possible import check_key, check_measured, check_node
from tensoraudit.language.problems import Problems, Wrong, nearest
from tensoraudit.language.relations import BOOLEANS, KINDS_OF, RELATIONS, SEARCHES
from tensoraudit.language.schema import (
    ALSO_INDEXED,
    ANCHORS,
    ARGUMENT,
    ARGUMENTS,
    COMMON,
    CONSTANT,
    NUMBER,
    SPARSE,
    UNSELECTIVE,
    FieldType,
)

_FIELD: Final = 0
_LOOK: Final = 1
_SEEK: Final = 2
"""What a condition costs: a field, a look-up, a search."""

_ARGUMENTS: Final[Mapping[str, Callable[[Any, Sequence[int | str], FactStore], Any]]] = {
    "args": lambda fact, keys, store: argument(fact, keys),
    "effective": effective,
}
"""What reads an argument: as it is passed, or as the callee sees it."""


@dataclass(slots=True)
class PatternCompiler:
    """Compiles the patterns of one rule.

    `bound` are the captures that nested patterns may use; `scan` allows an anchor that no index finds; `odd` tells that
    the place being compiled stands under an odd number of negations. `open_world` and `captured` collect what the
    patterns inside rest on: absence of code, captures of the anchor; `scans` that an anchor needs `scan`. A `lazy` one
    compiles what must hold of an anchor when the first candidate comes.
    """

    problems: Problems
    scan: bool = False
    lazy: bool = False
    bound: frozenset[str] = frozenset()
    odd: bool = False
    open_world: bool = False
    captured: bool = False
    scans: bool = False

    def anchored(self, tree: Table) -> Pattern | None:
        """Compile a top-level pattern, whose names bind captures for everything inside it."""
        found = self.problems.guard(self._anchor, tree)
        if found is None:
            return None
        kind, names = found
        self.bound = self._captured(tree, kind, names)
        body = cache(partial(self._later if self.lazy else self._body, tree, kind, names, self.bound))
        if not self.lazy:
            body()
        pattern = Pattern(kind, names, body, self._finder(tree, kind))
        self.problems.guard(self._findable, tree, pattern)
        return pattern

    def _body(self, tree: Table, kind: str, names: tuple[NamePattern, ...], bound: frozenset[str]) -> Body:
        self.bound, self.open_world = bound, False
        self._check_possible(tree, kind, names)
        conditions = self.conditions(tree, kind, frozenset({kind, "message", "fix", "certainty", "refutable"}))
        return Body(conditions, self.open_world)

    def _later(self, tree: Table, kind: str, names: tuple[NamePattern, ...], bound: frozenset[str]) -> Body:
        """Compile a body long after its rule. Raises RuleError with all that is wrong in it."""
        compiler = PatternCompiler(Problems(self.problems.path))
        body = compiler._body(tree, kind, names, bound)
        if compiler.problems.found:
            raise RuleError(tuple(compiler.problems.found))
        return body

    def nested(self, tree: Table, kind: str | None, own: frozenset[str]) -> Pattern:
        """Compile a pattern inside a relation. Given `kind`, the name may be missing; `own` are the relation's keys."""
        if kind is not None and kind not in tree.items:
            return Pattern(kind, (), self._at_once(tree, kind, own))
        kind, names = self._anchor(tree)
        self._check_possible(tree, kind, names)
        for name in names:
            for capture in set(name.captures) - self.bound:
                raise Wrong(tree.items[kind], f"'{{{capture}}}' captures nothing{nearest(capture, self.bound)}")
            self.captured |= bool(name.captures)
        return Pattern(kind, names, self._at_once(tree, kind, own | {kind}))

    def _at_once(self, tree: Table, kind: str, own: frozenset[str]) -> Callable[[], Body]:
        body = Body(self.conditions(tree, kind, own))
        return lambda: body

    # Anchors

    def _anchor(self, tree: Table) -> tuple[str, tuple[NamePattern, ...]]:
        found = [key for key in tree.items if key in ANCHORS]
        # `value` is both a kind and a field; beside another anchor it is the field.
        anchors = [key for key in found if not (key == "value" and any("value" in ANCHORS[other] for other in found))]
        if not anchors:
            word = next((str(key) for key in tree.items), "")
            raise Wrong(tree, f"a pattern needs an anchor such as 'call' or 'node'{nearest(word, ANCHORS)}")
        if len(anchors) > 1:
            raise Wrong(tree.keys[anchors[1]], f"two anchors, '{anchors[0]}' and '{anchors[1]}'; a pattern has one")
        kind = anchors[0]
        return kind, self._names(tree.items[kind], kind)

    def _check_possible(self, tree: Table, kind: str, names: tuple[NamePattern, ...]) -> None:
        """Refuse names that no fact has. Faults are recorded, so that those of the conditions show beside them."""
        self.problems.guard(check_key, tree.items[kind], kind, names)
        if kind == "node":
            self.problems.guard(check_node, tree, names, self._opset(tree.items.get("opset")))
        if kind == "measurement" and "value" in tree.items:
            self.problems.guard(lambda: wrong.each(names, lambda name: check_measured(tree.items["value"], name.text)))

    def _opset(self, tree: Tree | None) -> Test | None:
        try:
            return None if tree is None else compile_test(tree, NUMBER)
        except Wrong:
            return None  # the field's own test reports it

    def _names(self, tree: Tree, kind: str) -> tuple[NamePattern, ...]:
        if kind == "operation":
            words = wrong.texts(tree, "an operation")
            if not words:
                raise Wrong(tree, "an operation is an empty list; nothing can match it")
            return tuple(map(literal_name, words))
        names = compile_names(tree, f"the name of a {kind}")
        if kind == "package":
            names = tuple(literal_name(re.sub(r"[-_.]+", "-", n.text).lower()) if n.exact else n for n in names)
        return names

    def _captured(self, tree: Table, kind: str, names: tuple[NamePattern, ...]) -> frozenset[str]:
        if not any(name.captures for name in names):
            return frozenset()
        sets = {frozenset(name.captures) for name in names}
        if len(sets) > 1:
            self.problems.add(tree.items[kind], "all names of one anchor must hold the same captures")
        return frozenset.intersection(*sets)

    def _finder(self, tree: Table, kind: str) -> tuple[str, tuple[NamePattern, ...]] | None:
        """Return a second field that finds the anchor, with its names, where the pattern tests one."""
        if kind == "value" and "constant" in tree.items and self._refuses_absence(tree.items["constant"]):
            return "constant", (literal_name(CONSTANT_KEY),)
        other = ALSO_INDEXED.get(kind)
        value = tree.items.get(other)
        if other is None or isinstance(value, Table) or value is None:
            return None
        try:
            names = compile_names(value, other)
        except Wrong:
            return None  # the field's own test reports it
        return None if any(name.loose or name.text in UNSELECTIVE for name in names) else (other, names)

    def _refuses_absence(self, tree: Tree) -> bool:
        """Tell whether a test of `constant` holds of constants alone, which are few among the values of a graph."""
        try:
            return compile_test(tree, CONSTANT)(ABSENT, FactStore()) is NO
        except Wrong:
            return False

    def _findable(self, tree: Table, pattern: Pattern) -> None:
        loose = any(name.loose for name in pattern.names)
        needed = loose and pattern.finder is None and pattern.kind not in SPARSE
        self.scans |= needed
        if needed and not self.scan:
            raise Wrong(
                tree.items[pattern.kind],
                f"no literal part: this would try every {pattern.kind}; name it, or write 'scan: true' in the rule",
            )

    # Conditions

    def conditions(self, tree: Table, kind: str, own: frozenset[str]) -> tuple[Condition, ...]:
        """Compile every key of a mapping but `own`, the cheap ones first."""
        found: list[Condition] = []
        for key, value in tree.items.items():
            if key not in own:
                found += self.problems.guard(self._key, tree, key, value, kind) or ()
        return tuple(sorted(found, key=lambda condition: condition.cost))

    def _key(self, tree: Table, key: Any, value: Tree, kind: str) -> list[Condition]:
        types = {**ANCHORS[kind], **COMMON}
        place = tree.keys[key]
        if key in types:
            return self._field(key, place, value, kind, types[key])
        if key not in RELATIONS:
            raise Wrong(place, f"a {kind} has no field '{key}'{nearest(str(key), [*types, *RELATIONS])}")
        if kind not in KINDS_OF.get(key, ANCHORS):
            raise Wrong(place, f"'{key}' is a relation of {' and '.join(KINDS_OF[key])}, not of a {kind}")
        cost = _SEEK if key in SEARCHES else _LOOK
        # A list of relations: each must hold. Booleans take their lists themselves.
        parts = value.items if isinstance(value, Items) and key not in BOOLEANS else (value,)
        return [Condition(key, part.line, part.column, RELATIONS[key](self, part, kind), cost) for part in parts]

    def _field(self, key: str, place: Leaf, value: Tree, kind: str, type_: FieldType) -> list[Condition]:
        if key == "side":
            return [Condition(key, place.line, place.column, self._side(value, type_), _FIELD)]
        if type_ is ARGUMENTS:
            rows = wrong.table(value, key)
            return wrong.each(rows.items.items(), lambda row: self._argument(key, rows, *row))
        get = field_getter(kind, key)
        if type_.entries is None:
            test = compile_test(value, type_)
            return [Condition(key, place.line, place.column, field_question(get, test))]
        rows = wrong.table(value, key)

        def entry(item: tuple[Any, Tree]) -> Condition:
            name, row = item
            test = compile_test(Table({name: row}, rows.keys, row.line, row.column), type_)
            return Condition(f"{key}.{name}", row.line, row.column, field_question(get, test))

        return wrong.each(rows.items.items(), entry)

    def _argument(self, field: str, rows: Table, name: Any, row: Tree) -> Condition:
        if not ARGUMENT_NAME.fullmatch(str(name)):
            raise Wrong(rows.keys[name], f"'{name}' names no argument; write a name, an index or both as '0|name'")
        keys = argument_keys(str(name))
        test = compile_test(row, ARGUMENT)
        read = _ARGUMENTS[field]
        return Condition(
            f"{field}.{name}",
            row.line,
            row.column,
            lambda fact, context: test(read(fact, keys, context.store), context.store),
        )

    def _side(self, value: Tree, type_: FieldType) -> Question:
        side = wrong.one_of(value, type_.words, "side")
        return lambda fact, context: truth(on_side(fact, side))
