"""Compiling relations and booleans: `inside`, `exists`, `absent`, the edges of graphs, `all`, `any`, `not`.

How they are answered stands in surroundings.py, search.py and edges.py; this module reads their YAML.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tensoraudit.facts.store import CODE_KINDS
from tensoraudit.language import edges, surroundings
from tensoraudit.language import problems as wrong
from tensoraudit.language.document import Items, Leaf, Table, Tree
from tensoraudit.language.fields import (
    ARGUMENT_NAME,
    Getter,
    argument_keys,
    field_getter,
    field_question,
    known_fields,
    path_getter,
)
from tensoraudit.language.handover import Handover
from tensoraudit.language.kleene import all_of, any_of, negate
from tensoraudit.language.operators import compile_names, compile_test
from tensoraudit.language.pattern import Condition, Pattern, Question, ask
from tensoraudit.language.problems import Wrong, nearest
from tensoraudit.language.schema import BLOCKS, COMMON, EVERYWHERE, PLACES, SPARSE, VALUE_FIELDS
from tensoraudit.language.search import Search, exists

if TYPE_CHECKING:
    from tensoraudit.language.compile_pattern import PatternCompiler

Build = Callable[["PatternCompiler", Tree, str], Question]
"""Compiles one relation of a fact of the given kind."""

SCOPE_KEYS: Final = ("function", "class", "decorator", "bases", "passed-to")
"""What `inside` asks of the functions and classes around."""

_SEARCH_KEYS: Final = frozenset({"in", "known", "before", "after", "same", "side"})
_END_KEYS: Final = frozenset({"index", "quantifier"})


# Booleans: conditions on the same fact


def _group(compiler: PatternCompiler, tree: Tree, kind: str, what: str) -> list[tuple[Condition, ...]]:
    parts = tree.items if isinstance(tree, Items) else (tree,)
    if not parts:
        raise Wrong(tree, f"'{what}' over nothing")
    return [compiler.conditions(wrong.table(part, f"each part of '{what}'"), kind, frozenset()) for part in parts]


def _all(compiler: PatternCompiler, tree: Tree, kind: str) -> Question:
    groups = _group(compiler, tree, kind, "all")
    return lambda fact, context: all_of(ask(group, fact, context) for group in groups)


def _any(compiler: PatternCompiler, tree: Tree, kind: str) -> Question:
    groups = _group(compiler, tree, kind, "any")
    return lambda fact, context: any_of(ask(group, fact, context) for group in groups)


def _not(compiler: PatternCompiler, tree: Tree, kind: str) -> Question:
    compiler.odd = not compiler.odd
    groups = _group(compiler, tree, kind, "not")
    compiler.odd = not compiler.odd
    return lambda fact, context: negate(any_of(ask(group, fact, context) for group in groups))


# Surroundings in source


def _inside(compiler: PatternCompiler, tree: Tree, kind: str) -> Question:
    del kind
    rows = wrong.table(tree, "inside")
    known = (*BLOCKS, *SCOPE_KEYS)
    for key in rows.items:
        if key not in known:
            raise Wrong(rows.keys[key], f"nothing is inside a '{key}'{nearest(str(key), known)}")
    questions = [surroundings.in_block(key, _names_or_any(rows.items[key])) for key in BLOCKS if key in rows.items]
    questions += [surroundings.in_scope(around) for around in _scopes(compiler, rows)]
    if not questions:
        raise Wrong(tree, "'inside' needs a block, a function or a class")
    return lambda fact, context: all_of(question(fact, context) for question in questions)


def _names_or_any(tree: Tree) -> surroundings.Names:
    return None if isinstance(tree, Leaf) and tree.value is True else compile_names(tree, "a name")


def _scopes(compiler: PatternCompiler, rows: Table) -> list[surroundings.Around]:
    """Return the function and class to stand in; `decorator`, `bases` and `passed-to` refine them and may stand
    alone."""
    parts = {key: _names_or_any(tree) for key, tree in rows.items.items() if key not in (*BLOCKS, "passed-to")}
    decorators, bases = parts.get("decorator"), parts.get("bases")
    passed = _handover(compiler, rows.items["passed-to"]) if "passed-to" in rows.items else None
    on_function = "function" in parts or passed or ("decorator" in parts and "class" not in parts)
    found = []
    if on_function:
        found.append(surroundings.Around("function", parts.get("function"), decorators, passed=passed))
    if "class" in parts or "bases" in parts:
        around = surroundings.Around("class", parts.get("class"), None if on_function else decorators)
        found.append(replace(around, bases=bases))
    return found


def _handover(compiler: PatternCompiler, tree: Tree) -> Handover:
    rows = wrong.table(tree, "passed-to")
    pattern, captured = _partner(compiler, rows, frozenset({"argument", "known"}))
    if pattern.kind != "call":
        raise Wrong(rows.keys[pattern.kind], f"a function is passed to a 'call', not to a '{pattern.kind}'")
    _check_findable(rows, pattern, "passed-to")
    tree = rows.items.get("argument", Leaf(0, rows.line, rows.column))
    return Handover(pattern, _argument(tree), _known(rows), captured)


def _known(rows: Table) -> bool:
    return "known" in rows.items and wrong.boolean(rows.items["known"], "known")


def _argument(tree: Tree) -> tuple[int | str, ...]:
    words = str(tree.value) if isinstance(tree, Leaf) else ""
    if not ARGUMENT_NAME.fullmatch(words):
        raise Wrong(tree, f"{wrong.describe(tree)} names no argument; write a name, an index or both as '0|name'")
    return argument_keys(words)


# Other facts


def exists_question(compiler: PatternCompiler, tree: Tree, kind: str | None) -> Question:
    """Compile `exists`; `kind` is that of the anchor, None in `when`, which has none."""
    search = _search(compiler, tree, kind, "exists")
    return lambda fact, context: exists(search, fact, context)


def _absent(compiler: PatternCompiler, tree: Tree, kind: str) -> Question:
    search = _search(compiler, tree, kind, "absent")
    return lambda fact, context: negate(exists(search, fact, context))


def _search(compiler: PatternCompiler, tree: Tree, anchor: str | None, what: str) -> Search:
    rows = wrong.table(tree, what)
    pattern, captured = _partner(compiler, rows, _SEARCH_KEYS)
    # Absence of code under an even number of negations, or presence under an odd one, rests on an open world.
    compiler.open_world |= compiler.odd == (what == "exists") and pattern.kind in CODE_KINDS
    place, order = _place(rows, pattern, anchor, what), _order(rows)
    if order and place in ("project", "argument"):
        raise Wrong(rows, "'before' and 'after' have a meaning within one file only; write in: function or module")
    side = rows.items.get("side")
    default = "" if anchor is None else None
    words = COMMON["side"].words
    same = _same(rows.items.get("same"), pattern.kind, anchor)
    wanted = wrong.one_of(side, words, "side") if side else default
    argument = _argument_of(rows.items["in"]) if place == "argument" else ()
    if "known" in rows.items and not argument and not same:
        raise Wrong(rows.keys["known"], "'known' says how to take what is not known; write in: args.0, or same")
    return Search(pattern, place, same, order, wanted, captured, argument, _known(rows))


def _partner(compiler: PatternCompiler, rows: Table, own: frozenset[str]) -> tuple[Pattern, bool]:
    """Compile the pattern of another fact, with its own count of negations; tell whether captures take part in it."""
    odd, compiler.odd = compiler.odd, False
    before, compiler.captured = compiler.captured, False
    pattern = compiler.nested(rows, None, own)
    captured, compiler.odd = compiler.captured, odd
    compiler.captured |= before
    return pattern, captured


def _place(rows: Table, pattern: Pattern, anchor: str | None, what: str) -> str:
    tree = rows.items.get("in")
    if tree is None:
        if pattern.kind in EVERYWHERE or anchor is None:
            return "project"
        raise Wrong(rows, f"'{what}' needs 'in': {', '.join(PLACES)}")
    if isinstance(tree, Leaf) and str(tree.value).startswith("args."):
        if anchor != "call" or pattern.kind not in CODE_KINDS:
            raise Wrong(tree, f"'in: {tree.value}' looks for code in what an argument of a call holds")
        _check_findable(rows, pattern, f"in: {tree.value}")
        return "argument"
    place = wrong.one_of(tree, PLACES, "place")
    if place == "project":
        _check_findable(rows, pattern, "in: project")
    return place


def _argument_of(tree: Tree) -> tuple[int | str, ...]:
    assert isinstance(tree, Leaf)
    return _argument(replace(tree, value=str(tree.value).removeprefix("args.")))


def _check_findable(rows: Table, pattern: Pattern, what: str) -> None:
    if pattern.kind not in SPARSE and any(name.loose for name in pattern.names):
        raise Wrong(rows.items[pattern.kind], f"{what} needs a literal part in the name of the {pattern.kind}")


def _order(rows: Table) -> int:
    order = 0
    for key, sign in (("before", -1), ("after", 1)):
        if key in rows.items and wrong.boolean(rows.items[key], key):
            order += sign
    if not order and "before" in rows.items and "after" in rows.items:
        raise Wrong(rows.keys["after"], "'before' and 'after' together leave nothing")
    return order


def _same(tree: Tree | None, theirs: str, ours: str | None) -> tuple[tuple[Getter, Getter], ...]:
    """Compile the pairs of fields that must be equal: one name for both, or theirs to ours."""
    if tree is None:
        return ()
    if ours is None:
        raise Wrong(tree, "'same' needs an anchor to compare with; 'when' has none")
    if isinstance(tree, Table):
        return tuple((_path(theirs, tree.keys[key]), _path(ours, value)) for key, value in tree.items.items())
    parts = tree.items if isinstance(tree, Items) else (tree,)
    return tuple((_path(theirs, part), _path(ours, part)) for part in parts)


def _path(kind: str, tree: Tree) -> Getter:
    words = wrong.text(tree, "a field")
    first = words.partition(".")[0]
    if first not in known_fields(kind):
        raise Wrong(tree, f"a {kind} has no field '{first}'{nearest(first, known_fields(kind))}")
    return path_getter(kind, words)


# Edges of graphs


def _end_value(field: str) -> Build:
    """Return what compiles `input` or `output`."""

    def build(compiler: PatternCompiler, tree: Tree, kind: str) -> Question:
        del compiler, kind
        rows = wrong.table(tree, field)
        present = rows.items.get("present")
        wanted = wrong.boolean(present, "present") if present else None
        if present and "index" not in rows.items:
            raise Wrong(rows, "'present' needs an 'index'")
        own = {*_END_KEYS, "present"}
        fields = tuple(_value_field(rows, key, value) for key, value in rows.items.items() if key not in own)
        if wanted is None and not fields:
            raise Wrong(rows, f"'{field}' tests nothing")
        return edges.value_at(f"{field}s", _end(rows), wanted, fields)

    return build


def _value_field(rows: Table, key: Any, value: Tree) -> Condition:
    if key not in VALUE_FIELDS:
        known = [*VALUE_FIELDS, *sorted(_END_KEYS), "present"]
        raise Wrong(rows.keys[key], f"a value has no field '{key}'{nearest(str(key), known)}")
    test = compile_test(value, VALUE_FIELDS[key])
    return Condition(key, value.line, value.column, field_question(field_getter("value", key), test))


def _producer(compiler: PatternCompiler, tree: Tree, kind: str) -> Question:
    del kind
    rows = wrong.table(tree, "producer")
    return edges.produced_by(compiler.nested(rows, "node", _END_KEYS), _end(rows))


def _consumer(compiler: PatternCompiler, tree: Tree, kind: str) -> Question:
    del kind
    rows = wrong.table(tree, "consumer")
    return edges.consumed_by(compiler.nested(rows, "node", _END_KEYS), _end(rows))


def _stream(direction: str) -> Build:
    """Return what compiles `upstream` or `downstream`."""

    def build(compiler: PatternCompiler, tree: Tree, kind: str) -> Question:
        del kind
        rows = wrong.table(tree, direction)
        within = rows.items.get("within")
        steps = within.value if isinstance(within, Leaf) else None
        if type(steps) is not int or not 1 <= steps <= 8:
            raise Wrong(within or rows, f"'{direction}' needs 'within', a whole number from 1 to 8")
        return edges.along(compiler.nested(rows, "node", frozenset({"within"})), steps, direction)

    return build


def _end(rows: Table) -> edges.End:
    index = rows.items.get("index")
    number = index.value if isinstance(index, Leaf) and type(index.value) is int else None
    if index is not None and number is None:
        raise Wrong(index, f"'index' is a whole number, not {wrong.describe(index)}")
    quantifier = rows.items.get("quantifier")
    return edges.End(number, wrong.one_of(quantifier, edges.COMBINE, "quantifier") if quantifier else "any")


# Tables

RELATIONS: Final[Mapping[str, Build]] = {
    "all": _all,
    "any": _any,
    "not": _not,
    "inside": _inside,
    "exists": exists_question,
    "absent": _absent,
    "input": _end_value("input"),
    "output": _end_value("output"),
    "producer": _producer,
    "consumer": _consumer,
    "upstream": _stream("upstream"),
    "downstream": _stream("downstream"),
}
"""Every relation and boolean, and how it is compiled."""

BOOLEANS: Final = frozenset({"all", "any", "not"})
SEARCHES: Final = frozenset({"exists", "absent", "upstream", "downstream"})
"""Relations that look at many facts; they are asked last."""

_EDGES = ("node", "value")
KINDS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "inside": tuple(sorted(CODE_KINDS)),
    "input": ("node",),
    "output": ("node",),
    "producer": _EDGES,
    "consumer": _EDGES,
    "upstream": _EDGES,
    "downstream": _EDGES,
}
"""The kinds of fact that have a relation; those not named here all have."""
