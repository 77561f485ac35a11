"""Facts from a TorchScript archive, without torch: its operators with the user's source lines, its inputs, its weights.

Layout of torch 2.13 (`torch.jit.save`): `code/**.py` holds every class and function, `code/**.py.debug_pkl` their
places in the original source, `constants.pkl` what the code calls `CONSTANTS.c0`, `data.pkl` the module object,
`data/<key>` its tensors. `main` is the `forward` of the module that was saved; every other method and function is a
graph `fn:<dotted name>`. A code file that cannot be read is named in `Model.metadata["unread"]` and the rest is read.
Nothing stored is run.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.pickle_interpreter import interpret
from tensoraudit.artifacts.pickle_nodes import Call, Global, Items, Pairs, Wishes
from tensoraudit.artifacts.pickle_stream import BrokenPickleError, Stream
from tensoraudit.artifacts.pickles import tensor_of
from tensoraudit.artifacts.zips import SafeZip
from tensoraudit.errors import InputError
from tensoraudit.extract.torchscript_graph import FunctionReader, dotted, type_of
from tensoraudit.extract.torchscript_nodes import CodeFile
from tensoraudit.extract.torchscript_source import SourceMap
from tensoraudit.extract.user_source import shortener
from tensoraudit.facts import ABSENT, Fact, Model, Side, Site, Tensor, Unknown, Value

LARGEST_CODE: Final = 8 << 20
"""Bytes of one code file. Ten thousand operators take about 1 MB; a syntax tree takes up to 200 times its source."""

_NOT_TORCHS: Final = (RecursionError, IndexError, ValueError, TypeError, AttributeError)
"""What reading Python raises that has the forms of serialised TorchScript in name only."""

_PICKLE_LIMIT: Final = 256 << 20
_DEEPEST_MODULE: Final = 64
_MOST_TENSORS: Final = 200_000


@dataclass(slots=True)
class _Code:
    """The code files of an archive: parsed, and the names of those that could not be."""

    trees: dict[str, tuple[ast.Module, bytes]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    classes: dict[str, dict[str, str]] = field(default_factory=dict)


def read_torchscript(path: Path, side: Side = "source", *, root: Path | None = None) -> list[Fact]:
    """Read a TorchScript archive: Model, Tensor, Node and Value facts.

    Paths of the user's source are relative to `root` where they lie inside it. Raises InputError when the file is no
    TorchScript archive that can be opened.
    """
    archive = SafeZip(map_file(path), str(path))
    if not any(name.startswith("code/") for name in archive.names):
        raise InputError(
            "holds no TorchScript code", where=str(path), remedy="Save a scripted or traced module with torch.jit.save."
        )
    code = _parse_code(archive)
    saved = _saved_module(archive)
    entry = f"{saved.callee.name}.forward" if saved is not None and isinstance(saved.callee, Global) else ""
    facts, forward = _read_functions(archive, code, _Place(path.as_posix(), side, entry, shortener(root)))
    model = replace(_model(archive, code, saved, forward), at=Site(path.as_posix()), side=side)
    return [model, *_tensors(archive, saved, path, side), *facts]


# code


def _parse_code(archive: SafeZip) -> _Code:
    code = _Code()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about escapes in the code's strings
        for name in archive.names:
            if name.startswith("code/") and name.endswith(".py"):
                try:
                    text = archive.read(name, LARGEST_CODE)
                    tree = ast.parse(text)
                    _note_classes(tree, _module_name(name), code.classes)
                except (InputError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
                    code.unread.append(f"{name}: {error}")
                else:
                    code.trees[name] = (tree, text)
    return code


def _module_name(entry: str) -> str:
    return entry.removeprefix("code/").removesuffix(".py").replace("/", ".")


def _note_classes(tree: ast.Module, module: str, classes: dict[str, dict[str, str]]) -> None:
    """Remember the types of the attributes of every class; the members of an Enum have the type "="."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            classes[f"{module}.{node.name}"] = dict(_attributes(node))


