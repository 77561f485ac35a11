"""Value tests: the small words that are asked of one field. Knows nothing of facts' kinds or of relations.

Every test takes a value and the store and answers in three values. On an absent value the answer is no, on one that is
not known it is unknown; only `present`, `literal`, `name`, `known` and `not` look at those two themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from tensoraudit.facts import ABSENT, Name, Unknown
from tensoraudit.facts.graph_index import UNSURE
from tensoraudit.facts.store import FactStore
from tensoraudit.language import problems as wrong
from tensoraudit.language.document import Items, Leaf, Table, Tree, plain
from tensoraudit.language.equality import EXACT, Test, among, equal, equal_to, known, says_which
from tensoraudit.language.kleene import NO, UNKNOWN, YES, Truth, all_of, any_of, negate, truth
from tensoraudit.language.names import NamePattern, compile_name
from tensoraudit.language.possible import check_size, check_value, check_versions
from tensoraudit.language.problems import Wrong, nearest
from tensoraudit.language.schema import CONSTANT, DIMENSION, NUMBER, RECORD, TEXT, VALUE_FIELDS, FieldType

_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "lt": lambda value, bound: value < bound,
    "le": lambda value, bound: value <= bound,
    "gt": lambda value, bound: value > bound,
    "ge": lambda value, bound: value >= bound,
}

_REMEMBERED: Final = 1 << 10
"""Names whose answer a test keeps."""


def compile_test(tree: Tree, kind: FieldType) -> Test:
    """Compile a value test for a field of type `kind`. Raises Wrong at the first fault."""
    if kind.entries is not None:
        return _entries(tree, kind.entries)
    if kind is RECORD:
        return _record(wrong.table(tree, "a value of a graph"))
    if isinstance(tree, Table):
        return _operators(tree, kind)
    if kind.short == "refused":
        raise Wrong(tree, f"a {kind.label} needs an operator, such as {{rank: 4}} or {{is: [1, 3]}}")
    if isinstance(tree, Items):
        return _one_of(tree, kind)
    return _SHORT[kind.short](tree, kind)


def compile_names(tree: Tree, what: str) -> tuple[NamePattern, ...]:
    """Compile one name pattern or a list of them."""
    trees = tree.items if isinstance(tree, Items) else (tree,)
    if not trees:
        raise Wrong(tree, f"{what} is an empty list; nothing can match it")
    return tuple(wrong.each(trees, lambda item: _name_pattern(item, what)))


def _frozen(data: Any) -> Any:
    return tuple(_frozen(item) for item in data) if isinstance(data, list) else data


def _name_pattern(tree: Tree, what: str) -> NamePattern:
    try:
        return compile_name(wrong.text(tree, what))
    except ValueError as error:
        raise Wrong(tree, str(error)) from None


# What a bare scalar or list means


def _equal_to(tree: Tree, kind: FieldType) -> Test:
    wanted = _operand(tree, kind)
    return equal_to(wanted, symbolic=kind is DIMENSION or kind.element is DIMENSION)


def _in_range(tree: Tree, kind: FieldType) -> Test:
    del kind
    words = wrong.text(tree, "a version range")
    try:
        allowed = SpecifierSet(words)
    except InvalidSpecifier:
        hint = f"; write '=={words}' for exactly that one" if words[:1].isdigit() else ""
        raise Wrong(tree, f"'{words}' is no version range such as '>=2.6,<2.9'{hint}") from None
    check_versions(tree, allowed)

    def within(value: Any) -> Truth:
        try:
            return truth(allowed.contains(Version(value), prereleases=True))
        except (InvalidVersion, TypeError):
            return UNKNOWN

    return known(within)


def _has_name(tree: Tree, kind: FieldType) -> Test:
    del kind
    fits = _fits_any(compile_names(tree, "a name"))
    return known(lambda value: truth(any(map(fits, value))))


def _has_pattern(tree: Tree, kind: FieldType) -> Test:
    del kind
    fits = _fits_any(compile_names(tree, "a name"))
    return known(lambda value: truth(fits(value)))


def _fits_any(patterns: Sequence[NamePattern]) -> Callable[[str], bool]:
    """Return whether a name is one of `patterns`. Source says the same few names again and again."""
    return lru_cache(_REMEMBERED)(lambda name: any(pattern.match(name) is not None for pattern in patterns))


_SHORT: Mapping[str, Callable[[Tree, FieldType], Test]] = {
    "pattern": _has_pattern,
    "equal": _equal_to,
    "version": _in_range,
    "name": _has_name,
}


def _one_of(tree: Items, kind: FieldType) -> Test:
    if not tree.items:
        raise Wrong(tree, "an empty list means one of nothing, which never holds")
    plainly = all(isinstance(item, Leaf) for item in tree.items)
    if plainly and kind.short in ("name", "pattern"):  # one look at each name instead of one a pattern
        return _SHORT[kind.short](tree, kind)
    tests = wrong.each(tree.items, lambda item: compile_test(item, kind))
    if kind.short == "equal" and kind is not DIMENSION and plainly:
        words = {(type(item.value), item.value) for item in tree.items if isinstance(item, Leaf)}
        if all(type_ in EXACT for type_, _ in words):
            return among(frozenset(words))
    return lambda value, store: any_of(test(value, store) for test in tests)


def _operand(tree: Tree, kind: FieldType) -> Any:
    """Return plain data to compare with, checked against the type of the field."""
    data = _frozen(plain(tree))
    if isinstance(tree, Leaf):
        if type(tree.value) not in kind.scalars:
            hint = "; quote it" if kind.scalars == (str,) and isinstance(tree.value, int | float) else ""
            raise Wrong(tree, f"{wrong.describe(tree)} can never equal a {kind.label}{hint}")
        if kind.words and tree.value not in kind.words and "(" not in str(tree.value):
            raise Wrong(tree, f"'{tree.value}' is no {kind.label}{nearest(str(tree.value), kind.words)}")
    return data


# Mappings of operators


def _operators(tree: Table, kind: FieldType) -> Test:
    if not tree.items:
        raise Wrong(tree, "an empty mapping tests nothing")
    tests = wrong.each(tree.items.items(), lambda row: _operator(*row, tree, kind))
    combined = tests[0] if len(tests) == 1 else lambda value, store: all_of(test(value, store) for test in tests)
    check_value(tree, combined)
    return combined


def _operator(key: str | int, tree: Tree, parent: Table, kind: FieldType) -> Test:
    if isinstance(key, int):
        if "index" not in kind.operators:
            raise Wrong(parent.keys[key], f"a {kind.label} has no elements to number")
        return _element(key, tree, kind)
    if key not in OPERATORS:
        raise Wrong(parent.keys[key], f"'{key}' is no test{nearest(key, OPERATORS)}")
    if key not in kind.operators:
        raise Wrong(parent.keys[key], f"'{key}' does not fit a {kind.label}; {', '.join(sorted(kind.operators))} do")
    return OPERATORS[key](tree, kind)


def _in(tree: Tree, kind: FieldType) -> Test:
    if not isinstance(tree, Items):
        raise Wrong(tree, "'in' takes a list")
    return _one_of(tree, kind)


def _not(tree: Tree, kind: FieldType) -> Test:
    test = compile_test(tree, kind)
    return lambda value, store: negate(test(value, store))


def _order(name: str) -> Callable[[Tree, FieldType], Test]:
    compare = _ORDER[name]

    def build(tree: Tree, kind: FieldType) -> Test:
        bound = plain(tree)
        if not isinstance(bound, int | float) or isinstance(bound, bool):
            raise Wrong(tree, f"'{name}' takes a number, not {wrong.describe(tree)}")

        def answer(value: Any) -> Truth:
            if isinstance(value, int | float) and not isinstance(value, bool):
                return truth(compare(value, bound))
            return UNKNOWN if kind is DIMENSION and isinstance(value, str) else NO

        return known(answer)

    return build


def _regex(tree: Tree, kind: FieldType) -> Test:
    del kind
    words = wrong.text(tree, "a regular expression")
    try:
        expression = re.compile(words)
    except re.error as error:
        raise Wrong(tree, f"'{words}' is no regular expression: {error}") from None
    return known(lambda value: truth(isinstance(value, str) and expression.search(value) is not None))


def _contains(tree: Tree, kind: FieldType) -> Test:
    part = _operand(tree, kind.element or (TEXT if kind.words else kind))

    def answer(value: Any) -> Truth:
        if isinstance(value, str):
            return truth(isinstance(part, str) and part in value)
        if isinstance(value, list | tuple | Mapping):
            return any_of(equal(element, part) for element in value)
        return NO

    return known(answer)


def _present(tree: Tree, kind: FieldType) -> Test:
    del kind
    wanted = wrong.boolean(tree, "'present'")

    def test(value: Any, store: FactStore) -> Truth:
        return UNKNOWN if value is UNSURE else truth((value is not ABSENT) == wanted)

    return test


def _literal(tree: Tree, kind: FieldType) -> Test:
    del kind
    wanted = wrong.boolean(tree, "'literal'")

    def test(value: Any, store: FactStore) -> Truth:
        if value is ABSENT:
            return NO
        return UNKNOWN if value is UNSURE else truth(_is_literal(value) == wanted)

    return test


def _is_literal(value: Any) -> bool:
    if isinstance(value, Unknown | Name):
        return False
    elements = [*value, *value.values()] if isinstance(value, Mapping) else value
    return not isinstance(elements, list | tuple) or all(map(_is_literal, elements))


def _name(tree: Tree, kind: FieldType) -> Test:
    del kind
    patterns = compile_names(tree, "a name")

    def test(value: Any, store: FactStore) -> Truth:
        if isinstance(value, Unknown):
            return UNKNOWN
        if not isinstance(value, Name):
            return NO
        if any(pattern.match(value.name) is not None for pattern in patterns):
            return YES
        return NO if says_which(value, store) else UNKNOWN

    return test


def _is_known(tree: Tree, kind: FieldType) -> Test:
    del kind
    wanted = wrong.boolean(tree, "'known'")

    def test(value: Any, store: FactStore) -> Truth:
        if value is ABSENT:
            return NO
        if value is UNSURE:  # whatever `**` may hold, it is not known here
            return NO if wanted else UNKNOWN
        is_known = says_which(value, store) if isinstance(value, Name) else not isinstance(value, Unknown)
        return truth(is_known == wanted)

    return test


def _rank(tree: Tree, kind: FieldType) -> Test:
    del kind
    test = compile_test(tree, NUMBER)
    check_size(tree, test, "a rank")
    return lambda value, store: test(len(value) if isinstance(value, list | tuple) else value, store)


def _dim(tree: Tree, kind: FieldType) -> Test:
    del kind
    wanted = int if wrong.one_of(tree, ("static", "symbolic"), "kind of dimension") == "static" else str
    return known(lambda value: truth(type(value) is wanted))


# Lists


def _elements(value: Any, kind: FieldType) -> Any:
    """Return the elements of a list (the keys of a mapping, every number of a constant); None when it is neither."""
    if kind is CONSTANT and isinstance(value, tuple):
        return [number for part in value for number in (_elements(part, kind) if isinstance(part, tuple) else (part,))]
    return value if isinstance(value, list | tuple | Mapping) else None


def _quantifier(combine: Callable[[Any], Truth]) -> Callable[[Tree, FieldType], Test]:
    def build(tree: Tree, kind: FieldType) -> Test:
        inner = compile_test(tree, kind.element or kind)

        def test(value: Any, store: FactStore) -> Truth:
            if isinstance(value, Unknown | Name):
                return UNKNOWN
            elements = _elements(value, kind)
            return NO if elements is None else combine(inner(element, store) for element in elements)

        return test

    return build


def _count(tree: Tree, kind: FieldType) -> Test:
    parts = dict(tree.items) if isinstance(tree, Table) else {}
    inner = compile_test(parts.pop("of"), kind.element or kind) if "of" in parts else None
    rest = Table(parts, tree.keys, tree.line, tree.column) if isinstance(tree, Table) else tree
    size = compile_test(rest, NUMBER)
    check_size(rest, size, "a count")

    def test(value: Any, store: FactStore) -> Truth:
        if isinstance(value, Unknown | Name):
            return UNKNOWN
        elements = _elements(value, kind)
        if elements is None:
            return NO
        answers = [inner(element, store) for element in elements] if inner else [YES] * len(elements)
        # Each element that is not known may count or not: the answer must be the same for every number between.
        sure, perhaps = answers.count(YES), answers.count(UNKNOWN)
        outcomes = {size(number, store) for number in range(sure, sure + perhaps + 1)}
        return outcomes.pop() if len(outcomes) == 1 else UNKNOWN

    return test


def _element(index: int, tree: Tree, kind: FieldType) -> Test:
    inner = compile_test(tree, kind.element or kind)

    def test(value: Any, store: FactStore) -> Truth:
        if isinstance(value, list | tuple):
            value = value[index] if -len(value) <= index < len(value) else ABSENT
        elif not isinstance(value, Unknown | Name):
            value = ABSENT
        return inner(value, store)

    return test


def _entries(tree: Tree, kind: FieldType) -> Test:
    """Test the values of a mapping under the keys that the rule names."""
    rows = wrong.table(tree, "a test by key")
    tests = wrong.each(rows.items.items(), lambda row: (row[0], compile_test(row[1], kind)))

    def test(value: Any, store: FactStore) -> Truth:
        if isinstance(value, Unknown):
            return UNKNOWN
        found = value if isinstance(value, Mapping) else {}
        return all_of(inner(found.get(key, ABSENT), store) for key, inner in tests)

    return test


def _record(tree: Table) -> Test:
    """Test the fields of a graph's value."""

    def field(row: tuple[Any, Tree]) -> tuple[Any, Test]:
        key, value = row
        if key not in VALUE_FIELDS:
            raise Wrong(tree.keys[key], f"a value has no field '{key}'{nearest(str(key), VALUE_FIELDS)}")
        return key, compile_test(value, VALUE_FIELDS[key])

    tests = wrong.each(tree.items.items(), field)
    return lambda value, store: (
        UNKNOWN
        if isinstance(value, Unknown)
        else all_of(test(getattr(value, key, ABSENT), store) for key, test in tests)
    )


OPERATORS: Mapping[str, Callable[[Tree, FieldType], Test]] = {
    "is": _equal_to,
    "in": _in,
    "not": _not,
    "lt": _order("lt"),
    "le": _order("le"),
    "gt": _order("gt"),
    "ge": _order("ge"),
    "regex": _regex,
    "contains": _contains,
    "version": _in_range,
    "present": _present,
    "literal": _literal,
    "name": _name,
    "known": _is_known,
    "rank": _rank,
    "dim": _dim,
    "any": _quantifier(any_of),
    "every": _quantifier(all_of),
    "none": _quantifier(lambda answers: negate(any_of(answers))),
    "count": _count,
}
"""Every operator and how it is compiled."""
