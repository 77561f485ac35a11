"""ExportedProgram archives (`torch.export.save`): which they are, and what loading one would run.

`torch.export.load` of torch 2.13 is no safe reader, for two reasons (torch/export/pt2_archive/_package.py and
torch/_export/serde/serialize.py):

1. It unpickles sample inputs, older weights and constants, and whatever a payload configuration calls `use_pickle` or
   `opaque_obj_*`, and falls back to `weights_only=False`.
2. It gives the strings of symbolic sizes (`expr_str`) to `sympy.sympify`, which evaluates them as Python.

Both are looked at here, and what they would import or evaluate is named. Nothing is run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from tensoraudit.artifacts.pickle_nodes import Wishes
from tensoraudit.artifacts.pickle_stream import Stream
from tensoraudit.artifacts.torch_files import is_legacy, read_pickle
from tensoraudit.artifacts.zips import SafeZip
from tensoraudit.errors import InputError

_PICKLE_LIMIT: Final = 256 << 20
_JSON_LIMIT: Final = 128 << 20
_OLD: Final = "serialized_exported_program.json"
_SAVE: Final = "Save the model again with torch.export.save."
_ALWAYS_UNPICKLED: Final = re.compile(
    r"serialized_(?:state_dict|constants|example_inputs)\.\w+|data/sample_inputs/.+|data/(?:weights|constants)/[^/]+\.pt"
    r"|data/constants/opaque_obj_.*",
    re.IGNORECASE,
)
_CONFIG: Final = re.compile(r"(data/(?:weights|constants)/).*_config\.json", re.IGNORECASE)
_PROGRAM: Final = re.compile(r"serialized_exported_program\.json|models/.+\.json", re.IGNORECASE)
_MAX_EXPRESSION: Final = 10_000
_QUOTED_NAME: Final = re.compile(r"'\w{1,100}'")
_CHARACTERS: Final = re.compile(r"[\w\s+\-*/%(),.<>=!&|~]*")
_ACCESS: Final = re.compile(r"\.\s*[A-Za-z_]|\)\s*\(")
"""An attribute, or a call of what is no plain name."""
_WORD: Final = re.compile(
    r"\d+(?:e\d+)?|[A-Z][A-Za-z0-9_]*|[a-z]{1,3}\d+"
    r"|floor|ceiling|sqrt|log|exp|sin|cos|tan|sinh|cosh|tanh|evaluate|positive|negative|nonnegative|integer|real|finite|even"
    r"|true|false|oo|pi"
)
"""Numbers, the classes of sympy and torch (Mod, FloorDiv, Symbol...), symbols (s77, u0), functions, and assumptions."""


def is_exported_program(archive: SafeZip) -> bool:
    """Whether a zip is what `torch.export.save` writes, in the layout of now or in the older one."""
    return _OLD in archive or ("archive_format" in archive and any(map(_PROGRAM.fullmatch, archive.names)))


def layout_of(archive: SafeZip) -> str:
    """Return "pt2", or "json" for the older layout, which torch 2.13 still reads but calls deprecated."""
    return "json" if _OLD in archive else "pt2"


def program_entry(archive: SafeZip) -> str:
    """Return the entry that holds the program as JSON (the first, if there are several)."""
    return next(filter(_PROGRAM.fullmatch, archive.names))


def read_json(archive: SafeZip, name: str) -> Any:
    """Return a JSON entry of at most 128 MiB. Raises InputError when it is none."""
    try:
        return json.loads(archive.read(name, _JSON_LIMIT))
    except (ValueError, RecursionError) as error:
        raise InputError(f"entry {name!r} is no JSON ({error})", where=archive.where, remedy=_SAVE) from error


def wishes_of_exported_program(archive: SafeZip) -> tuple[str, ...]:
    """Return, sorted, what loading the archive would import (dotted) or evaluate (`sympify(...)`).

    Raises InputError for an entry that is no pickle or JSON where there must be one.
    """
    wishes = Wishes()
    for name in dict.fromkeys(_pickled_entries(archive)):
        _look_into(archive.view(name, _PICKLE_LIMIT), wishes, f"{archive.where}: {name}")
    expressions = {f"sympify({text[:60]!r})" for text in _expressions(archive) if not is_plain_expression(text)}
    return tuple(sorted({*wishes.globals, *expressions}))


def is_plain_expression(text: str) -> bool:
    """Whether evaluating a symbolic size can do no more than arithmetic.

    torch writes what `sympy.srepr` gives, `Mul(Integer(2), Symbol('s77', integer=True))`; older versions wrote
    `2*s77`.
    """
    if len(text) > _MAX_EXPRESSION:
        return False
    text = _QUOTED_NAME.sub("1", text)
    fits = _CHARACTERS.fullmatch(text) is not None and "__" not in text and _ACCESS.search(text) is None
    return fits and all(map(_WORD.fullmatch, re.findall(r"\w+", text)))


def _pickled_entries(archive: SafeZip) -> Iterator[str]:
    for name in archive.names:
        if _ALWAYS_UNPICKLED.fullmatch(name):
            yield name
        config = _CONFIG.fullmatch(name)
        if config:
            yield from (config[1] + path for path in _paths_to_unpickle(read_json(archive, name)))


def _paths_to_unpickle(content: Any) -> Iterator[str]:
    payloads = content.get("config") if isinstance(content, dict) else None
    for payload in payloads.values() if isinstance(payloads, dict) else ():
        if isinstance(payload, dict) and payload.get("use_pickle") and isinstance(payload.get("path_name"), str):
            yield payload["path_name"]


def _look_into(view: memoryview, wishes: Wishes, where: str) -> None:
    """Read a nested file of torch.save, of either format, or a bare pickle, for its globals only."""
    if bytes(view[:4]) == b"PK\x03\x04":
        nested = SafeZip(view, where)
        for entry in nested.names:
            if entry.endswith(".pkl"):
                read_pickle(Stream(nested.view(entry, _PICKLE_LIMIT)), wishes, where)
    elif len(view):
        stream = Stream(view)
        for _ in range(4 if is_legacy(view) else 1):
            read_pickle(stream, wishes, where)


def _expressions(archive: SafeZip) -> Iterator[str]:
    for name in archive.names:
        if _PROGRAM.fullmatch(name):
            yield from _strings_under(read_json(archive, name), "expr_str")


def _strings_under(content: Any, key: str) -> Iterator[str]:
    waiting = [content]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            found = node.get(key)
            if isinstance(found, str):
                yield found
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
