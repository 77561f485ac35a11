"""jax.describe: what a model is, without running it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from tensoraudit.probes.jax.loaded import PARAMETERS, Loaded, is_plain
from tensoraudit.probes.jax.loading import Model, open_model
from tensoraudit.probes.jax.names import named_leaves
from tensoraudit.probes.jax.tensors import describe_leaf, dtype_name
from tensoraudit.probes.protocol import Session
from tensoraudit.probes.samples import flat
from tensoraudit.routes.source import in_package, is_machinery


def describe(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Load the model and describe it: kind, arguments, weights, modules, own samples, source files.

    `canonical` says what JAX makes of 64-bit inputs ({"int64": "int32", ...}; empty when 64-bit types are on).
    Raises JobFailed when the model cannot be loaded.
    """
    model = open_model(session, params["model"])
    loaded = model.loaded
    return {
        "class": loaded.name,
        "kind": loaded.kind,
        "training": loaded.training,
        "x64": model.x64,
        "canonical": dict(model.narrowed),
        "arguments": _arguments(model),
        "outputs": _outputs(loaded),
        "parameters": list(_tensors(loaded, parameters=True)),
        "buffers": list(_tensors(loaded, parameters=False)),
        "embedding_sizes": embedding_sizes(loaded),
        "samples": [
            {
                "name": f"sample-{index}",
                "arrays": {name: describe_leaf(session, leaf) for name, leaf in flat(sample).items()},
            }
            for index, sample in enumerate(model.samples)
        ],
        "dynamic": _symbolic(loaded) or model.dynamic,
        "source_files": source_files(loaded),
        "modules": [{"path": path, "class": name} for path, name in loaded.modules],
        "classes": _classes(loaded),
    }


def _classes(loaded: Loaded) -> list[str]:
    """The qualified names of all classes that the model is made of. None for linen, whose modules are made while they
    run: then nothing counts as foreign."""
    kinds = loaded.classes if loaded.kind != "linen" else ()
    return sorted({base.__qualname__ for kind in kinds for base in kind.__mro__})


def _arguments(model: Model) -> list[dict[str, Any]]:
    known = _declared(model.loaded)
    found = []
    for argument in model.signature.arguments:
        if argument.kind in {"positional", "keyword"}:
            row = {"name": argument.name, "required": argument.required, "annotation": argument.annotation}
            found.append({**row, **known.get(argument.name, {})})
    return found


def _declared(loaded: Loaded) -> dict[str, dict[str, Any]]:
    """The dtypes and shapes that a serialized program states; a symbolic size has its expression as a name."""
    if loaded.exported is None:
        return {}
    return {
        name: {"dtype": dtype_name(each), "shape": _shape(each)}
        for name, each in _exported_inputs(loaded).items()
        if "." not in name
    }


def _exported_inputs(loaded: Loaded) -> dict[str, Any]:
    args, kwargs = jax.tree_util.tree_unflatten(loaded.exported.in_tree, loaded.exported.in_avals)
    by_position = {f"args_{number}": each for number, each in enumerate(args)}
    return named_leaves({**by_position, **kwargs}, separator=".")


def _outputs(loaded: Loaded) -> list[dict[str, Any]]:
    """Known before a run only for a serialized program."""
    if loaded.exported is None:
        return []
    tree = jax.tree_util.tree_unflatten(loaded.exported.out_tree, loaded.exported.out_avals)
    named = named_leaves(tree, "output", ".")
    return [{"name": name, "dtype": dtype_name(each), "shape": _shape(each)} for name, each in named.items()]


def _shape(value: Any) -> list[Any]:
    return [size if isinstance(size, int) else str(size) for size in value.shape]


def _symbolic(loaded: Loaded) -> dict[str, dict[str, str]]:
    """The dimensions that a serialized program leaves open."""
    if loaded.exported is None:
        return {}
    found = {
        name: {str(axis): str(size) for axis, size in enumerate(each.shape) if not isinstance(size, int)}
        for name, each in _exported_inputs(loaded).items()
    }
    return {name: axes for name, axes in found.items() if axes}


def _tensors(loaded: Loaded, *, parameters: bool) -> Iterator[dict[str, Any]]:
    for collection, leaves in loaded.collections.items():
        if (collection == PARAMETERS) == parameters:
            for name, leaf in leaves.items():
                if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
                    yield {"name": name, "dtype": dtype_name(leaf), "shape": list(leaf.shape)}


def embedding_sizes(loaded: Loaded) -> dict[str, int]:
    """Return the number of rows of every embedding table, which Flax calls `embedding`, by its name."""
    found = {}
    for name, leaf in loaded.collections.get(PARAMETERS, {}).items():
        if name.rpartition("/")[2] == "embedding" and is_plain(leaf) and leaf.ndim == 2:
            found[name] = int(leaf.shape[0])
    return found


def source_files(loaded: Loaded) -> list[str]:
    """Return the user's Python files that define the model: its function, its classes and the factory.

    Files of installed packages are left out, except the one that the user named.
    """
    function = loaded.made[0] if isinstance(loaded.made, tuple) else loaded.made
    origins = [function, *(base for kind in loaded.classes for base in kind.__mro__)]
    files = {path for each in origins if (path := _file(each)) and not in_package(path)}
    if loaded.home is not None and getattr(loaded.home, "__file__", None):
        files.add(str(Path(str(loaded.home.__file__)).resolve()))
    return sorted(files)


def _file(origin: Any) -> str | None:
    try:
        path = inspect.getsourcefile(inspect.unwrap(origin))
    except (TypeError, OSError, ValueError):
        return None
    return str(Path(path).resolve()) if path and not is_machinery(path) and Path(path).is_file() else None
