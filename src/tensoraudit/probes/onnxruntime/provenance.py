"""Where a node comes from: module path, operator and source line, as the PyTorch exporters leave them in the file.

The dynamo exporter writes metadata properties on every node:

    pkg.torch.onnx.name_scopes       "['', 'layer.0', 'layer.0.query', 'linear']": modules, then the traced node
    pkg.torch.onnx.class_hierarchy   "['net.Net', ..., 'aten.linear.default']": their classes, then the operator
    pkg.torch.onnx.stack_trace       Python frames, outermost first

The TorchScript exporter writes scopes into the node's name, "/layer.0/query/Gemm", and with verbose=True frames into
its doc_string, innermost first. A scope is a module's name from its last non-numeric part on (a child of `fc` called
`0` is "fc.0"), and gets "_1" appended when the module is called a second time.

Text in, text out: knows no session and imports nothing of onnx.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

PREFIX = "pkg.torch.onnx."
_FRAME = re.compile(r'File "(?P<path>[^"\n]+)", line (?P<line>\d+), in [^\n]*(?:\n[ \t]+(?P<text>[^\n]*))?')
_DOC_FRAMES = (
    re.compile(r"^\s*#\s*(?P<path>.+?):(?P<line>\d+):\d+\s*$", re.MULTILINE),
    re.compile(r"^(?P<path>[^\n]+?)\((?P<line>\d+)\): [^\n]*$", re.MULTILINE),
)
_LIBRARY = re.compile(
    r"[\\/](?:site|dist)-packages[\\/](?:torch|onnxscript)[\\/]|[\\/]torch[\\/](?:nn[\\/]|jit[\\/]|_)"
)
_REPEATED = re.compile(r"(?P<base>.+)_(?P<call>\d+)")


class Origin(NamedTuple):
    """What is known of a node's origin.

    `module` is the path in `named_modules()` ("" for the root, None when not known), `call` counts the calls of that
    module from 0 (None when not known), `operator` is the traced operator (`aten.linear.default`) and `traced` the
    name of its node in the exported program.
    """

    module: str | None = None
    call: int | None = None
    operator: str | None = None
    traced: str | None = None
    source: dict[str, Any] | None = None


def origin_of(
    name: str, metadata: Mapping[str, str], doc: str, weights: Iterable[str], modules: frozenset[str]
) -> Origin:
    """Return where a node comes from, by whichever exporter wrote it.

    `weights` are the names of the weights that the node reads, and `modules` the module paths that all weights of the
    model name: both settle scopes that could be read in two ways.
    """
    if any(key.startswith(PREFIX) for key in metadata):
        return _from_metadata(metadata)
    module, call = module_of_scope(name, weights, modules)
    return Origin(module, call, source=_from_doc(doc))


def _from_metadata(metadata: Mapping[str, str]) -> Origin:
    scopes = _list(metadata.get(PREFIX + "name_scopes", ""))
    classes = _list(metadata.get(PREFIX + "class_hierarchy", ""))
    module, call = (None, None) if len(scopes) < 2 else _split_call(scopes[-2])
    return Origin(
        module,
        call,
        classes[-1] if classes and len(classes) == len(scopes) else None,
        scopes[-1] if scopes else None,
        _user_frame(_FRAME.finditer(metadata.get(PREFIX + "stack_trace", "")), innermost_last=True),
    )


def _list(text: str) -> list[str]:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    return [str(item) for item in value] if isinstance(value, list) else []


def _split_call(scope: str) -> tuple[str, int | None]:
    """torch.export marks the second call of a module as `name@1`."""
    module, mark, number = scope.partition("@")
    return (module, int(number)) if mark and number.isdigit() else (scope, None)


def _from_doc(doc: str) -> dict[str, Any] | None:
    for pattern in _DOC_FRAMES:
        frame = _user_frame(pattern.finditer(doc), innermost_last=False)
        if frame is not None:
            return frame
    return None


def _user_frame(frames: Iterable[re.Match[str]], *, innermost_last: bool) -> dict[str, Any] | None:
    """Return the innermost frame outside the framework."""
    own = [frame.groupdict() for frame in frames if not _LIBRARY.search(frame["path"])]
    if not own:
        return None
    frame = own[-1 if innermost_last else 0]
    return {"path": frame["path"], "line": int(frame["line"]), "text": (frame.get("text") or "").strip()}


def module_of_scope(name: str, weights: Iterable[str], modules: frozenset[str]) -> tuple[str | None, int | None]:
    """Return module path and call number of a node named by the TorchScript exporter, (None, None) for other names."""
    if not name.startswith("/"):
        return None, None
    parts: list[str] = []
    call = 0
    for scope in name.split("/")[1:-1]:
        base, call = _split_suffix(scope, parts, modules)
        parts = _descend(parts, base.split("."))
    return _settle(".".join(parts), weights), call


def _split_suffix(scope: str, parent: list[str], modules: frozenset[str]) -> tuple[str, int]:
    """Take "_2" off a scope, unless the weights name a module that is really called so."""
    match = _REPEATED.fullmatch(scope)
    if match is None or ".".join(_descend(parent, scope.split("."))) in modules:
        return scope, 0
    return match["base"], int(match["call"])


def _descend(parts: list[str], atoms: list[str]) -> list[str]:
    """Append a scope's atoms, less the ones that repeat the end of the path so far (`fc`, then `fc.0`)."""
    for size in range(len(atoms) - 1, 0, -1):
        if parts[-size:] == atoms[:size]:
            return [*parts, *atoms[size:]]
    return [*parts, *atoms]


def _settle(module: str, weights: Iterable[str]) -> str:
    """Prefer the path in the name of a weight that the node reads, if it ends in the same module name.

    A container that is only indexed (ModuleDict, ModuleList) has no scope of its own, so the scopes may lack it.
    """
    last = module.rpartition(".")[2]
    owners = {name.rpartition(".")[0] for name in weights if "." in name}
    matching = [owner for owner in owners if last and owner.rpartition(".")[2] == last]
    return matching[0] if len(matching) == 1 else module


def modules_of(weights: Iterable[str]) -> frozenset[str]:
    """Return the module paths, and the paths above them, that the names of weights speak of."""
    paths: set[str] = set()
    for name in weights:
        owner = name.rpartition(".")[0]
        while owner and owner not in paths:
            paths.add(owner)
            owner = owner.rpartition(".")[0]
    return frozenset(paths)
