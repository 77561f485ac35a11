"""Keras models on disk: `.keras` archives, and the header of HDF5 files.

An archive holds `config.json`, `metadata.json` and the weights. What its configuration would run is read here, before
any worker sees the file; the configuration of an HDF5 file lies in structures that only its library reads, so the
worker looks before it loads.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tensoraudit.artifacts.keras_config import stored_code
from tensoraudit.artifacts.zips import SafeZip
from tensoraudit.errors import InputError

HDF5: Final = b"\x89HDF\r\n\x1a\n"
_SAVE: Final = "Save the model again with model.save('model.keras')."
_AGAIN: Final = "Copy or download the file again."
_MAX_CONFIG: Final = 64 << 20
_MAX_NODES: Final = 100
_SUPERBLOCK: Final = {0: (24, 24), 1: (28, 28), 2: (12, 12), 3: (12, 12)}
"""Where the base address stands for each version of the superblock, in bytes; the end of the file is two addresses on
(three from version 2 on have the extension's address between)."""


def is_keras(archive: SafeZip) -> bool:
    """Whether a zip is what `model.save('x.keras')` writes."""
    weights = any(name.startswith(("model.weights.", "model_weights")) for name in archive.names)
    return "config.json" in archive and "metadata.json" in archive and weights


def read_keras(archive: SafeZip) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return (details, what loading would run or read beyond Keras's own layers). Raises InputError for damage."""
    metadata, config = _json(archive, "metadata.json"), _json(archive, "config.json")
    weights = next(name for name in archive.names if name.startswith(("model.weights.", "model_weights")))
    details = {
        "keras_version": str(metadata.get("keras_version", "")),
        "class": str(config.get("registered_name") or config.get("class_name", "")),
        "weights": weights,
        "weight_bytes": archive.size(weights),
        "layers": _layers(config),
        "inputs": _inputs(config),
    }
    return details, tuple(stored_code(config))


def _json(archive: SafeZip, name: str) -> dict[str, Any]:
    try:
        value = json.loads(archive.read(name, _MAX_CONFIG))
    except (ValueError, RecursionError) as error:
        raise InputError(f"has a {name} that is no JSON ({error})", where=archive.where, remedy=_SAVE) from error
    if not isinstance(value, dict):
        raise InputError(f"has a {name} that is no JSON object", where=archive.where, remedy=_SAVE)
    return value


def _layers(config: dict[str, Any]) -> int:
    inner = config.get("config")
    layers = inner.get("layers") if isinstance(inner, dict) else None
    return len(layers) if isinstance(layers, list) else 0


def _inputs(config: dict[str, Any]) -> dict[str, Any]:
    """The shapes of the input layers by name, as the file says them."""
    inner = config.get("config")
    layers = inner.get("layers") if isinstance(inner, dict) else None
    found: dict[str, Any] = {}
    for layer in layers if isinstance(layers, list) else ():
        settings = layer.get("config") if isinstance(layer, dict) and layer.get("class_name") == "InputLayer" else None
        if isinstance(settings, dict) and len(found) < _MAX_NODES:
            found[str(settings.get("name"))] = settings.get("batch_shape") or settings.get("batch_input_shape")
    return found


def read_h5(view: memoryview, where: str) -> dict[str, Any]:
    """Return what the first bytes of an HDF5 file say: superblock version and size. Raises InputError when truncated.

    Layout: HDF5 File Format Specification 3.0, section II.A.
    """
    if len(view) < 16:
        raise InputError("is a truncated HDF5 file", where=where, remedy=_AGAIN)
    version = view[8]
    if version not in _SUPERBLOCK:
        message = f"is an HDF5 file with a superblock of version {version}, which does not exist"
        raise InputError(message, where=where, remedy=_SAVE)
    width = view[13] if version < 2 else view[9]
    start = _SUPERBLOCK[version][0] + 2 * width
    end = int.from_bytes(view[start : start + width], "little") if width in (2, 4, 8) else 0
    if len(view) < start + width or end > len(view):
        message = f"is a truncated HDF5 file: it declares {end:,} bytes, {len(view):,} are there"
        raise InputError(message, where=where, remedy=_AGAIN)
    return {"superblock": version, "bytes": end}
