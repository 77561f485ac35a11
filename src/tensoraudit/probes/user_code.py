"""Import the user's own Python: a file or a module, without letting its folder hide anybody else's modules.

Shared by the workers: Python 3.9, standard library only. `framework` is the name before `=` in `--python`.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from tensoraudit.probes.protocol import JobFailed
from tensoraudit.routes.source import error_place

MAX_NAMES = 8


def add_code(paths: Iterable[str]) -> None:
    """Append folders (and the folders of files) to the end of the import path.

    Never to its front: a user's `z3.py` or `onnx.py` would replace the module that torch wants.
    """
    for path in paths:
        folder = Path(path)
        add = str(folder if folder.is_dir() else folder.parent)
        if add not in sys.path:
            sys.path.append(add)


def import_file(path: str, framework: str) -> ModuleType:
    """Import a Python file; its siblings and, inside a package, its relative imports work.

    Raises JobFailed with the line at which its import stops.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise JobFailed(f"{path}: no such file", remedy="Check the path before the colon.")
    root, name = _dotted(file)
    add_code([str(root)])
    if "." in name:
        module = _guarded(lambda: importlib.import_module(name), path, framework)
        if Path(str(getattr(module, "__file__", ""))).resolve() == file:
            return module
        name = file.stem  # another package has its package's name
    unique = name if _is_free(name, file) else f"_tensoraudit_{name}"
    return _guarded(lambda: _import_as(unique, file), path, framework)


def import_module(name: str, framework: str) -> ModuleType:
    """Import an installed or findable module. Raises JobFailed with the line at which its import stops."""
    return _guarded(lambda: importlib.import_module(name), name, framework)


def _dotted(file: Path) -> tuple[Path, str]:
    """The folder to import from, and the dotted name of the file within it."""
    folder, parts = file.parent, [file.stem]
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def _is_free(name: str, file: Path) -> bool:
    """Whether no other module has this name, so that `import name` in a sibling file finds the same one."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        return getattr(loaded, "__file__", None) == str(file)
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    return found is None or (found.origin is not None and Path(found.origin).resolve() == file)


def _import_as(name: str, file: Path) -> ModuleType:
    known = sys.modules.get(name)
    if known is not None and getattr(known, "_tensoraudit_stamp", None) == _stamp(file):
        return known
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise JobFailed(f"{file.name} is no Python file", remedy="Give a file that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    module.__dict__["_tensoraudit_stamp"] = _stamp(file)
    return module


def _stamp(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_mtime_ns, status.st_size


def _guarded(load: Callable[[], ModuleType], what: str, framework: str) -> ModuleType:
    try:
        return load()
    except JobFailed:
        raise
    except (Exception, SystemExit) as problem:
        raise user_error(problem, f"{Path(what).name} cannot be imported", framework) from problem


def user_error(problem: BaseException, what: str, framework: str, remedy: str = "") -> JobFailed:
    """Return the failure that an exception in the user's code makes: what, where, and what to do."""
    at = error_place(problem)
    where = f" at {Path(at['path']).name}:{at['line']}" if at else ""
    text = next(iter(str(problem).strip().splitlines()), "")
    kind = "it calls exit" if isinstance(problem, SystemExit) else type(problem).__name__
    sentence = f"{what}{where}: {kind}{': ' + text if text and kind != 'it calls exit' else ''}"
    return JobFailed(
        sentence, remedy=remedy or _remedy(problem, framework), source=at, exception=type(problem).__name__
    )


def _remedy(problem: BaseException, framework: str) -> str:
    if isinstance(problem, ModuleNotFoundError) and problem.name:
        return (
            f"Install {problem.name.partition('.')[0]} where the {framework} worker runs, name an environment that has "
            f"it (--python {framework}=PATH), or add its folder (--code FOLDER) when it is your own."
        )
    if isinstance(problem, SystemExit):
        return "Put what only a script should do under `if __name__ == '__main__':`."
    return "Mend that line, or name a smaller file that builds only the model."


def find(module: ModuleType, attribute: str, what: str, is_model: Callable[[Any], bool]) -> Any:
    """Return a (dotted) attribute. Raises JobFailed listing what the module has instead, models first.

    `is_model` tells a model, or a class of models, from any other value.
    """
    value: Any = module
    for part in attribute.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            names = candidates(module, is_model)
            has = f"it has {', '.join(names)}" if names else "it defines no model, class or function"
            raise JobFailed(
                f"{what} has no {attribute!r}; {has}",
                remedy="Name a model, a module class or a function that returns a model after the colon.",
            ) from None
    return value


def candidates(module: ModuleType, is_model: Callable[[Any], bool]) -> list[str]:
    """Return the names in a module that could be meant: models, model classes, functions of its own; models first."""
    public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    own = {name: value for name, value in public.items() if getattr(value, "__module__", None) == module.__name__}
    models = [name for name, value in public.items() if not isinstance(value, type) and is_model(value)]
    classes = [name for name, value in own.items() if isinstance(value, type) and is_model(value)]
    functions = [name for name, value in own.items() if not isinstance(value, type) and callable(value)]
    return list(dict.fromkeys([*models, *classes, *functions]))[:MAX_NAMES]


def needs(factory: Any) -> list[str]:
    """Return the arguments without which a function or class cannot be called."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return []
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in variable]
