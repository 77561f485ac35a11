"""Refusing what can never hold: tests that exclude each other, words that no fact has, operators that ONNX lacks.

A test of a single value is tried on witnesses: every constant that it names, the values just beside and between them,
and one of each other type. When it says no to all of them it says no to everything, because the operators looked at
here (`_SINGLE`) change their answer at those constants only. Tests with others, such as a regular expression, pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from math import isfinite
from typing import Any, Final

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from tensoraudit.facts import ABSENT, Unknown
from tensoraudit.facts.store import FactStore
from tensoraudit.language.document import Items, Leaf, Table, Tree, plain
from tensoraudit.language.equality import Test
from tensoraudit.language.kleene import NO
from tensoraudit.language.metrics import METRICS, WORDS
from tensoraudit.language.names import NamePattern
from tensoraudit.language.onnx_operators import NEWEST_OPSET, operators
from tensoraudit.language.problems import Wrong, nearest
from tensoraudit.language.schema import KEY_WORDS

_SINGLE: Final = frozenset({"is", "in", "not", "lt", "le", "gt", "ge", "present", "literal", "dim"})
_FUTURE: Final = 20
"""Opsets beyond the newest that a rule may speak of."""
_NOTHING: Final = FactStore()


def check_value(tree: Table, test: Test) -> None:
    """Raise Wrong where a mapping of operators says no to every value."""
    if _is_single(tree) and all(test(value, _NOTHING) is NO for value in _witnesses(tree)):
        raise Wrong(tree, "this can never hold: its parts exclude each other")


def check_size(tree: Tree, test: Test, what: str) -> None:
    """Raise Wrong where a test of a number of things (never below zero) says no to every number."""
    numbers = [int(value) for value in _constants(tree) if isinstance(value, int | float) and isfinite(value)]
    around = {0, *(near for number in numbers for near in (number - 1, number, number + 1) if near >= 0)}
    if all(test(number, _NOTHING) is NO for number in around):
        raise Wrong(tree, f"this can never hold: {what} is a whole number from 0 on")


def _is_single(tree: Tree) -> bool:
    match tree:
        case Table():
            return all(key in _SINGLE and _is_single(value) for key, value in tree.items.items())
        case Items():
            return all(map(_is_single, tree.items))
        case _:
            return True


def _constants(tree: Tree) -> Iterator[Any]:
    match tree:
        case Table():
            for value in tree.items.values():
                yield from _constants(value)
        case Items():
            yield _frozen(plain(tree))
            for item in tree.items:
                yield from _constants(item)
        case Leaf():
            yield tree.value


def _frozen(data: Any) -> Any:
    return tuple(map(_frozen, data)) if isinstance(data, list) else data


def _witnesses(tree: Table) -> Iterator[Any]:
    constants = list(_constants(tree))
    yield from constants
    numbers = sorted({value for value in constants if isinstance(value, int | float) and not isinstance(value, bool)})
    for number in numbers:
        yield from (number - 1, number + 1, float(number) - 0.5, float(number) + 0.5)
    yield from ((low + high) / 2 for low, high in pairwise(numbers))
    yield from ("", "any other text", 0, 0.5, True, False, None, (), ABSENT)
    if "literal" in tree.items:
        yield Unknown("an expression")


def check_versions(tree: Tree, allowed: SpecifierSet) -> None:
    """Raise Wrong where a range holds no version: it is tried on those that it names and their neighbours."""
    if not any(allowed.contains(version, prereleases=True) for version in _versions(allowed)):
        raise Wrong(tree, f"no version is in '{allowed}'")


def _versions(allowed: SpecifierSet) -> Iterator[Version]:
    yield from (Version("0.dev0"), Version("99999"))
    for specifier in allowed:
        text = specifier.version.removesuffix(".*")
        for near in (text, f"{text}.dev0", f"{text}.post1", f"{text}.0.0.0.1", f"{text}.99999", f"{text}+local"):
            try:
                yield Version(near)
            except InvalidVersion:  # a pre-release cannot have further parts
                continue


# Words that facts are named by


def check_key(tree: Tree, kind: str, names: Iterable[NamePattern]) -> None:
    """Raise Wrong for a name of a kind whose names are all known, such as a metric, that matches none of them."""
    words: Collection[str] | None = METRICS if kind == "measurement" else KEY_WORDS.get(kind)
    if words is not None:
        _check_names(tree, names, words, f"{kind if kind != 'measurement' else 'metric'} that is ever seen")


def check_measured(tree: Tree, metric: str) -> None:
    """Raise Wrong where the value of a metric is compared with a word that it never has."""
    words = WORDS.get(metric)
    parts = tree.items if isinstance(tree, Items) else (tree,)
    for part in parts:
        if words and isinstance(part, Leaf) and part.value not in words:
            raise Wrong(part, f"{metric} is never {part.value!r}{nearest(str(part.value), words)}")


def _check_names(tree: Tree, names: Iterable[NamePattern], words: Collection[str], what: str) -> None:
    places = tree.items if isinstance(tree, Items) else (tree,)
    for place, name in zip(places, names, strict=True):
        if not _matching(name, words):
            raise Wrong(place, f"'{name.text}' is no {what}{nearest(name.text, words)}")


def _matching(pattern: NamePattern, words: Collection[str]) -> list[str]:
    if pattern.exact:
        return [pattern.text] if pattern.text in words else []
    return [word for word in words if pattern.match(word) is not None]


# Operators of ONNX


def check_node(tree: Table, names: Iterable[NamePattern], opset: Test | None) -> None:
    """Raise Wrong for an operator, attribute or opset that the schemas of the pattern's `domain` do not have."""
    domain = tree.items.get("domain")
    known = operators(domain.value) if isinstance(domain, Leaf) and isinstance(domain.value, str) else None
    patterns = tuple(names)
    if known is None or not patterns:
        return
    _check_names(tree.items["node"], patterns, known, f"operator of ONNX's domain '{plain(tree.items['domain'])}'")
    found = [known[name] for pattern in patterns for name in _matching(pattern, known)]
    attributes = tree.items.get("attributes")
    if isinstance(attributes, Table):
        _check_attributes(attributes, sorted(frozenset().union(*(row[2] for row in found))))
    first = min(row[0] for row in found)
    if opset and all(opset(number, _NOTHING) is NO for number in range(first, NEWEST_OPSET + _FUTURE)):
        raise Wrong(tree.items["opset"], f"this can never hold: the operator came with opset {first}")


def _check_attributes(tree: Table, known: list[str]) -> None:
    for key in tree.items:
        if key not in known:
            raise Wrong(tree.keys[key], f"the operator has no attribute '{key}'{nearest(str(key), known)}")
