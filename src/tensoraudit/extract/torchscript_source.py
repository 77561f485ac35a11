"""Where the operators of a TorchScript code file came from in the user's own source.

Beside each `code/**.py` lies a `.debug_pkl` that says, for ranges of the code file, which range of which original
source they were compiled from (torch/csrc/jit/serialization/source_range_serialization.cpp, torch 2.13):

    ("FORMAT_WITH_STRING_TABLE", (text, ...),
     ((offset, ((text indices, file index, first line), start, end), tag), ...))

Before torch 1.12 there was no table, and texts stood where the indices do. Offsets count bytes. A traced model has the
Python stack as its source text; then the innermost frame outside torch is the place. Nothing here trusts the file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Final

from tensoraudit.artifacts.pickle_interpreter import interpret
from tensoraudit.artifacts.pickle_nodes import Call, Items, Wishes
from tensoraudit.artifacts.pickle_stream import BrokenPickleError, Stream
from tensoraudit.errors import InputError
from tensoraudit.extract.user_source import SourceLine, choose_line

_MARK: Final = "FORMAT_WITH_STRING_TABLE"
_LONGEST_SOURCE: Final = 4 << 20
"""Bytes of one original source text. It holds one function; one that repeats a long line could fill any memory."""

_FRAME: Final = re.compile(r"^(?P<path>.+)\((?P<line>\d+)\): \S+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Source:
    text: bytes
    path: str
    first_line: int


class SourceMap:
    """Looks up the origin of a byte offset in one code file."""

    def __init__(self, view: memoryview | None) -> None:
        self._offsets: list[int] = []
        self._ranges: list[tuple[Items, int]] = []
        self._table: list[Any] | None = None
        self._sources: dict[int, _Source | None] = {}
        self._origins: dict[tuple[int, int], SourceLine | None] = {}
        if view is not None:
            try:
                self._read(interpret(Stream(view), Wishes()))
            except (BrokenPickleError, InputError):
                self._offsets, self._ranges = [], []  # places are a help: the model is read all the same

    def origin(self, offset: int) -> SourceLine | None:
        """Return the origin of what stands at `offset`, None where the file does not say."""
        position = bisect_right(self._offsets, offset) - 1
        if position < 0:
            return None
        source, start = self._ranges[position]
        key = (id(source), start)
        if key not in self._origins:
            self._origins[key] = self._find(source, start)
        return self._origins[key]

    def _read(self, root: Any) -> None:
        parts = _values(root)
        if parts[:1] == [_MARK] and len(parts) == 3:
            self._table, records = _values(parts[1]), _values(parts[2])
        else:
            records = parts
        found = []
        for record in map(_values, records):
            place = _values(record[1]) if len(record) >= 2 else []
            if len(place) < 3 or not isinstance(record[0], int):
                continue
            if isinstance(place[0], Items) and isinstance(place[1], int):
                found.append((record[0], place[0], place[1]))
        found.sort(key=lambda row: row[0])
        self._offsets = [offset for offset, _, _ in found]
        self._ranges = [(source, start) for _, source, start in found]

    def _find(self, node: Items, start: int) -> SourceLine | None:
        if id(node) not in self._sources:
            self._sources[id(node)] = self._source(node)
        source = self._sources[id(node)]
        if source is None:
            return None
        frames = list(_FRAME.finditer(source.text.decode("utf-8", "replace"))) if b"): " in source.text[:2000] else []
        if frames:
            return choose_line(SourceLine(frame["path"], int(frame["line"][:9]), "") for frame in frames)
        if not source.path or source.path.startswith("<") or not 0 <= start <= len(source.text):
            return None
        begin = source.text.rfind(b"\n", 0, start) + 1
        text = source.text[begin:].split(b"\n", 1)[0].decode("utf-8", "replace").strip()
        return SourceLine(source.path, source.first_line + source.text.count(b"\n", 0, start), text)

    def _source(self, node: Items) -> _Source | None:
        parts = node.values
        if len(parts) < 3 or not isinstance(parts[2], int):
            return None
        text, path = self._text(parts[0]), self._text(parts[1])
        return None if text is None else _Source(text, (path or b"").decode("utf-8", "replace"), parts[2])

    def _text(self, node: Any) -> bytes | None:
        """Return a text: written out, or as one or more indices into the table."""
        if isinstance(node, str):
            return node.encode("utf-8", "surrogatepass")
        indices = [node] if isinstance(node, int) else _values(node)
        pieces, size = [], 0
        for index in indices:
            piece = self._piece(index)
            size += len(piece)
            if size > _LONGEST_SOURCE:
                return None
            pieces.append(piece)
        return b"".join(pieces)

    def _piece(self, index: Any) -> bytes:
        table = self._table or []
        known = isinstance(index, int) and 0 <= index < len(table) and isinstance(table[index], str)
        return table[index].encode("utf-8", "surrogatepass") if known else b""


def _values(node: Any) -> list[Any]:
    """Return the items of a tuple or list, or of the list that `build_intlist` and its like make."""
    if isinstance(node, Call):
        node = node.arguments[0] if node.arguments else None
    return node.values if isinstance(node, Items) else []
