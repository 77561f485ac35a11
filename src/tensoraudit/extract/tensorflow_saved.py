"""Facts from a SavedModel folder or a bare GraphDef file: the model with its signature, then its graphs.

`Model.metadata` is plain data: `signature` (the one that gives inputs and outputs: what servers call, else the first by
name), `signatures` (all names), `functions` (graphs that a signature reaches), `unreached` (functions that none does),
`missing` (functions that are called and not there), `tags`, and `debug` (whether source lines are in the file).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.protobuf import BYTES, VARINT, WireError, fields, text
from tensoraudit.artifacts.saved_model import PROTO
from tensoraudit.collection import without_collection
from tensoraudit.errors import InputError
from tensoraudit.extract.tensorflow_debug import DebugInfo
from tensoraudit.extract.tensorflow_graph import GraphFacts, Reached, read_graph
from tensoraudit.extract.tensorflow_nodes import Source, Span
from tensoraudit.extract.tensorflow_values import dtype_name, read_shape
from tensoraudit.extract.user_source import SourceLine, shortener
from tensoraudit.facts import ABSENT, Dim, Fact, Model, Side, Site, Unknown, Value

_EXPORT: Final = "Export the model again, or copy the whole folder again."
_DEBUG: Final = "debug/saved_model_debug_info.pb"
_INIT: Final = "__saved_model_init_op"
_PREFERRED: Final = ("serving_default", "serve")
_LISTED: Final = 1_000


@dataclass(slots=True)
class _Ends:
    """Inputs and outputs of a signature: name to (value in the graph, dtype, shape)."""

    inputs: dict[str, tuple[str, str | Unknown, tuple[Dim, ...] | Unknown]] = field(default_factory=dict)
    outputs: dict[str, tuple[str, str | Unknown, tuple[Dim, ...] | Unknown]] = field(default_factory=dict)


@dataclass(slots=True)
class _Meta:
    """One MetaGraphDef."""

    version: str = ""
    tags: list[str] = field(default_factory=list)
    graph: Span | None = None
    signatures: dict[str, _Ends] = field(default_factory=dict)


def read_saved_model_graph(folder: Path, side: Side = "source", *, root: Path | None = None) -> list[Fact]:
    """Read a SavedModel: Model, Value and Node facts; of its graphs the one that is served.

    Paths of the user's source are relative to `root` where they lie inside it. Raises InputError for what is damaged or
    no SavedModel.
    """
    path = folder / PROTO
    source = Source(map_file(path))
    try:
        meta = _chosen(source)
        if meta is None or meta.graph is None:
            raise InputError("is no SavedModel: it holds no graph", where=str(path), remedy=_EXPORT)
        return _facts(source, meta.graph, meta, _File("saved_model", path, side, root, folder / _DEBUG))
    except WireError as error:
        raise InputError(f"is a damaged or truncated SavedModel ({error})", where=str(path), remedy=_EXPORT) from error


def read_graph_def(path: Path, side: Side = "source", *, root: Path | None = None) -> list[Fact]:
    """Read a file that holds a bare GraphDef (a frozen graph). Raises InputError."""
    source = Source(map_file(path))
    try:
        return _facts(source, (0, len(source.data)), _Meta(), _File("graph_def", path, side, root, None))
    except WireError as error:
        raise InputError(f"is a damaged or truncated GraphDef ({error})", where=str(path), remedy=_EXPORT) from error


@dataclass(frozen=True, slots=True)
class _File:
    format: str
    path: Path
    side: Side
    root: Path | None
    debug: Path | None


def _facts(source: Source, graph: Span, meta: _Meta, file: _File) -> list[Fact]:
    line_of = _debug_lines(file.debug)
    relative = shortener(file.root)
    reader = GraphFacts(source, file.path.as_posix(), file.side, line_of or (lambda node, function: None), relative)
    wanted = [end[0] for ends in meta.signatures.values() for end in (*ends.outputs.values(), *ends.inputs.values())]
    with without_collection():
        reached = read_graph(reader, graph, dict.fromkeys(wanted))
    return [_model(source, graph, meta, reached, file, lines=line_of is not None), *reader.facts]


def _model(source: Source, graph: Span, meta: _Meta, reached: Reached, file: _File, *, lines: bool) -> Model:
    name = next((each for each in (*_PREFERRED, *sorted(meta.signatures)) if each in meta.signatures), "")
    ends = meta.signatures.get(name, _Ends())
    site = Site(path=file.path.as_posix())

    def values(part: dict[str, Any], role: Any) -> tuple[Value, ...]:
        return tuple(Value(key, each[1], each[2], ABSENT, role, "main", file.side, site) for key, each in part.items())

    metadata: dict[str, Any] = {
        "signature": name,
        "signatures": sorted(meta.signatures),
        "functions": [f"fn:{each}" for each in reached.functions][:_LISTED],
        "unreached": reached.unreached[:_LISTED],
        "missing": sorted(reached.missing)[:_LISTED],
        "tags": list(meta.tags),
        "debug": lines,
    }
    inputs, outputs = values(ends.inputs, "input"), values(ends.outputs, "output")
    producer = f"tensorflow {meta.version}".strip()
    return Model(file.format, producer, _producer(source, graph), {}, inputs, outputs, metadata, site, file.side)


def _producer(source: Source, graph: Span) -> int | None:
    """The GraphDef's own version."""
    for number, wire, at, stop in fields(source.data, *graph):
        if number == 4 and wire == BYTES:
            return next((value for n, w, value, _ in fields(source.data, at, stop) if n == 1 and w == VARINT), None)
    return None