def _attributes(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, dotted(statement.annotation) or ast.unparse(statement.annotation)
        elif isinstance(statement, ast.Assign):
            target = statement.targets[0]
            if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                yield str(target.slice.value), dotted(statement.value) or ""
            elif isinstance(target, ast.Name) and not target.id.startswith("__"):
                yield target.id, "="


def _functions(tree: ast.Module, module: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield every function and method under its dotted name. What an Interface declares has no body."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield f"{module}.{node.name}", node
        elif isinstance(node, ast.ClassDef) and not _is_interface(node):
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    yield f"{module}.{node.name}.{method.name}", method


def _is_interface(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id in ("Interface", "ModuleInterface") for base in node.bases)


@dataclass(slots=True)
class _Forward:
    """What the signature of the saved module's `forward` gives."""

    inputs: tuple[Value, ...] = ()
    outputs: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """What all facts of one archive share. `entry` is the dotted name of the function that is `main`."""

    path: str
    side: Side
    entry: str
    relative: Callable[[str], str]


def _read_functions(archive: SafeZip, code: _Code, place: _Place) -> tuple[list[Fact], _Forward]:
    facts: list[Fact] = []
    forward = _Forward()
    constants = _constants(archive)
    for name, (tree, text) in code.trees.items():
        sources, starts = _source_map(archive, name), _line_starts(text)
        file = CodeFile(
            name, place.path, place.side, sources, starts, text, constants, code.classes, place.relative
        )  # fmt: skip
        for function, node in _functions(tree, _module_name(name)):
            short = function.removeprefix("__torch__.")
            reader = FunctionReader(file, "main" if function == place.entry else f"fn:{short}", short)
            before = len(file.facts)
            try:
                reader.read(node)
            except _NOT_TORCHS as error:
                del file.facts[before:]
                code.unread.append(f"{name}: {short} is not code that torch writes ({type(error).__name__})")
                continue
            if function == place.entry:
                forward = _Forward(tuple(reader.inputs), _outputs(reader, node))
        facts.extend(file.facts)
    return facts, forward


def _source_map(archive: SafeZip, name: str) -> SourceMap:
    try:
        return SourceMap(archive.view(f"{name}.debug_pkl", _PICKLE_LIMIT))
    except InputError:
        return SourceMap(None)


def _constants(archive: SafeZip) -> list[Any]:
    """Return the constants that the code names `CONSTANTS.c0`, `c1`...; tensors and objects among them as Unknown."""
    root = _unpickle(archive, "constants.pkl")
    values = root.values if isinstance(root, Items) else []
    return [value if isinstance(value, str | int | float | None) else Unknown("a constant object") for value in values]


def _line_starts(text: bytes) -> list[int]:
    starts = [0]
    for line in text.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    return starts


def _outputs(reader: FunctionReader, node: ast.FunctionDef) -> tuple[Value, ...]:
    types = _return_types(node.returns, len(reader.outputs))
    model, side = Site(reader.file.model), reader.file.side
    return tuple(
        Value(name, *type_of(written), ABSENT, "output", "main", side, model)
        for name, written in zip(reader.outputs, types, strict=True)
    )


def _return_types(node: ast.expr | None, count: int) -> list[str]:
    if count == 1:
        return [ast.unparse(node) if node is not None else ""]
    parts = node.slice.elts if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) else []
    return [ast.unparse(part) for part in parts] if len(parts) == count else [""] * count


# the module object


def _saved_module(archive: SafeZip) -> Call | None:
    root = _unpickle(archive, "data.pkl")
    return root if isinstance(root, Call) else None


def _unpickle(archive: SafeZip, name: str) -> Any:
    try:
        return interpret(Stream(archive.view(name, _PICKLE_LIMIT)), Wishes())
    except (BrokenPickleError, InputError):
        return None


def _state(node: Call) -> dict[str, Any]:
    pairs = node.state.pairs if isinstance(node.state, Pairs) else []
    return {key: value for key, value in pairs if isinstance(key, str)}


def _model(archive: SafeZip, code: _Code, saved: Call | None, forward: _Forward) -> Model:
    training = _state(saved).get("training") if saved is not None else None
    metadata: dict[str, Any] = {
        "class": saved.callee.name if saved is not None and isinstance(saved.callee, Global) else None,
        "training": training if isinstance(training, bool) else Unknown("the module does not say"),
        "traced": "traced_inputs.pkl" in archive,
        "code": sorted(code.trees),
        "unread": sorted(code.unread),
    }
    version = _version(archive)
    return Model("torchscript", "torch.jit", version, {}, forward.inputs, forward.outputs, metadata, Site(), "source")


def _version(archive: SafeZip) -> int | None:
    """Return the version of the file format: torch writes it at one of two places, by its number."""
    name = next((name for name in ("version", ".data/version") if name in archive), None)
    try:
        text = archive.read(name, 100).strip() if name is not None else b""
    except InputError:
        return None
    return int(text) if text.isdigit() else None


def _tensors(archive: SafeZip, saved: Call | None, path: Path, side: Side) -> Iterator[Tensor]:
    """Yield the tensors that the module and its submodules hold, under their state_dict names."""
    waiting: list[tuple[str, Call, int]] = [("", saved, 0)] if saved is not None else []
    seen: set[int] = set()
    count = 0
    while waiting and count < _MOST_TENSORS:
        prefix, module, depth = waiting.pop()
        if id(module) in seen or depth > _DEEPEST_MODULE:
            continue
        seen.add(id(module))
        inner = []
        for key, value in _state(module).items():
            stored = tensor_of(value, f"{prefix}{key}")
            if stored is not None:
                count += 1
                yield _tensor(archive, stored, path, side)
            elif isinstance(value, Call) and isinstance(value.state, Pairs):
                inner.append((f"{prefix}{key}.", value, depth + 1))
        waiting.extend(reversed(inner))


def _tensor(archive: SafeZip, stored: Any, path: Path, side: Side) -> Tensor:
    entry = f"data/{stored.storage}"
    span = archive.span(entry) if entry in archive else None
    offset = None if span is None else span[0] + stored.offset * stored.item_bytes
    file = path.as_posix()
    return Tensor(
        stored.name, stored.dtype, stored.shape, file, offset, stored.numel * stored.item_bytes, "zip",
        replace(Site(file), tensor=stored.name), side,
    )  # fmt: skip
