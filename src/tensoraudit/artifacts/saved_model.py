"""SavedModel folders, from `saved_model.pb` alone: signatures, operators, versions. Variables are never read.

Field numbers are those of saved_model.proto, meta_graph.proto, graph.proto, function.proto and node_def.proto
(TensorFlow 2.21). Everything is bounded by the file: messages are walked in place, at a fixed depth.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.protobuf import BYTES, VARINT, Buffer, WireError, fields, signed, text
from tensoraudit.errors import InputError

PROTO: Final = "saved_model.pb"
_EXPORT: Final = "Export the model again, or copy the whole folder again."
_MAX_RANK: Final = 64
_MAX_SIGNATURES: Final = 1_000

DTYPES: Final = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string", 8: "complex64", 9: "int64",
    10: "bool", 14: "bfloat16", 17: "uint16", 18: "complex128", 19: "float16", 20: "resource", 22: "uint32",
    23: "uint64",
}  # fmt: skip
"""TensorFlow's DataType by number (types.proto)."""

_FILE_OPS: Final = frozenset((
    *("ReadFile", "WriteFile", "MatchingFiles", "DecodeCSVFile", "PyFunc", "PyFuncStateless", "EagerPyFunc"),
    *("CreateSummaryFileWriter", "CreateSummaryDbWriter", "FileSystemSetConfiguration", "LoadDataset", "SaveDataset"),
    *("TextLineDataset", "TFRecordDataset", "TFRecordDatasetV2", "FixedLengthRecordDataset", "LMDBDataset"),
    *("FixedLengthRecordDatasetV2", "SqlDataset", "CSVDataset", "CSVDatasetV2", "SaveDatasetV2", "LoadDatasetV2"),
    *("CacheDataset", "CacheDatasetV2", "SnapshotDataset", "SnapshotDatasetV2", "WholeFileReader", "TextLineReader"),
    *("WholeFileReaderV2", "TextLineReaderV2", "TFRecordReader", "TFRecordReaderV2", "FixedLengthRecordReader"),
    *("FixedLengthRecordReaderV2", "IdentityReader", "IdentityReaderV2", "RpcServerStart", "DistributedSave"),
    *("DebugIdentity", "DebugIdentityV2", "DebugIdentityV3", "ImmutableConst", "CheckpointHasKey"),
    *("DebugNumericSummary", "DebugNanCount", "DumpTensor", "LoadAndRemapMatrix", "GenerateVocabRemapping", "Skipgram"),
    *("RecordInput", "LMDBReader", "MatchingFilesDataset", "DatasetToTFRecord", "DTensorRestoreV2", "WriteSummary"),
    *("ExperimentalMatchingFilesDataset", "ExperimentalDatasetToTFRecord", "ExperimentalLMDBDataset", "RpcClient"),
    *("ExperimentalSqlDataset", "ExperimentalCSVDataset", "ListSnapshotChunksDataset", "SnapshotDatasetReader"),
    *("SnapshotChunkDataset", "SnapshotNestedDatasetReader", "CalibrationStatisticsSaver", "RpcServer"),
    *("SummaryWriter",),
    *("FixedUnigramCandidateSampler", "DecodeProtoV2", "EncodeProto", "RegisterDataset", "RegisterDatasetV2"),
    *("DataServiceDataset", "DataServiceDatasetV2", "DataServiceDatasetV3", "DataServiceDatasetV4"),
))  # fmt: skip
"""Operators that open files or sockets, or call Python."""
_CHECKPOINT_OPS: Final = frozenset(
    ("SaveV2", "Save", "SaveSlices", "RestoreV2", "Restore", "RestoreSlice", "MergeV2Checkpoints")
)
"""What every SavedModel needs to read its own variables: harmless in the functions and scopes made for that."""
_SAVERS: Final = re.compile(r"^(?:__inference__traced_(?:save|restore)|save(?:_\d+)?/)|/(?:save|restore)(?:_\d+)?/")
_FROM_FILE: Final = frozenset(("InitializeTableFromTextFile", "InitializeTableFromTextFileV2"))
_PRINT: Final = frozenset(("PrintV2",))


@dataclass(slots=True)
class SavedModel:
    """What a SavedModel declares. `signatures` maps a name to {"inputs", "outputs"}, each name -> (dtype, shape or
    None). `operators` counts the graph's and its functions' operators; `unsafe` are those that use files."""

    version: str = ""
    tags: list[str] = field(default_factory=list)
    signatures: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    operators: Counter[str] = field(default_factory=Counter)
    unsafe: set[str] = field(default_factory=set)
    assets: int = 0
    object_graph: bool = False


def read_saved_model(folder: Path) -> SavedModel:
    """Read a SavedModel's own description. Raises InputError for what is damaged, empty or no SavedModel."""
    path = folder / PROTO
    view = map_file(path)
    try:
        model = _read(view)
    except WireError as error:
        raise InputError(f"is a damaged or truncated SavedModel ({error})", where=str(path), remedy=_EXPORT) from error
    if model is None:
        raise InputError("is no SavedModel: it holds no graph", where=str(path), remedy=_EXPORT)
    return model


def details_of(model: SavedModel) -> dict[str, Any]:
    """Return the description as plain JSON."""
    return {
        "tensorflow_version": model.version,
        "tags": list(model.tags),
        "signatures": model.signatures,
        "nodes": model.operators.total(),
        "operators": dict(model.operators.most_common(200)),
        "object_graph": model.object_graph,
    }