def _debug_lines(path: Path | None) -> Callable[[str, str], SourceLine | None] | None:
    """What tells source lines; None without the file. A damaged one tells nothing, and the model is the same."""
    if path is None or not path.is_file() or not path.stat().st_size:
        return None
    try:
        info = DebugInfo(map_file(path))
    except (WireError, InputError):
        return None

    def line_of(node: str, function: str) -> SourceLine | None:
        try:
            return info.line_of(node, function)
        except WireError:
            return None

    return line_of


# The SavedModel around the graph


def _chosen(source: Source) -> _Meta | None:
    """The graph that is tagged for serving, else the first."""
    found: _Meta | None = None
    for number, wire, start, end in fields(source.data, 0, len(source.data)):
        if number == 2 and wire == BYTES:
            meta = _meta(source, start, end)
            found = meta if found is None or ("serve" in meta.tags and "serve" not in found.tags) else found
    return found


def _meta(source: Source, start: int, end: int) -> _Meta:
    meta = _Meta()
    for number, wire, at, stop in fields(source.data, start, end):
        if wire != BYTES:
            continue
        if number == 1:
            texts = [(n, text(source.data, a, s)) for n, w, a, s in fields(source.data, at, stop) if w == BYTES]
            meta.tags = [value for n, value in texts if n == 4]
            meta.version = next((value for n, value in texts if n == 5), "")
        elif number == 2:
            meta.graph = (at, stop)
        elif number == 5 and len(meta.signatures) < _LISTED:
            key, inner = _entry(source, at, stop)
            if key != _INIT:
                meta.signatures[key] = _ends(source, *inner)
    return meta


def _entry(source: Source, start: int, end: int) -> tuple[str, Span]:
    key, value = "", (start, start)
    for number, wire, at, stop in fields(source.data, start, end):
        if number == 1 and wire == BYTES:
            key = source.string(at, stop)
        elif number == 2 and wire == BYTES:
            value = (at, stop)
    return key, value


def _ends(source: Source, start: int, end: int) -> _Ends:
    ends = _Ends()
    for number, wire, at, stop in fields(source.data, start, end):
        if number in (1, 2) and wire == BYTES:
            key, span = _entry(source, at, stop)
            info = _tensor_info(source, *span)
            if info[0]:
                (ends.inputs if number == 1 else ends.outputs)[key] = info
    return ends


def _tensor_info(source: Source, start: int, end: int) -> tuple[str, str | Unknown, tuple[Dim, ...] | Unknown]:
    name, dtype = "", dtype_name(0)
    shape: tuple[Dim, ...] | Unknown = Unknown("not declared in the file")
    for number, wire, at, stop in fields(source.data, start, end):
        if number == 1 and wire == BYTES:
            name = source.string(at, stop)
        elif number == 2 and wire == VARINT:
            dtype = dtype_name(at)
        elif number == 3 and wire == BYTES:
            shape = read_shape(source.data, at, stop)
    return name, dtype, shape
