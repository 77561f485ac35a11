"""Facts from an ExportedProgram archive (`torch.export.save`), without torch.

The program is JSON: `models/<name>.json` since torch 2.8, `serialized_exported_program.json` before. `Model.metadata`
holds `range_constraints` (symbol to (least, most), None where open), `mutated` (buffers, parameters and inputs that a
run changes), `constants` (inputs that were fixed at export: name to value), `torch` and `guards`. Nothing stored is
run: weights are located by the archive's own tables, and what is pickled is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.pickles import item_bytes
from tensoraudit.artifacts.torch_export import is_exported_program, program_entry, read_json
from tensoraudit.artifacts.zips import SafeZip
from tensoraudit.errors import InputError
from tensoraudit.extract.exported_graph import GraphFile, read_graph, tensor_type, union
from tensoraudit.extract.user_source import shortener
from tensoraudit.facts import Fact, Model, Node, Side, Site, Tensor, Unknown, Value

_IN_PLACE: Final = re.compile(r"\w+\.[a-z]\w*_(?:\.|$)")
"""`aten.copy_.default`: a name that ends in an underscore."""

_NOT_THE_SCHEMA: Final = (KeyError, TypeError, AttributeError, ValueError, IndexError, StopIteration, RecursionError)
_SAVE: Final = "Save the model again with torch.export.save."
_TABLES: Final = ("data/weights/", "data/constants/")
_NAMES: Final = {
    "parameter": "parameter_name",
    "buffer": "buffer_name",
    "tensor_constant": "tensor_constant_name",
}
_MUTATIONS: Final = {
    "buffer_mutation": "buffer_name",
    "parameter_mutation": "parameter_name",
    "user_input_mutation": "user_input_name",
}


def read_exported_program(path: Path, side: Side = "source", *, root: Path | None = None) -> list[Fact]:
    """Read an ExportedProgram: Model, Tensor, Value and Node facts.

    Paths of the user's source are relative to `root` where they lie inside it. Raises InputError when the file is no
    such archive, or one whose program does not follow the schema.
    """
    archive = SafeZip(map_file(path), str(path))
    if not is_exported_program(archive):
        raise InputError("is no ExportedProgram archive", where=str(path), remedy=_SAVE)
    program = read_json(archive, program_entry(archive))
    try:
        graph, signature = program["graph_module"]["graph"], program["graph_module"]["signature"]
        file = GraphFile(path.as_posix(), side, shortener(root), _roles(signature))
        read_graph(file, graph)
        model = _model(program, file)
        tensors = list(_tensors(archive, signature, graph, file))
    except _NOT_THE_SCHEMA as error:
        message = f"holds a program that does not follow the schema of torch.export ({type(error).__name__}: {error})"
        raise InputError(message, where=str(path), remedy=_SAVE) from error
    return [model, *tensors, *file.facts]


def _specs(signature: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return map(union, signature[key])


def _roles(signature: Mapping[str, Any]) -> dict[str, str]:
    """Return what the placeholders and results of the main graph are for."""
    roles = {}
    for kind, spec in _specs(signature, "output_specs"):
        if kind == "user_output" and "as_tensor" in spec["arg"]:
            roles[_tensor_name(spec["arg"])] = "output"
    for kind, spec in _specs(signature, "input_specs"):
        if kind in _NAMES:
            roles[str(spec["arg"]["name"])] = "initializer"
        elif kind == "user_input" and "as_tensor" in spec["arg"]:
            roles[_tensor_name(spec["arg"])] = "input"
    return roles


def _tensor_name(argument: Mapping[str, Any]) -> str:
    return str((argument.get("as_tensor") or {}).get("name"))


def _model(program: Mapping[str, Any], file: GraphFile) -> Model:
    signature = program["graph_module"]["signature"]
    values = {fact.name: fact for fact in file.facts if isinstance(fact, Value) and fact.graph == "main"}
    schema = program.get("schema_version") or {}
    torch = str(program.get("torch_version") or "")
    outputs = [_tensor_name(spec["arg"]) for kind, spec in _specs(signature, "output_specs") if kind == "user_output"]
    metadata: dict[str, Any] = {
        "range_constraints": {
            symbol: (limits["min_val"], limits["max_val"])
            for symbol, limits in (program.get("range_constraints") or {}).items()
        },
        "mutated": _mutated(signature, file),
        "constants": dict(_fixed_inputs(signature)),
        "guards": list(program.get("guards_code") or ()),
        "torch": torch,
        "schema": f"{schema.get('major')}.{schema.get('minor')}",
    }
    major = schema.get("major")
    return Model(
        "exported_program", f"torch {torch}".strip(), major if isinstance(major, int) else None,
        dict(program.get("opset_version") or {}), tuple(value for value in values.values() if value.role == "input"),
        tuple(values[name] for name in outputs if name in values), metadata, Site(file.path), file.side,
    )  # fmt: skip


def _mutated(signature: Mapping[str, Any], file: GraphFile) -> list[str]:
    """Return what a run changes: as the signature says, or in place where the program was not functionalised."""
    inputs = [(kind, spec) for kind, spec in _specs(signature, "input_specs") if kind in _NAMES]
    held = {str(spec["arg"]["name"]): str(spec[_NAMES[kind]]) for kind, spec in inputs}
    said = [str(spec[_MUTATIONS[kind]]) for kind, spec in _specs(signature, "output_specs") if kind in _MUTATIONS]
    nodes = (fact for fact in file.facts if isinstance(fact, Node) and fact.graph == "main" and fact.inputs)
    written = [held[node.inputs[0]] for node in nodes if node.inputs[0] in held and _IN_PLACE.match(node.op)]
    return list(dict.fromkeys([*said, *written]))


def _fixed_inputs(signature: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for kind, spec in _specs(signature, "input_specs"):
        if kind == "constant_input":
            yield str(spec["name"]), union(spec["value"])[1] if "as_none" not in spec["value"] else None


# weights


def _tensors(
    archive: SafeZip, signature: Mapping[str, Any], graph: Mapping[str, Any], file: GraphFile
) -> Iterator[Tensor]:
    """Yield parameters, buffers and constants under their state_dict names, with their place where that is told."""
    entries = dict(_stored(archive))
    for kind, spec in _specs(signature, "input_specs"):
        key = _NAMES.get(kind)
        if key is None:
            continue
        name = str(spec[key])
        dtype, shape = tensor_type(graph["tensor_values"][spec["arg"]["name"]])
        if isinstance(dtype, Unknown) or not all(isinstance(size, int) for size in shape):
            continue
        sizes = tuple(size for size in shape if isinstance(size, int))
        offset = _offset(archive, entries.get(name, ""))
        site = Site(file.path, tensor=name)
        yield Tensor(name, dtype, sizes, file.path, offset, _bytes(dtype, sizes), "zip", site, file.side)


def _stored(archive: SafeZip) -> Iterator[tuple[str, str]]:
    """Yield the name of each tensor that the archive stores raw, with its entry."""
    for name in archive.names:
        folder = next((folder for folder in _TABLES if name.startswith(folder)), None)
        if folder is None or not name.endswith("_config.json"):
            continue
        table = read_json(archive, name)
        for tensor, payload in (table.get("config") or {}).items():
            if not payload.get("use_pickle"):
                yield str(tensor), f"{folder}{payload['path_name']}"


def _offset(archive: SafeZip, entry: str) -> int | None:
    span = archive.span(entry) if entry in archive else None
    return None if span is None else span[0]


def _bytes(dtype: str, shape: tuple[int, ...]) -> int:
    count = item_bytes(dtype)
    for size in shape:
        count *= size
    return count
