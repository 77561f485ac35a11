"""All objects of an HDF5 file in one walk, and the texts in their attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tensoraudit.artifacts.hdf5 import ATTRIBUTE, Hdf5Error, Hdf5File, Message, attribute, messages, open_hdf5
from tensoraudit.artifacts.hdf5_datasets import Dataset, dataset
from tensoraudit.artifacts.hdf5_groups import Link, links
from tensoraudit.artifacts.hdf5_heap import pieces

_ATTRIBUTE_INFO: Final = 0x15
_MOST_OBJECTS: Final = 300_000
_MOST_DEPTH: Final = 100
_MOST_PATHS: Final = 256 << 20
"""Bytes of all paths together."""
_MOST_LEFT: Final = 1_000


@dataclass(slots=True)
class Hdf5Tree:
    """A file's objects by their paths, "" being the root. `attributes` are those that hold texts, of objects that have
    any. `same` maps the further paths of a dataset to the first; `left` are links that are not followed, with whether
    they lead to another file; `chunked` are the addresses of the headers of datasets in chunks, for `read_chunks`."""

    datasets: dict[str, Dataset] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)
    attributes: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)
    left: dict[str, bool] = field(default_factory=dict)
    chunked: dict[str, int] = field(default_factory=dict)


def read_tree(view: memoryview) -> Hdf5Tree:
    """Walk a file. Raises Hdf5Error for damage and for more than 300,000 objects."""
    file, root = open_hdf5(view)
    tree = Hdf5Tree()
    first: dict[int, str] = {}
    waiting = [("", root)]
    length = 0
    while waiting:
        path, header = waiting.pop()
        length += len(path)
        if len(first) > _MOST_OBJECTS or length > _MOST_PATHS:
            raise Hdf5Error(f"more than {len(first) - 1:,} objects, {length:,} bytes of names")
        if header in first:
            if first[header] in tree.datasets:
                tree.same[path] = first[header]
            continue
        first[header] = path
        waiting.extend(reversed(_look(file, path, header, tree)))
    return tree


def _look(file: Hdf5File, path: str, header: int, tree: Hdf5Tree) -> list[tuple[str, int]]:
    """Note one object; return what it leads to."""
    found = list(messages(file, header))
    texts = dict(_attributes(file, found))
    if texts:
        tree.attributes[path] = texts
    data = dataset(file, found)
    if data is not None:
        tree.datasets[path] = data
        if data.codec == "chunks":
            tree.chunked[path] = header
        return []
    tree.groups.append(path)
    if path.count("/") >= _MOST_DEPTH:
        raise Hdf5Error(f"groups more than {_MOST_DEPTH} deep")
    return list(_children(path, links(file, found), tree))


def _children(path: str, found: Iterator[Link], tree: Hdf5Tree) -> Iterator[tuple[str, int]]:
    for link in found:
        name = str(link.name, "utf-8", "backslashreplace")
        inner = f"{path}/{name}" if path else name
        if link.target is not None:
            yield inner, link.target
        elif len(tree.left) < _MOST_LEFT:
            tree.left[inner] = link.external


def _attributes(file: Hdf5File, found: list[Message]) -> Iterator[tuple[str, list[str]]]:
    for message in found:
        places = [(message.start, message.size)] if message.kind == ATTRIBUTE else ()
        if message.kind == _ATTRIBUTE_INFO:
            places = _in_heap(file, message.start)
        for start, size in places:
            texts = attribute(file, start, size)
            if texts is not None:
                decoded = [str(text, "utf-8", "backslashreplace") for text in texts[1]]
                yield str(texts[0], "utf-8", "backslashreplace"), decoded


def _in_heap(file: Hdf5File, start: int) -> list[tuple[int, int]]:
    """Attributes of an object that has more than eight."""
    at = start + 2 + (2 if file.number(start + 1, 1) & 1 else 0)
    heap, tree = file.address(at), file.address(at + file.offset_size)
    return [] if file.is_nowhere(heap) else list(pieces(file, heap, tree, 0))
