"""Which of the user's source lines a TensorFlow node comes from: GraphDebugInfo, where a SavedModel keeps it.

`tf.saved_model.save` writes it to `debug/saved_model_debug_info.pb` when it is asked to (`save_debug_info`). Two forms:
`traces` with their frames in place, and since TensorFlow 2.15 tables of names, traces and frames by number. Frames
stand outermost first. Field numbers are those of graph_debug_info.proto (TensorFlow 2.21).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tensoraudit.artifacts.protobuf import BYTES, FIXED64, VARINT, Buffer, WireError, fields, signed, text
from tensoraudit.extract.user_source import SourceLine

_MACHINERY: Final = re.compile(
    r"[/\\](?:tensorflow|keras|tf_keras)[/\\]|__autograph_generated_file|(?:^|[/\\])lib[/\\]python[\d.]+[/\\](?!site-)"
)
"""Files of TensorFlow, Keras and Python itself, and what autograph makes of the user's."""
_MAX_TRACES: Final = 2_000_000

Span = tuple[int, int]


class DebugInfo:
    """The frames of one GraphDebugInfo, read when a node asks for them. Raises WireError when it is made."""

    def __init__(self, data: Buffer) -> None:
        self._data = data
        self._files: list[str] = []
        self._frames: dict[int, Span] = {}
        self._traces: dict[int, Span] = {}
        self._named: dict[str, Span] = {}
        self._ids: dict[str, int] = {}
        for number, wire, start, end in fields(data, 0, len(data)):
            if wire == BYTES and number in _TABLES:
                _TABLES[number](self, start, end)
            if len(self._ids) + len(self._named) > _MAX_TRACES:
                raise WireError(f"debug information of more than {_MAX_TRACES:,} nodes")

    def line_of(self, node: str, function: str) -> SourceLine | None:
        """Return the innermost line of the user's that made a node; `function` is "" for the main graph."""
        key = f"{node}@{function}"
        span = self._named.get(key) or self._traces.get(self._ids.get(key, -1))
        if span is None:
            return None
        lines = list(self._lines(*span))
        return next((line for line in reversed(lines) if line.path and not _MACHINERY.search(line.path)), None)

    def _lines(self, start: int, end: int) -> list[SourceLine]:
        found = []
        for number, wire, at, stop in fields(self._data, start, end):
            if number == 1 and wire == BYTES:
                found.append(self._line(at, stop))
            elif number == 2 and wire == FIXED64:
                found += self._framed(at, stop)
            elif number == 2 and wire == BYTES:
                for place in range(at, stop - 7, 8):
                    found += self._framed(place, place + 8)
        return found

    def _framed(self, start: int, end: int) -> list[SourceLine]:
        span = self._frames.get(int.from_bytes(self._data[start:end], "little"))
        return [] if span is None else [self._line(*span)]

    def _line(self, start: int, end: int) -> SourceLine:
        file, line, code = 0, 0, ""
        for number, wire, at, stop in fields(self._data, start, end):
            if number == 1 and wire == VARINT:
                file = signed(at)
            elif number == 2 and wire == VARINT:
                line = signed(at)
            elif number == 5 and wire == BYTES:
                code = text(self._data, at, stop).strip()
        return SourceLine(self._files[file] if 0 <= file < len(self._files) else "", line, code)

    def _entry(self, start: int, end: int) -> tuple[Span | int, Span | int]:
        """Key and value of a map's entry: a span, or a number where the wire has one."""
        found: dict[int, Span | int] = {1: 0, 2: (start, start)}
        for number, wire, at, stop in fields(self._data, start, end):
            if wire == FIXED64:
                found[number] = int.from_bytes(self._data[at:stop], "little")
            elif wire == BYTES:
                found[number] = (at, stop)
        return found[1], found[2]

    def _add_file(self, start: int, end: int) -> None:
        self._files.append(text(self._data, start, end))

    def _add_frame(self, start: int, end: int) -> None:
        key, value = self._entry(start, end)
        if isinstance(key, int) and isinstance(value, tuple):
            self._frames[key] = value

    def _add_trace(self, start: int, end: int) -> None:
        key, value = self._entry(start, end)
        if isinstance(key, int) and isinstance(value, tuple):
            self._traces[key] = value

    def _add_named(self, start: int, end: int) -> None:
        key, value = self._entry(start, end)
        if isinstance(key, tuple) and isinstance(value, tuple):
            self._named[text(self._data, *key)] = value

    def _add_name(self, start: int, end: int) -> None:
        key, value = self._entry(start, end)
        if isinstance(key, tuple) and isinstance(value, int):
            self._ids[text(self._data, *key)] = value


_TABLES: Final[dict[int, Callable[[DebugInfo, int, int], None]]] = {
    1: DebugInfo._add_file, 2: DebugInfo._add_named, 4: DebugInfo._add_frame, 5: DebugInfo._add_name,
    6: DebugInfo._add_trace,
}  # fmt: skip
