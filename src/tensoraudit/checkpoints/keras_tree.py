"""What the objects of a Keras HDF5 file are: entries with their order, layers' names, axes and groups.

Three layouts are told apart. Keras 3's `.weights.h5`: groups named after classes (`layers/dense_1/vars/0`), with the
layers' own names in attributes. The older `.h5`: `model_weights/<layer>/<weight>`, the order in attributes. Any other
HDF5 file: its datasets as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tensoraudit.artifacts.hdf5 import Hdf5Error
from tensoraudit.artifacts.hdf5_chunks import read_chunks
from tensoraudit.artifacts.hdf5_datasets import Dataset
from tensoraudit.artifacts.hdf5_tree import Hdf5Tree
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.checkpoints.schema import Entry, Group, Observation, Part

MODEL, OPTIMIZER = "model_weights", "optimizer_weights"
_DIGITS: Final = re.compile(r"(\d+)")
_COUNTED: Final = re.compile(r"_\d+$")
_KERNEL: Final = ("kernel", "bias")
_SCALED: Final = ("gamma", "beta")
_STARTS: Final = {
    **dict.fromkeys(("dense", "einsum_dense", "depthwise_conv1d", "depthwise_conv2d"), _KERNEL),
    **dict.fromkeys((f"conv{rank}d{more}" for rank in "123" for more in ("", "_transpose")), _KERNEL),
    **dict.fromkeys(("separable_conv1d", "separable_conv2d"), ("depthwise_kernel", "pointwise_kernel", "bias")),
    **dict.fromkeys(("lstm_cell", "gru_cell", "simple_rnn_cell"), ("kernel", "recurrent_kernel", "bias")),
    "embedding": ("embeddings",),
}
"""Variables of a class in their order, of which the last may be left out."""
_WHOLE: Final = {
    "batch_normalization": (*_SCALED, "moving_mean", "moving_variance"),
    "layer_normalization": _SCALED,
    "group_normalization": _SCALED,
}
"""Those of which any may be left out, so that a name is known only when all are there."""
_AXES: Final = {
    "dense": "IO", "conv1d": "WIO", "conv2d": "HWIO", "conv3d": "DHWIO", "conv1d_transpose": "WOI",
    "conv2d_transpose": "HWOI", "conv3d_transpose": "DHWOI", "depthwise_conv1d": "WIM", "depthwise_conv2d": "HWIM",
}  # fmt: skip
"""The axes of the kernel by class: M counts the outputs per input."""
_GROUPS: Final[tuple[tuple[str, Group], ...]] = (
    ("optimizer/", "optimizer"), ("_optimizer/", "optimizer"), ("metrics/", "other"), ("_metrics/", "other"),
    ("compile_metrics/", "other"), ("_compile_metrics/", "other"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Home:
    """Where an HDF5 file lies: `file` as parts name it, `offset` in bytes within it, `codec` where it is packed."""

    file: str
    offset: int = 0
    codec: str = ""


def natural(path: str) -> list[str | int]:
    """Return a key that sorts `vars/10` behind `vars/2`."""
    return [int(piece) if place % 2 and len(piece) < 10 else piece for place, piece in enumerate(_DIGITS.split(path))]


def layout_of(tree: Hdf5Tree) -> str:
    """Return "keras_weights", "keras_h5" or "hdf5"."""
    if MODEL in tree.groups or any(name.startswith("layer_names") for name in tree.attributes.get("", ())):
        return "keras_h5"
    named = any(path == "vars" or path.endswith("/vars") for path in tree.groups)
    return "keras_weights" if named else "hdf5"


def entries(tree: Hdf5Tree, home: Home, classes: Mapping[str, str]) -> Iterator[Entry]:
    """Yield the entries of a file. `classes` maps layers' names to snake-case classes where a configuration tells."""
    read = {"keras_weights": _by_class, "keras_h5": _by_name}.get(layout_of(tree), _plain)
    yield from read(tree, home, classes)


def _plain(tree: Hdf5Tree, home: Home, classes: Mapping[str, str]) -> Iterator[Entry]:
    for path in _in_order(tree):
        yield _entry(tree, home, path, path)


def _in_order(tree: Hdf5Tree) -> list[str]:
    return sorted((*tree.datasets, *tree.same), key=natural)


def _entry(tree: Hdf5Tree, home: Home, path: str, name: str) -> Entry:
    first = tree.same.get(path, path)
    data = tree.datasets[first]
    stated = tree.attributes.get(first, {}).get("dtype", [""])[:1]
    dtype = "bfloat16" if stated == ["bfloat16"] and data.dtype == "void16" else data.dtype
    same = first if first != path else ""
    return Entry(name, dtype, data.shape, (_part(home, data, tree.chunked.get(first)),), same_as=same)


def _part(home: Home, data: Dataset, chunked: int | None) -> Part:
    """The place of a dataset; of one in chunks the codec tells where its header and the HDF5 file begin."""
    codec = home.codec or data.codec
    if chunked is not None and not home.codec:
        codec = f"chunks:{chunked}:{home.offset}"
    offset = None if codec or data.offset is None else home.offset + data.offset
    return Part(home.file, offset, data.bytes, codec=codec)


