"""Which framework a Python object is made of, told from the imports of its file and nothing else.

1. The frameworks that the file imports; when it is one, that is the answer.
2. When it imports several, those that the named object uses, directly or through other definitions of the file.
3. When it imports none, those of the files beside it that it imports.

Nothing is imported and nothing is run. A file that is no Python tells nothing: the worker will say what is wrong in it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

FRAMEWORK_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(("torch", "torchvision", "torchaudio", "timm", "lightning", "pytorch_lightning"), "pytorch"),
    **dict.fromkeys(("tensorflow", "keras", "tf_keras", "keras_hub", "keras_cv", "keras_nlp"), "tensorflow"),
    **dict.fromkeys(("jax", "flax", "haiku", "equinox", "optax"), "jax"),
}
"""By the first part of an imported module's name."""

_MAX_FILES: Final = 64
_MAX_SIZE: Final = 8 << 20


def frameworks_of(path: Path, attribute: str) -> tuple[str, ...]:
    """Return the frameworks that the object may be made of, sorted; none when nothing tells."""
    tree = _parse(path)
    if tree is None:
        return ()
    own = _frameworks(tree)
    if len(set(own.values())) > 1:
        own = {name: own[name] for name in _used(tree, attribute.partition(".")[0]) if name in own} or own
    return tuple(sorted(set(own.values()) or _beside(path, tree)))


def file_of(module: str) -> Path | None:
    """Return the source file of `package.module` without importing anything; None when it is not found that way."""
    places: list[str] | None = None
    found = None
    for end, _ in enumerate(parts := module.split("."), start=1):
        found = PathFinder.find_spec(".".join(parts[:end]), places)
        if found is None:
            return None
        places = list(found.submodule_search_locations or ())
    return Path(found.origin) if found and found.origin and found.origin.endswith(".py") else None


def _parse(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes()) if path.stat().st_size <= _MAX_SIZE else None
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _imports(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """Yield (bound name, dotted module, level of a relative import)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((each.asname or each.name.partition(".")[0], each.name, 0) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((each.asname or each.name, node.module or each.name, node.level) for each in node.names)


def _frameworks(tree: ast.Module) -> dict[str, str]:
    """The names that imports of frameworks bind, and the framework of each."""
    roots = ((name, module.partition(".")[0]) for name, module, level in _imports(tree) if not level)
    return {name: FRAMEWORK_OF[root] for name, root in roots if root in FRAMEWORK_OF}


def _used(tree: ast.Module, name: str) -> set[str]:
    """The names that a definition of the file reads, and those that the definitions among them read."""
    definitions = {key: node for node in tree.body for key in _defined(node)}
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += [each for node in ast.walk(definitions.get(name, ast.Pass())) for each in _names(node)]
    return seen


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [each.id for each in node.targets if isinstance(each, ast.Name)]
    return [node.target.id] if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else []


def _names(node: ast.AST) -> list[str]:
    """The name that a node reads, or those that an import inside a definition binds."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [each.asname or each.name.partition(".")[0] for each in node.names]
    return [node.id] if isinstance(node, ast.Name) else []


def _beside(path: Path, tree: ast.Module) -> set[str]:
    """The frameworks of the files beside one that it imports, nearest first."""
    seen, waiting = {path.resolve()}, [(path, tree)]
    while waiting and len(seen) < _MAX_FILES:
        here, tree = waiting.pop(0)
        for file in _local(here, tree):
            if file in seen or (found := _parse(file)) is None:
                continue
            seen.add(file)
            if own := _frameworks(found):
                return set(own.values())
            waiting.append((file, found))
    return set()


def _local(path: Path, tree: ast.Module) -> Iterator[Path]:
    folder = path.resolve().parent
    for _, module, level in _imports(tree):
        base = folder.joinpath(*[".."] * max(0, level - 1), *module.split(".")).resolve()
        yield from (file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file())
