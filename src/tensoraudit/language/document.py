"""YAML with positions: a tree whose every key and value knows its line and column. Knows nothing of rules.

Built from libyaml's events with a stack of our own, for four reasons: PyYAML's constructor reads `1e-5` as text and
`on` as true (YAML 1.1), keeps the last of two equal keys without a word, drops positions, and recurses on nested
input. The bounds are far above any rule that a person writes (the largest has some hundred nodes) and far below harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tensoraudit.errors import RuleProblem

MAX_BYTES = 1 << 20
MAX_DEPTH = 40
MAX_NODES = 20_000

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONSTANTS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None, "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_SPECIAL = frozenset("~nNtTfF-+.0123456789") | {""}
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
    if path.exists() and not path.is_file():
        raise OSError("it is no regular file")
    with path.open("rb") as file:
        data = file.read(4 * MAX_BYTES + 1)
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
    """A list or mapping whose end has not come yet."""

    start: Any
    items: list[Tree]
    size: int = 1


@dataclass(slots=True)
class _Builder:
    """Turns events into trees. Sizes count nodes as if each alias were written out: that is what a bomb inflates."""

    problems: list[tuple[int, int, str]] = field(default_factory=list)
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, tuple[Tree, int]] = field(default_factory=dict)
    root: Tree | None = None

    def documents(self, text: str) -> Iterator[Tree]:
        take = {
            yaml.MappingStartEvent: self._open,
            yaml.SequenceStartEvent: self._open,
            yaml.MappingEndEvent: self._close,
            yaml.SequenceEndEvent: self._close,
            yaml.AliasEvent: self._alias,
            yaml.DocumentStartEvent: self._begin,
        }
        parser = _Loader(text)
        try:
            # Not `yaml.parse`, which asks before each event whether there is one.
            next_event, scalar, place = parser.get_event, yaml.ScalarEvent, self._place
            while (event := next_event()) is not None:
                kind = event.__class__
                if kind is scalar:  # three events of four
                    place(self._leaf(event), 1, event.anchor)
                elif (handle := take.get(kind)) is not None:
                    handle(event)
                elif self.root is not None and isinstance(event, yaml.DocumentEndEvent):
                    yield self.root
        finally:
            parser.dispose()

    def _begin(self, event: Any) -> None:
        del event
        self.anchors.clear()
        self.root = None

    def _leaf(self, event: Any) -> Leaf:
        mark, value = event.start_mark, event.value
        # libyaml gives the style of a plain scalar as "" and PyYAML as None; every other style means text.
        if event.tag is not None:
            self._check_tag(event)
        elif not event.style and value[:1] in _SPECIAL:
            value = _resolve(value)
        return Leaf(value, mark.line + 1, mark.column + 1)

    def _open(self, event: Any) -> None:
        if event.tag is not None:
            self._check_tag(event)
        self.stack.append(_Open(event, []))
        if len(self.stack) > MAX_DEPTH:
            raise DocumentError(f"nested deeper than {MAX_DEPTH}", *_position(event))

    def _close(self, event: Any) -> None:
        opened = self.stack.pop()
        tree = self._table(opened) if isinstance(event, yaml.MappingEndEvent) else _items(opened)
        self._place(tree, opened.size, opened.start.anchor)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self.anchors:
            raise DocumentError(f"alias *{event.anchor} has no finished anchor before it", *_position(event))
        self._place(*self.anchors[event.anchor], None)

    def _place(self, tree: Tree, size: int, anchor: str | None) -> None:
        if anchor is not None:
            self.anchors[anchor] = (tree, size)
        if not self.stack:
            self.root = tree
            return
        parent = self.stack[-1]
        parent.items.append(tree)
        parent.size += size
        if parent.size > MAX_NODES:
            text = f"more than {MAX_NODES} values once its aliases are written out"
            raise DocumentError(text, tree.line, tree.column)

    def _table(self, opened: _Open) -> Table:
        items: dict[Any, Tree] = {}
        keys: dict[Any, Leaf] = {}
        rows = iter(opened.items)
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
        return Table(items, keys, *_position(opened.start))

    def _check_tag(self, event: Any) -> None:
        if event.tag not in {None, "!"}:
            self.problems.append((*_position(event), f"tags such as {event.tag} are not read here; remove it"))


def _items(opened: _Open) -> Items:
    return Items(tuple(opened.items), *_position(opened.start))


def _position(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _resolve(text: str) -> str | int | float | bool | None:
    """Resolve a plain scalar that begins like no word, by the core schema of YAML 1.2."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[:2] in {"0o", "0x"} else int(text)
    if _FLOAT.fullmatch(text):
        return float(
            text.replace(".inf", "inf").replace(".Inf", "inf").replace(".INF", "inf").lower().replace(".nan", "nan")
        )
    return text
