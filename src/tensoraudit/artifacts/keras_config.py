"""What a Keras configuration would run when the model is built from it.

Keras stores models as JSON that names classes and functions to import, and Lambda layers as marshalled bytecode in it.
A configuration made of Keras's own layers needs neither; everything else is listed, for the user to trust or not.

Also used by workers, on HDF5 files: standard library only, Python 3.9.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_OWN = frozenset(("keras", "keras.src", "tensorflow.keras", "tf_keras"))
_FUNCTIONS = ("activations", "initializers", "losses", "metrics", "ops", "regularizers", "constraints", "layers")
"""The parts of Keras whose functions only compute; others download, unpack or load files."""
_PICKLES = frozenset(("TorchModuleWrapper", "JaxLayer", "FlaxLayer", "TFSMLayer"))
"""Layers of Keras that load code or pickles of their own."""
_READERS = frozenset(("StringLookup", "IntegerLookup", "IndexLookup", "TextVectorization"))
"""Layers of Keras that read the file which their vocabulary names."""
_MAX_FOUND = 100


def stored_code(config: Any) -> list[str]:
    """Return in words what the configuration would import, run or read beyond Keras's own layers, sorted."""
    found: set[str] = set()
    waiting = [config]
    while waiting and len(found) < _MAX_FOUND:
        item = waiting.pop()
        if isinstance(item, Mapping):
            found.update(_wishes(item))
            waiting.extend(item.values())
        elif isinstance(item, (list, tuple)):
            waiting.extend(item)
    return sorted(found)


def _wishes(item: Mapping[str, Any]) -> Iterator[str]:
    name, module, inner = item.get("class_name"), item.get("module"), item.get("config")
    inner = inner if isinstance(inner, Mapping) else {}
    if name == "__lambda__" or item.get("function_type") == "lambda":
        yield "bytecode of a lambda"
    if not isinstance(name, str) or not ("config" in item or "module" in item):
        return
    if name in _PICKLES:
        yield f"keras.layers.{name}"
    if name in _READERS and isinstance(inner.get("vocabulary"), str):
        yield f"the file {inner['vocabulary']!r}"
    if name == "Lambda" and isinstance(inner.get("function"), (list, tuple)):
        yield "bytecode of a lambda"
    if isinstance(module, str):
        yield from _foreign(module, name, item.get("config"))
    registered = item.get("registered_name")
    if module is None and isinstance(registered, str) and registered and registered not in {name, "function"}:
        yield registered


def _foreign(module: str, name: str, config: Any) -> Iterator[str]:
    own = any(module == root or module.startswith(f"{root}.") for root in _OWN)
    function = name == "function"
    called = str(config) if function and isinstance(config, str) else name
    loads = function and not any(f".{part}" in module for part in _FUNCTIONS)
    if loads or not own:
        yield f"{module}.{called}"
