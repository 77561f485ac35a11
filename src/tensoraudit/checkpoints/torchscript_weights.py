"""The tensors of a TorchScript archive: parameters and buffers by their dotted names, other attributes, constants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from tensoraudit.artifacts.globals import is_harmless
from tensoraudit.artifacts.pickle_nodes import Wishes
from tensoraudit.artifacts.pickle_stream import Stream
from tensoraudit.artifacts.torch_files import open_torch_zip, read_pickle
from tensoraudit.artifacts.zips import SafeZip
from tensoraudit.checkpoints.schema import Entry
from tensoraudit.checkpoints.torch_entries import Storages, contents_of
from tensoraudit.checkpoints.torch_tree import Instance, plain, walk
from tensoraudit.errors import InputError

_PICKLE_LIMIT: Final = 256 << 20
_CODE_LIMIT: Final = 8 << 20
_MOST_MODULES: Final = 200_000
_LONGEST_NAME: Final = 1_000
_CLASS: Final = re.compile(r"^class (\w+)\(", re.MULTILINE)
_LISTED: Final = re.compile(r"^  __(?:parameters|buffers)__ = \[(.*?)\]", re.MULTILINE | re.DOTALL)
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')


def read_torchscript_weights(archive: SafeZip, file: str) -> dict[str, Any]:
    """Return the fields of a StoredCheckpoint. Raises InputError for a damaged archive.

    Tensors that the code calls neither parameter nor buffer, and those of `constants.pkl`, are of the group "other".
    """
    opened = open_torch_zip(archive)
    listed = _Listed(archive)
    tensors = dict(_attributes(plain(opened.root), listed))
    storages = Storages(file, opened.storages, archive.where)
    state = {name: tensor for name, (tensor, is_state) in tensors.items() if is_state}
    rest = {name: tensor for name, (tensor, is_state) in tensors.items() if not is_state}
    contents = contents_of({"": state, "rest": rest}, storages)
    entries = [_placed(entry) for entry in contents.entries]
    wishes = Wishes(globals=dict(opened.wishes.globals))
    entries += _constants(archive, file, wishes)
    imports = tuple(sorted(name for name in wishes.globals if not name.startswith("__torch__.")))
    return {
        "entries": tuple(entries),
        "writer": "torch.jit.save",
        "imports": tuple(name for name in imports if not is_harmless(name)),
        "all_imports": imports,
        "metadata": {"class": getattr(opened.root.callee, "name", "?") if hasattr(opened.root, "callee") else "?"},
    }


class _Listed:
    """The names that each class of the archive's code lists as parameters and buffers; None for a class not found."""

    def __init__(self, archive: SafeZip) -> None:
        self._archive = archive
        self._files: dict[str, dict[str, frozenset[str]]] = {}

    def of(self, cls: str) -> frozenset[str] | None:
        module, _, name = cls.rpartition(".")
        if module not in self._files:
            self._files[module] = self._classes(f"code/{module.replace('.', '/')}.py")
        return self._files[module].get(name)

    def _classes(self, entry: str) -> dict[str, frozenset[str]]:
        try:
            text = self._archive.read(entry, _CODE_LIMIT).decode("utf-8", "replace")
        except InputError:
            return {}
        starts = list(_CLASS.finditer(text))
        ends = [start.start() for start in starts[1:]] + [len(text)]
        bodies = ((start[1], text[start.end() : end]) for start, end in zip(starts, ends, strict=True))
        return {
            name: frozenset(word for listed in _LISTED.findall(body) for word in _QUOTED.findall(listed))
            for name, body in bodies
        }


def _attributes(root: Any, listed: _Listed) -> Iterator[tuple[str, tuple[Any, bool]]]:
    """Yield (dotted name, (tensor, whether it is a parameter or buffer)) of a module and those below it."""
    stack: list[tuple[str, Any]] = [("", root)]
    for _ in range(_MOST_MODULES):
        if not stack:
            return
        prefix, module = stack.pop()
        if not isinstance(module, Instance) or len(prefix) > _LONGEST_NAME:
            continue
        names = listed.of(module.cls)
        for name, value in module.fields.items():
            if isinstance(value, Instance):
                stack.append((f"{prefix}{name}.", value))
            elif not isinstance(value, dict | list):
                yield f"{prefix}{name}", (value, names is None or name in names)
            else:
                yield from ((f"{prefix}{name}.{_dotted(keys)}", (leaf, False)) for keys, leaf in walk(value))


def _dotted(keys: tuple[Any, ...]) -> str:
    return ".".join(map(str, keys))


def _placed(entry: Entry) -> Entry:
    """Undo the two keys that told state from the rest."""
    group = entry.group if entry.path == ("",) else "other"
    return entry._replace(path=(), group=group, same_as=entry.same_as.removeprefix(".").removeprefix("rest."))


def _constants(archive: SafeZip, file: str, wishes: Wishes) -> list[Entry]:
    """The tensors that the code calls CONSTANTS.c0, c1..., whose storages lie beside `constants.pkl`."""
    if "constants.pkl" not in archive:
        return []
    root = read_pickle(Stream(archive.view("constants.pkl", _PICKLE_LIMIT)), wishes, archive.where)
    names = [name for name in archive.names if name.startswith("constants/")]
    places = {name.removeprefix("constants/"): archive.span(name) or (None, archive.size(name)) for name in names}
    values = plain(root)
    tree = {f"c{at}": value for at, value in enumerate(values if isinstance(values, list) else [])}
    contents = contents_of({"CONSTANTS": tree}, Storages(file, places, archive.where))
    return [entry._replace(group="other") for entry in contents.entries]
