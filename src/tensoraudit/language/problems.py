"""Collecting all that is wrong in a rule, each with its place and the nearest right word. Knows nothing of rules."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from tensoraudit.errors import RuleProblem
from tensoraudit.language.document import Items, Leaf, Table, Tree, plain

_T = TypeVar("_T")
_P = TypeVar("_P")
_A = ParamSpec("_A")


class Wrong(Exception):  # noqa: N818 - read as a word where it is raised
    """One part of a rule cannot be compiled; the parts beside it still are, so that all faults show at once.

    `also` are the faults of its neighbours.
    """

    def __init__(self, tree: Tree, text: str, also: tuple[Wrong, ...] = ()) -> None:
        super().__init__(text)
        self.tree, self.text, self.also = tree, text, also


def each(parts: Iterable[_P], build: Callable[[_P], _T]) -> list[_T]:
    """Build every part. Raises one Wrong with the faults of all that are wrong."""
    built: list[_T] = []
    faults: list[Wrong] = []
    for part in parts:
        try:
            built.append(build(part))
        except Wrong as fault:
            faults += (fault, *fault.also)
    if faults:
        raise Wrong(faults[0].tree, faults[0].text, tuple(faults[1:]))
    return built


@dataclass(slots=True)
class Problems:
    """The faults of one file."""

    path: str
    found: list[RuleProblem] = field(default_factory=list)

    def add(self, tree: Tree, text: str) -> None:
        """Record a fault at the place of `tree`."""
        self.found.append(RuleProblem(self.path, tree.line, tree.column, text))

    def guard(self, build: Callable[_A, _T], *args: _A.args, **named: _A.kwargs) -> _T | None:
        """Return what `build` makes, or record why it cannot and return None."""
        try:
            return build(*args, **named)
        except Wrong as wrong:
            for fault in (wrong, *wrong.also):
                self.add(fault.tree, fault.text)
            return None


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the advice to append to a message about an unknown word."""
    words = list(known)
    close = difflib.get_close_matches(str(word), words, n=1, cutoff=0.6)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; known are {', '.join(words)}" if len(words) <= 12 else ""


def one_of(tree: Tree, known: Collection[str], what: str) -> str:
    """Return the text of `tree` if it is a known word."""
    word = text(tree, what)
    if word not in known:
        raise Wrong(tree, f"'{word}' is no {what}{nearest(word, known)}")
    return word


def text(tree: Tree, what: str) -> str:
    """Return a text. A number gets the advice to quote it, because an unquoted version loses its zeros."""
    if isinstance(tree, Leaf) and isinstance(tree.value, str):
        return tree.value
    if isinstance(tree, Leaf) and isinstance(tree.value, int | float) and not isinstance(tree.value, bool):
        raise Wrong(tree, f"{what} is the number {tree.value} here; quote it to make it text")
    raise Wrong(tree, f"{what} must be text, not {describe(tree)}")


def texts(tree: Tree, what: str) -> tuple[str, ...]:
    """Return a list of texts; one text alone is a list of one."""
    if isinstance(tree, Items):
        return tuple(text(item, what) for item in tree.items)
    return (text(tree, what),)


def boolean(tree: Tree, what: str) -> bool:
    """Return true or false."""
    if isinstance(tree, Leaf) and isinstance(tree.value, bool):
        return tree.value
    raise Wrong(tree, f"{what} must be true or false, not {describe(tree)}")


def table(tree: Tree, what: str) -> Table:
    """Return a mapping."""
    if isinstance(tree, Table):
        return tree
    raise Wrong(tree, f"{what} must be a mapping, not {describe(tree)}")


def describe(tree: Tree) -> str:
    """Return what `tree` is, in words."""
    match tree:
        case Items():
            return "a list"
        case Table():
            return "a mapping"
        case _:
            return repr(plain(tree)) if plain(tree) is not None else "nothing"
