"""Facts from a Keras configuration: the layers of a `.keras` file, of an HDF5 file or of a SavedModel's metadata.

1. A layer is a Node of the domain "keras": `op` is its class, `name` its own, `attributes` its configuration. What is a
   configured object there (an initializer, a policy) stands by its name. A class that is not Keras's own has its
   module and registered name in `metadata`.
2. A layer that is called twice is two nodes, `dense` and `dense#1`; its outputs are `dense:0`, `dense#1:0`.
3. A model inside a model is a graph of its own, `main/inner.layers`, and so is a layer inside a wrapper,
   `main/bidirectional.layer`; the attribute holds the graph's name.
4. A model whose class is the user's has no configuration of its inside: it is one node.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.hdf5 import Hdf5Error, root_attribute
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.protobuf import BYTES, WireError, fields, text
from tensoraudit.artifacts.zips import SafeZip
from tensoraudit.errors import InputError
from tensoraudit.extract.keras_wiring import (
    UNTYPED,
    Call,
    Tensor,
    Typed,
    Wiring,
    layer_name,
    read_wiring,
    references,
    sequential_wiring,
    shape_of,
    value_name,
)
from tensoraudit.facts import ABSENT, Fact, Model, Node, Side, Site, Value

DOMAIN: Final = "keras"
METADATA: Final = "keras_metadata.pb"
"""Beside `saved_model.pb`, from TensorFlow 2.5 to 2.15."""

_MAX_CONFIG: Final = 64 << 20
_MAX_DEPTH: Final = 32
_INNER: Final = ("layer", "cell", "backward_layer")
"""Keys of a configuration that hold another layer."""
_OWN: Final = ("keras.", "tensorflow.keras.", "tf_keras.")
_SAVE: Final = "Save the model again with model.save('model.keras')."


def read_keras_layers(path: Path, side: Side = "source") -> list[Fact]:
    """Read a `.keras` archive: Model, Node and Value facts. Raises InputError for damage."""
    archive = SafeZip(map_file(path), str(path))
    config = _json(bytes(archive.read("config.json", _MAX_CONFIG)), str(path))
    version = _json(bytes(archive.read("metadata.json", _MAX_CONFIG)), str(path)).get("keras_version", "")
    return read_config(config, path.as_posix(), "keras", f"keras {version}".strip(), side)


def read_keras_h5_layers(path: Path, side: Side = "source") -> list[Fact]:
    """Read the configuration in an HDF5 file, as `read_keras_layers`.

    Returns no facts where the file keeps none, or keeps it in a way that only HDF5's library reads. Raises InputError
    for a configuration that is no JSON.
    """
    view = map_file(path)
    try:
        text, version = (root_attribute(view, name) for name in ("model_config", "keras_version"))
    except Hdf5Error:
        return []
    if text is None:
        return []
    producer = f"keras {(version or b'').decode('utf-8', 'replace')[:100]}".strip()
    return read_config(_json(text, str(path)), path.as_posix(), "keras", producer, side)


def read_saved_model_layers(folder: Path, side: Side = "source") -> list[Fact]:
    """Read the layers that a SavedModel's Keras metadata names: Node and Value facts, none without metadata.

    Raises InputError for damage.
    """
    path = folder / METADATA
    if not path.is_file() or not path.stat().st_size:
        return []
    try:
        config = _root(map_file(path), str(path))
    except WireError as error:
        raise InputError(f"is damaged ({error})", where=str(path), remedy=_SAVE) from error
    facts = read_config(config, path.as_posix(), "keras", "", side) if config else []
    return [fact for fact in facts if not isinstance(fact, Model)]


def _json(raw: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InputError(f"has a configuration that is no JSON ({error})", where=where, remedy=_SAVE) from error
    if not isinstance(value, dict):
        raise InputError("has a configuration that is no JSON object", where=where, remedy=_SAVE)
    return value


def _root(data: memoryview, where: str) -> dict[str, Any]:
    """The configuration of the object at the root (SavedMetadata of saved_metadata.proto)."""
    for number, wire, start, end in fields(data, 0, len(data)):
        if number == 1 and wire == BYTES:
            texts = {n: (at, stop) for n, w, at, stop in fields(data, start, end) if w == BYTES}
            if 3 in texts and 4 in texts and text(data, *texts[3]) == "root":
                return _json(bytes(data[texts[4][0] : texts[4][1]]), where)
    return {}


def read_config(config: Mapping[str, Any], path: str, format_: str, producer: str, side: Side) -> list[Fact]:
    """Return the facts of a configuration as `model.to_json()` gives it: Model first."""
    reader = _Reader(path, side)
    reader.read_model(config, "main", 0)
    values = [fact for fact in reader.facts if isinstance(fact, Value) and fact.graph == "main"]
    inputs = tuple(each for each in values if each.role == "input")
    outputs = tuple(each for each in values if each.role == "output")
    metadata = {"class": _class(config), "name": layer_name(config)}
    model = Model(format_, producer, None, {}, inputs, outputs, metadata, Site(path=path), side)
    return [model, *reader.facts]


@dataclass(slots=True)
class _Reader:
    """The facts of one file while its models are read."""

    path: str
    side: Side
    facts: list[Fact] = field(default_factory=list)

    def read_model(self, config: Mapping[str, Any], graph: str, depth: int) -> None:
        """Emit the layers of a model, or the one layer that it is."""
        inner = _mapping(config.get("config"))
        layers = inner.get("layers")
        if not isinstance(layers, list):
            self._emit(Call(config, 0, ()), Wiring([], {}, {}), frozenset({(layer_name(config), 0, 0)}), graph, depth)
            return
        functional = any(isinstance(layer, Mapping) and "inbound_nodes" in layer for layer in layers)
        ends = inner.get("output_layers")
        wiring = read_wiring(layers, ends) if functional else sequential_wiring(layers)
        last = {(layer_name(call.layer), 0, 0) for call in wiring.calls[-1:]}
        outputs = frozenset(references(ends) if functional else last)
        for call in wiring.calls:
            self._emit(call, wiring, outputs, graph, depth)

    def _emit(self, call: Call, wiring: Wiring, outputs: frozenset[Tensor], graph: str, depth: int) -> None:
        name, is_input = layer_name(call.layer), _class(call.layer) == "InputLayer"
        label = f"{name}#{call.number}" if call.number else name
        made = wiring.outputs(name, call.number)
        inner = _mapping(call.layer.get("config"))
        self.facts.append(
            Node(
                _class(call.layer), DOMAIN, None, label, self._attributes(inner, f"{graph}/{name}", depth, call.number),
                tuple(map(value_name, call.inputs)), tuple(map(value_name, made)), graph,
                Site(path=self.path, node=label), self.side, "", _foreign(call.layer),
            )
        )  # fmt: skip
        for tensor in made:
            role: Any = "input" if is_input else "output" if tensor in outputs else "intermediate"
            typed = wiring.types.get(tensor) or (_declared(inner) if is_input else UNTYPED)
            site = Site(path=self.path)
            self.facts.append(Value(value_name(tensor), *typed, ABSENT, role, graph, self.side, site))

    def _attributes(self, config: Mapping[str, Any], place: str, depth: int, number: int) -> dict[str, Any]:
        """The configuration of a layer. What is inside it is read at its first call: it is the same at all others."""
        found: dict[str, Any] = {}
        for key, value in config.items():
            layers = key == "layers" and isinstance(value, list)
            if depth < _MAX_DEPTH and (layers or (key in _INNER and _class(_mapping(value)))):
                found[str(key)] = f"{place}.{key}"
                if not number:
                    inner = config if layers else {"layers": [value]}
                    self.read_model({"config": inner}, f"{place}.{key}", depth + 1)
            elif key != "name":
                found[str(key)] = _plain(value)
        return found


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _class(layer: Mapping[str, Any]) -> str:
    return str(layer.get("class_name") or "")


def _declared(inner: Mapping[str, Any]) -> Typed:
    """What an input layer says of itself."""
    dtype = _plain(inner.get("dtype"))
    shape = shape_of(inner.get("batch_shape") or inner.get("batch_input_shape"))
    return (dtype if isinstance(dtype, str) else UNTYPED[0]), shape


def _foreign(layer: Mapping[str, Any]) -> dict[str, str] | None:
    """Where a class comes from that is not Keras's own."""
    module, registered = layer.get("module"), layer.get("registered_name")
    own = isinstance(module, str) and f"{module}.".startswith(_OWN)
    named = isinstance(registered, str) and registered not in ("", _class(layer))
    if own or (module is None and not named):
        return None
    return {key: str(value) for key, value in (("module", module), ("registered_name", registered)) if value}


def _plain(value: Any, depth: int = 0) -> Any:
    """A value of a configuration as plain data: an object with a name of its own by that name, another by its class,
    lists as tuples."""
    if isinstance(value, Mapping):
        inner = value.get("config")
        if isinstance(value.get("class_name"), str):
            named = inner.get("name") if isinstance(inner, Mapping) else inner if isinstance(inner, str) else None
            return named if isinstance(named, str) else value["class_name"]
        return dict(_entries(value, depth))
    if isinstance(value, list):
        return tuple(_plain(each, depth + 1) for each in value) if depth < _MAX_DEPTH else ()
    return value


def _entries(value: Mapping[str, Any], depth: int) -> Iterator[tuple[str, Any]]:
    for key, each in value.items() if depth < _MAX_DEPTH else ():
        yield str(key), _plain(each, depth + 1)
