"""One HDF5 file of weights: its objects, what it says about itself, and its single numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.hdf5 import Hdf5Error
from tensoraudit.artifacts.hdf5_tree import Hdf5Tree, read_tree
from tensoraudit.artifacts.keras_files import read_h5
from tensoraudit.checkpoints.keras_tree import listed_layers, natural
from tensoraudit.checkpoints.schema import Entry
from tensoraudit.errors import InputError

SAVE_AGAIN: Final = "Save the model or its weights again."
_MOST_SCALAR: Final = 16
_MOST_LISTED: Final = 1_000


def tree_of(view: memoryview, where: str) -> Hdf5Tree:
    """Return the objects of an HDF5 file. Raises InputError for damage."""
    read_h5(view, where)
    try:
        return read_tree(view)
    except Hdf5Error as error:
        raise InputError(f"is a damaged HDF5 file ({error})", where=where, remedy=SAVE_AGAIN) from error


def optimizer_name(tree: Hdf5Tree) -> str:
    """Return the name that a `.weights.h5` gives its optimiser, "" where it does not."""
    return _name(tree, "optimizer/vars")


def inner_optimizer_name(tree: Hdf5Tree) -> str:
    """Return that of the optimiser that a LossScaleOptimizer wraps, "" where there is none."""
    return _name(tree, "optimizer/inner_optimizer/vars")


def _name(tree: Hdf5Tree, path: str) -> str:
    return "".join(tree.attributes.get(path, {}).get("name", [])[:1])


def about_tree(tree: Hdf5Tree) -> dict[str, Any]:
    """Return the top keys, and the layers' own names by their groups (by themselves in the older layout)."""
    named = {
        path.removesuffix("/vars"): texts["name"][0]
        for path, texts in sorted(tree.attributes.items(), key=lambda item: natural(item[0]))
        if path.endswith("/vars") and texts.get("name")
    }
    named = {path: name for path, name in named.items() if path.partition("/")[0] != "optimizer"}
    named = named or {layer: layer for layer in listed_layers(tree)}
    keys = sorted({path.split("/", 1)[0] for path in (*tree.groups, *tree.datasets) if path})
    return {
        "keys": keys[:_MOST_LISTED],
        "layer_names": dict(list(named.items())[:_MOST_LISTED]),
        "backend": "".join(tree.attributes.get("", {}).get("backend", [])[:1]),
    }


def scalars_in(root: Path) -> Callable[[Entry], bytes | None]:
    """Return a function that reads the bytes of a scalar, None for what does not stand in a file as it is."""

    def read(entry: Entry) -> bytes | None:
        part = entry.parts[0]
        if part.offset is None or part.bytes > _MOST_SCALAR:
            return None
        with (root / part.file).open("rb") as file:
            file.seek(part.offset)
            return file.read(part.bytes)

    return read
