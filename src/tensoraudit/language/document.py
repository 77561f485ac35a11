"""YAML with positions: a tree whose every key and value knows its line and column. Knows nothing of rules.

Built from libyaml's events with a stack of our own, for four reasons: PyYAML's constructor reads `1e-5` as text and
`on` as true (YAML 1.1), keeps the last of two equal keys without a word, drops positions, and recurses on nested
input. The bounds are far above any rule that a person writes (the largest has some hundred nodes) and far below harm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final

import yaml

from tensoraudit.errors import RuleProblem

MAX_BYTES = 1 << 20
MAX_DEPTH = 40
MAX_NODES = 20_000
_FIRST: Final = 1 << 16
"""Bytes that hold most files of rules."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONSTANTS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None, "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_NUMERIC = frozenset("-+.0123456789")
"""The first characters of what may be a number."""
_SPECIAL = _NUMERIC | frozenset("~nNtTfF") | {""}
"""The first characters of what may be no text."""

_INTEGER = re.compile(r"[-+]?[0-9]{1,4000}|0o[0-7]{1,4000}|0x[0-9a-fA-F]{1,4000}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


# Trees are never changed, yet not frozen: freezing doubles the time to make one, and loading makes tens of thousands.


@dataclass(slots=True)
class Leaf:
    """A scalar with its YAML 1.2 value."""

    value: str | int | float | bool | None
    line: int
    column: int


@dataclass(slots=True)
class Items:
    """A list."""

    items: tuple[Tree, ...]
    line: int
    column: int


@dataclass(slots=True)
class Table:
    """A mapping in the order of the file. `keys` holds each key's own position."""

    items: dict[Any, Tree]
    keys: dict[Any, Leaf]
    line: int
    column: int


Tree = Leaf | Items | Table


class DocumentError(Exception):
    """The text is no YAML that is read here; `line` and `column` count from 1."""

    def __init__(self, text: str, line: int, column: int) -> None:
        super().__init__(text)
        self.text, self.line, self.column = text, line, column


def read_file(path: Path) -> str:
    """Return the text of a file of rules. Raises OSError and UnicodeDecodeError; a pipe or device is not waited for.

    Of what is larger than any rule file enough is returned for `read_documents` to say so.
    """
    if not S_ISREG(path.stat().st_mode):
        raise OSError("it is no regular file")
    with path.open("rb") as file:
        data = file.read(_FIRST)  # asked for all of a large file at once, Python sets aside as much for a small one
        if len(data) == _FIRST:
            data += file.read(4 * MAX_BYTES + 1 - _FIRST)
    return data.decode("utf-8", "strict" if len(data) <= 4 * MAX_BYTES else "replace").replace("\r\n", "\n")


def read_documents(text: str, path: str) -> tuple[list[Table], list[RuleProblem]]:
    """Return the mappings of all documents in `text`, and what is wrong; no document when the text is no YAML."""
    if len(text) > MAX_BYTES:
        return [], [RuleProblem(path, 1, 1, f"the file is larger than {MAX_BYTES >> 20} MiB; no rule is. Split it")]
    try:
        builder = _Builder()
        trees = list(builder.documents(text))
    except DocumentError as error:
        return [], [RuleProblem(path, error.line, error.column, error.text)]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        return [], [RuleProblem(path, *where, f"not YAML: {error.problem or error.context}")]
    except yaml.YAMLError as error:
        return [], [RuleProblem(path, 1, 1, f"not YAML: {str(error).splitlines()[0]}")]
    problems = [RuleProblem(path, line, column, words) for line, column, words in builder.problems]
    tables = [tree for tree in trees if isinstance(tree, Table)]
    problems += [
        RuleProblem(path, tree.line, tree.column, "a rule is a mapping of keys")
        for tree in trees
        if not isinstance(tree, Table) and not (isinstance(tree, Leaf) and tree.value is None)
    ]
    return tables, problems


def plain(tree: Tree) -> Any:
    """Return the tree as plain Python data: dict, list and scalars."""
    match tree:
        case Leaf():
            return tree.value
        case Items():
            return [plain(item) for item in tree.items]
        case Table():
            return {key: plain(value) for key, value in tree.items.items()}


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come yet, or the document around all. It may take `room` parts."""

    start: Any
    items: list[Tree]
    room: int


@dataclass(slots=True)
class _Builder:
    """Turns events into trees. Sizes count nodes as if each alias were written out: that is what a bomb inflates."""

    problems: list[tuple[int, int, str]] = field(default_factory=list)
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, tuple[Tree, int]] = field(default_factory=dict)

    def documents(self, text: str) -> Iterator[Tree]:
        parser = _Loader(text)
        try:
            # Not `yaml.parse`, which asks before each event whether there is one.
            yield from self._trees(parser.get_event)
        finally:
            parser.dispose()

    def _trees(self, next_event: Callable[[], Any]) -> Iterator[Tree]:
        take = {
            yaml.DocumentStartEvent: self._begin,
            yaml.MappingStartEvent: self._open,
            yaml.SequenceStartEvent: self._open,
            yaml.MappingEndEvent: self._close,
            yaml.SequenceEndEvent: self._close,
            yaml.AliasEvent: self._alias,
        }
        opened, scalar = _Open(None, [], 0), yaml.ScalarEvent
        while (event := next_event()) is not None:
            kind = event.__class__
            if kind is scalar:  # three events of four, so without a call
                value, mark = event.value, event.start_mark
                # libyaml gives the style of a plain scalar as "" and PyYAML as None; every other style means text.
                if not event.style and value[:1] in _SPECIAL and event.tag is None:
                    value = _resolve(value)
                leaf = Leaf(value, mark.line + 1, mark.column + 1)
                opened.items.append(leaf)
                if event.tag is not None or event.anchor is not None:
                    self._mark(event, leaf)
                if len(opened.items) > opened.room:
                    raise _too_many(leaf)
            elif kind in take:
                opened = take[kind](event)
            elif kind is yaml.DocumentEndEvent:
                yield opened.items[0]

    def _begin(self, event: Any) -> _Open:
        self.anchors.clear()
        self.stack = [_Open(event, [], MAX_NODES)]
        return self.stack[0]

    def _mark(self, event: Any, leaf: Leaf) -> None:
        self._check_tag(event)
        if event.anchor is not None:
            self.anchors[event.anchor] = (leaf, 1)

    def _open(self, event: Any) -> _Open:
        if event.tag is not None:
            self._check_tag(event)
        if len(self.stack) > MAX_DEPTH:  # the document is one of them
            raise DocumentError(f"nested deeper than {MAX_DEPTH}", *_position(event))
        opened = _Open(event, [], MAX_NODES - 1)
        self.stack.append(opened)
        return opened

    def _close(self, event: Any) -> _Open:
        closed = self.stack.pop()
        start, items = closed.start, closed.items
        is_table = event.__class__ is yaml.MappingEndEvent
        tree = self._table(items, start) if is_table else Items(tuple(items), *_position(start))
        size = MAX_NODES - closed.room + len(items)
        if start.anchor is not None:
            self.anchors[start.anchor] = (tree, size)
        return self._place(tree, size)

    def _alias(self, event: Any) -> _Open:
        if event.anchor not in self.anchors:
            raise DocumentError(f"alias *{event.anchor} has no finished anchor before it", *_position(event))
        return self._place(*self.anchors[event.anchor])

    def _place(self, tree: Tree, size: int) -> _Open:
        parent = self.stack[-1]
        parent.items.append(tree)
        parent.room -= size - 1
        if len(parent.items) > parent.room:
            raise _too_many(tree)
        return parent

    def _table(self, parts: list[Tree], start: Any) -> Table:
        items: dict[Any, Tree] = {}
        keys: dict[Any, Leaf] = {}
        rows = iter(parts)
        for key, value in zip(rows, rows, strict=True):
            word = key.value if key.__class__ is Leaf else None
            # Not isinstance: true is an int to Python, and `1` and `true` would be one key.
            if word.__class__ is not str and word.__class__ is not int:
                self.problems.append((key.line, key.column, "a key must be a word or a whole number"))
            elif word in items:
                text = f"key '{word}' is given twice; the first is in line {keys[word].line}"
                self.problems.append((key.line, key.column, text))
            else:
                items[word], keys[word] = value, key  # type: ignore[assignment]
        return Table(items, keys, *_position(start))

    def _check_tag(self, event: Any) -> None:
        if event.tag not in {None, "!"}:
            self.problems.append((*_position(event), f"tags such as {event.tag} are not read here; remove it"))


def _too_many(tree: Tree) -> DocumentError:
    text = f"more than {MAX_NODES} values once its aliases are written out"
    return DocumentError(text, tree.line, tree.column)


def _position(event: Any) -> tuple[int, int]:
    mark = event.start_mark
    return mark.line + 1, mark.column + 1


def _resolve(text: str) -> str | int | float | bool | None:
    """Resolve a plain scalar that begins like no word, by the core schema of YAML 1.2."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMERIC:
        return text
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[:2] in {"0o", "0x"} else int(text)
    if _FLOAT.fullmatch(text):
        return float(
            text.replace(".inf", "inf").replace(".Inf", "inf").replace(".INF", "inf").lower().replace(".nan", "nan")
        )
    return text
