"""Weights that Keras stores in HDF5: `.weights.h5`, the older `.h5`, and `.keras` archives."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.hdf5_tree import Hdf5Tree
from tensoraudit.artifacts.keras_config import stored_code
from tensoraudit.artifacts.keras_files import HDF5, is_keras
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.zips import SafeZip
from tensoraudit.checkpoints.keras_file import (
    SAVE_AGAIN,
    about_tree,
    inner_optimizer_name,
    optimizer_name,
    scalars_in,
    tree_of,
)
from tensoraudit.checkpoints.keras_training import sorted_out
from tensoraudit.checkpoints.keras_tree import Home, entries, faults, layout_of
from tensoraudit.checkpoints.schema import Observation, StoredCheckpoint
from tensoraudit.errors import InputError

_ZIP: Final = b"PK\x03\x04"
_MOST_CONFIG: Final = 64 << 20
_MOST_PACKED: Final = 256 << 20
"""Of a deflated file of weights, which must be inflated to be read; Keras stores it as it is."""
_MOST_LISTED: Final = 1_000
_WORDS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])")


def recognises(path: Path) -> bool:
    """Whether a file is HDF5 or a `.keras` archive. Never raises."""
    try:
        view = map_file(path)
        if bytes(view[:4]) == _ZIP:
            return is_keras(SafeZip(view, str(path)))
    except InputError:
        return False
    return bytes(view[:8]) == HDF5


def read(path: Path) -> StoredCheckpoint:
    """Read the structure of a file of weights. Raises InputError for damage."""
    view = map_file(path)
    if bytes(view[:4]) == _ZIP:
        return _archive(path, SafeZip(view, str(path)))
    return _file(path, view)


def _file(path: Path, view: memoryview) -> StoredCheckpoint:
    tree = tree_of(view, str(path))
    root = tree.attributes.get("", {})
    config = _json("".join(root.get("model_config", [])[:1]))
    versions = [*root.get("keras_version", []), *tree.attributes.get("model_weights", {}).get("keras_version", [])]
    return _stored(path, tree, Home(path.name), config, "".join(versions[:1]))


def _archive(path: Path, archive: SafeZip) -> StoredCheckpoint:
    name = next(name for name in archive.names if name.startswith(("model.weights.", "model_weights")))
    span = archive.span(name)
    view = archive.view(name, _MOST_PACKED)
    if bytes(view[:8]) != HDF5:
        raise InputError(f"holds its weights as {name!r}, which is no HDF5 file", where=str(path), remedy=SAVE_AGAIN)
    home = Home(path.name, span[0], "") if span else Home(path.name, 0, "zip")
    config, about = (_json_of(archive, each) for each in ("config.json", "metadata.json"))
    tree = tree_of(view, f"{path}/{name}")
    stored = _stored(path, tree, home, config, str(about.get("keras_version", "")))
    return replace(stored, format="keras")


def _stored(path: Path, tree: Hdf5Tree, home: Home, config: Any, version: str) -> StoredCheckpoint:
    """The checkpoint of one tree."""
    layout = layout_of(tree)
    layers = list(layers_of(config))
    here = tuple(entries(tree, home, dict(layers)))
    found, training = sorted_out(here, optimizer_name(tree), scalars_in(path.parent), inner_optimizer_name(tree))
    code = tuple(stored_code(config))
    observations = list(faults(tree, home.file))
    if not found:
        observations.append(Observation("no_tensors", "checkpoint", 0, "The file holds no weights.", home.file))
    return StoredCheckpoint(
        path=path,
        root=path.parent,
        format=layout,
        framework="numpy" if layout == "hdf5" else "tensorflow",
        files=(home.file,),
        entries=found,
        training=training,
        writer=f"Keras {version}".strip() if layout != "hdf5" else "",
        imports=code,
        all_imports=code,
        metadata={**about_tree(tree), "config_layers": [list(each) for each in layers[:_MOST_LISTED]]},
        observations=tuple(observations),
    )


def layers_of(config: Any) -> Iterator[tuple[str, str]]:
    """Yield (name, snake-case class) of each layer of a configuration, in its order, those of inner models too."""
    waiting = [config]
    while waiting:
        item = waiting.pop()
        inner = item.get("config") if isinstance(item, Mapping) else None
        if not isinstance(inner, Mapping):
            continue
        name, kind = inner.get("name"), item.get("class_name")
        if isinstance(name, str) and isinstance(kind, str):
            yield name, _WORDS.sub("_", kind).lower()
        layers = inner.get("layers")
        waiting.extend(reversed(layers) if isinstance(layers, list) else ())
        waiting.append(inner.get("layer"))  # of a wrapper, such as Bidirectional


def _json_of(archive: SafeZip, name: str) -> Any:
    return _json(archive.read(name, _MOST_CONFIG)) or {}


def _json(text: str | bytes) -> Any:
    """The object that a text holds, {} for anything else: weights are read without a configuration too."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