def inflate(root: Path, part: Part) -> bytes:
    """Return the bytes of a piece that lies in chunks, in C order. Raises Hdf5Error, a ValueError, for damage."""
    places = part.codec.split(":")[1:]
    if len(places) != 2 or not all(place.isdecimal() for place in places):
        raise Hdf5Error(f"lies in {part.codec}, which leads nowhere")
    header, base = map(int, places)
    return read_chunks(map_file(root / part.file)[base:], header, part.bytes)


def _by_class(tree: Hdf5Tree, home: Home, classes: Mapping[str, str]) -> Iterator[Entry]:
    counts = Counter(path.rpartition("/")[0] for path in (*tree.datasets, *tree.same))
    for path in _in_order(tree):
        holder, _, place = path.rpartition("/")
        kind = _class_of(holder)
        variable = _variable(kind, place, counts[holder])
        layer = _layer(tree, holder)
        entry = _entry(tree, home, path, path)
        axes = _axes(kind, variable, entry.shape)
        alias = f"{layer}/{variable}" if layer and variable else ""
        yield entry._replace(group=_group(path), alias=alias, axes=axes)


def _class_of(holder: str) -> str:
    """The snake-case class of the layer whose `vars` group is given; a recurrent layer's cell is named after it."""
    groups = holder.split("/")
    if len(groups) < 2:
        return ""
    name = _COUNTED.sub("", groups[-2])
    if name == "cell" and len(groups) > 2:
        return _COUNTED.sub("", groups[-3]) + "_cell"
    return name


def _variable(kind: str, place: str, count: int) -> str:
    names = _WHOLE.get(kind, ())
    if len(names) != count:
        names = _STARTS.get(kind, ())
    return (
        names[int(place)] if count <= len(names) and place in ("0", "1", "2", "3") and int(place) < len(names) else ""
    )


def _layer(tree: Hdf5Tree, holder: str) -> str:
    """The layers' own names down to this one, joined by slashes; "" where one is not told."""
    groups = holder.split("/")[:-1]
    names = []
    for depth in range(1, len(groups) + 1):
        told = tree.attributes.get("/".join((*groups[:depth], "vars")), {}).get("name", [])
        names += told[:1]
    return "/".join(names)


def _axes(kind: str, variable: str, shape: tuple[int, ...]) -> str:
    axes = _AXES.get(kind, "") if variable == "kernel" else ""
    return axes if len(axes) == len(shape) else ""


def _group(path: str) -> Group:
    if "seed_generator/" in path:
        return "rng"
    return next((group for start, group in _GROUPS if path.startswith(start)), "model")


def _by_name(tree: Hdf5Tree, home: Home, classes: Mapping[str, str]) -> Iterator[Entry]:
    base = MODEL if MODEL in tree.groups else ""
    listed = _listed(tree, base)
    order = [path for path in listed if path in tree.datasets or path in tree.same]
    rest = [path for path in _in_order(tree) if path not in listed]
    for path in (*order, *rest):
        top = path.split("/", 1)[0]
        keys = (top,) if top in (MODEL, OPTIMIZER) else ()
        name = path.removeprefix(f"{top}/") if keys else path
        alias = listed.get(path, "").removesuffix(":0")
        layer, variable = name.split("/", 1)[0], alias.rpartition("/")[2]
        entry = _entry(tree, home, path, name)
        group: Group = "optimizer" if top == OPTIMIZER else "model"
        axes = _axes(classes.get(layer, ""), variable, entry.shape)
        yield entry._replace(path=keys, group=group, alias=alias, axes=axes)


def _listed(tree: Hdf5Tree, base: str) -> dict[str, str]:
    """The weights' names by their paths, in the order in which the file lists layers and weights."""
    found: dict[str, str] = {}
    holders = [f"{base}/{layer}" if base else layer for layer in listed_layers(tree)]
    for holder in (*holders, f"{base}/top_level_model_weights".lstrip("/"), OPTIMIZER):
        for weight in _texts(tree, holder, "weight_names"):
            found[f"{holder}/{weight}"] = weight
    return found


def listed_layers(tree: Hdf5Tree) -> list[str]:
    """Return the layers' names in the order in which an older file lists them; [] for others."""
    return _texts(tree, MODEL if MODEL in tree.groups else "", "layer_names")


def _texts(tree: Hdf5Tree, path: str, name: str) -> list[str]:
    """A list of texts, which Keras spreads over attributes with numbered names when it is long."""
    attributes = tree.attributes.get(path, {})
    if name in attributes:
        return attributes[name]
    spread: list[str] = []
    for number in range(len(attributes)):
        spread += attributes.get(f"{name}{number}", [])
    return spread


def faults(tree: Hdf5Tree, file: str) -> Iterator[Observation]:
    """Yield weights that are listed and missing, and links and data that lead to other files."""
    base = MODEL if MODEL in tree.groups else ""
    for path, weight in _listed(tree, base).items():
        if path not in tree.datasets and path not in tree.same:
            message = f"The file lists a weight {weight!r} and has no dataset {path!r}."
            yield Observation("tensor_missing", path, weight, message, file)
    outside = [path for path, external in tree.left.items() if external]
    outside += [path for path, data in tree.datasets.items() if data.codec in ("external", "virtual")]
    for path in outside[:1_000]:
        yield Observation("file_outside", path, path, f"{path!r} leads to another file, which is not read.", file)