def _read(data: Buffer) -> SavedModel | None:
    found: SavedModel | None = None
    unsafe: set[str] = set()
    for number, wire, start, end in fields(data, 0, len(data)):
        if (number, wire) not in {(1, VARINT), (2, BYTES)}:
            raise WireError(f"field {number} of wire type {wire} is none of a SavedModel")
        if number == 2:
            graph = _meta_graph(data, start, end)
            unsafe |= graph.unsafe
            found = graph if found is None or ("serve" in graph.tags and "serve" not in found.tags) else found
    if found is not None:
        found.unsafe = unsafe  # whichever of the graphs is loaded
    return found


def _meta_graph(data: Buffer, start: int, end: int) -> SavedModel:
    model = SavedModel()
    graphs = []
    for number, wire, at, stop in fields(data, start, end):
        if wire != BYTES:
            continue
        if number == 1:
            _meta_info(data, at, stop, model)
        elif number == 2:
            graphs.append((at, stop))
        elif number == 5 and len(model.signatures) < _MAX_SIGNATURES:
            key, inner = _entry(data, at, stop)
            model.signatures[key] = _signature(data, *inner)
        elif number == 6:
            model.assets += 1
        elif number == 7:
            model.object_graph = True
    for at, stop in graphs:  # after the assets, which say whether a table may read a file
        _graph(data, at, stop, model)
    return model


def _meta_info(data: Buffer, start: int, end: int, model: SavedModel) -> None:
    for number, wire, at, stop in fields(data, start, end):
        if number == 4 and wire == BYTES:
            model.tags.append(text(data, at, stop))
        elif number == 5 and wire == BYTES:
            model.version = text(data, at, stop)


def _entry(data: Buffer, start: int, end: int) -> tuple[str, tuple[int, int]]:
    """An entry of a map from strings to messages."""
    key, value = "", (start, start)
    for number, wire, at, stop in fields(data, start, end):
        if number == 1 and wire == BYTES:
            key = text(data, at, stop)
        elif number == 2 and wire == BYTES:
            value = (at, stop)
    return key, value


def _signature(data: Buffer, start: int, end: int) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {"inputs": {}, "outputs": {}}
    for number, wire, at, stop in fields(data, start, end):
        if number in (1, 2) and wire == BYTES:
            key, span = _entry(data, at, stop)
            found["inputs" if number == 1 else "outputs"][key] = _tensor_info(data, *span)
    return found


def _tensor_info(data: Buffer, start: int, end: int) -> tuple[str, list[int | None] | None]:
    dtype, shape = 0, None
    for number, wire, at, stop in fields(data, start, end):
        if number == 2 and wire == VARINT:
            dtype = at
        elif number == 3 and wire == BYTES:
            shape = _shape(data, at, stop)
    return DTYPES.get(dtype, f"type {dtype}"), shape


def _shape(data: Buffer, start: int, end: int) -> list[int | None] | None:
    dims: list[int | None] = []
    for number, wire, at, stop in fields(data, start, end):
        if number == 3 and wire == VARINT and at:
            return None
        if number == 2 and wire == BYTES and len(dims) < _MAX_RANK:
            size = next((signed(value) for n, w, value, _ in fields(data, at, stop) if n == 1 and w == VARINT), 0)
            dims.append(None if size < 0 else size)
    return dims


def _graph(data: Buffer, start: int, end: int, model: SavedModel) -> None:
    for number, wire, at, stop in fields(data, start, end):
        if number == 1 and wire == BYTES:
            _node(data, at, stop, "", model)
        elif number == 2 and wire == BYTES:
            for inner, kind, first, last in fields(data, at, stop):
                if inner == 1 and kind == BYTES:
                    _function(data, first, last, model)


def _function(data: Buffer, start: int, end: int, model: SavedModel) -> None:
    nodes: list[tuple[int, int]] = []
    name = ""
    for number, wire, at, stop in fields(data, start, end):
        if number == 1 and wire == BYTES:
            names = [text(data, a, s) for n, w, a, s in fields(data, at, stop) if n == 1 and w == BYTES]
            name = names[-1] if names else name
        elif number == 3 and wire == BYTES:
            nodes.append((at, stop))
    for at, stop in nodes:
        _node(data, at, stop, name, model)


def _node(data: Buffer, start: int, end: int, function: str, model: SavedModel) -> None:
    name, operator = _named(data, start, end)
    model.operators[operator] += 1
    checkpoint = operator in _CHECKPOINT_OPS and not _SAVERS.search(function or name)
    table = operator in _FROM_FILE and not model.assets
    printing = operator in _PRINT and b"file:" in bytes(data[start:end])
    if operator in _FILE_OPS or checkpoint or table or printing:
        model.unsafe.add(operator)


def _named(data: Buffer, start: int, end: int) -> tuple[str, str]:
    """A node's name and operator. A field that is there twice counts the last time, as protobuf reads it."""
    name = operator = ""
    for number, wire, at, stop in fields(data, start, end):
        if number == 1 and wire == BYTES:
            name = text(data, at, stop)
        elif number == 2 and wire == BYTES:
            operator = text(data, at, stop)
    return name, operator
