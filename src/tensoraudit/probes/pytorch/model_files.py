"""Load models from files: TorchScript, ExportedProgram, pickled modules. Runs nothing stored unless it is trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from types import ModuleType
from typing import Any

import torch

from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.pytorch.loaded import Loaded, Spec, remember
from tensoraudit.probes.pytorch.user_code import import_file, user_error


def load_torchscript(spec: Spec) -> Loaded:
    """Load a TorchScript file on the CPU. Raises JobFailed."""

    def make() -> torch.nn.Module:
        module = _reading(spec, lambda path: torch.jit.load(path, map_location="cpu"))
        assert isinstance(module, torch.nn.Module)
        return module

    return remember(make)


def load_exported_program(spec: Spec) -> Loaded:
    """Load an ExportedProgram. Raises JobFailed, also when it holds pickles and is not trusted."""

    def read(path: str) -> Any:
        with _refuse_pickles(bool(spec.get("trust"))):
            return torch.export.load(path)

    program = _reading(spec, read)
    module: torch.nn.Module = program.module()
    return Loaded(module, training=trains(program), reload=lambda: _reading(spec, read).module(), program=program)


def load_pickled_module(spec: Spec) -> Loaded:
    """Load a whole module that torch.save pickled. Raises JobFailed, at once when it is not trusted."""
    if not spec.get("trust"):
        raise JobFailed(
            f"{Path(spec['path']).name} is a pickled module, and loading it runs code that is stored in it",
            remedy="Pass --trust if you know where the file comes from.",
        )
    for path in spec.get("code") or ():
        if Path(path).suffix == ".py" and Path(path).is_file():  # a notebook is read, and holds no module
            _lend_to_main(import_file(path))

    def make() -> torch.nn.Module:
        module = _reading(spec, lambda path: torch.load(path, map_location="cpu", weights_only=False))
        if not isinstance(module, torch.nn.Module):
            raise JobFailed(
                f"{Path(spec['path']).name} holds a {type(module).__name__}, not a module",
                remedy="Name the factory that its weights belong to (--model FILE.py:FACTORY).",
            )
        return module

    return remember(make)


def _lend_to_main(module: ModuleType) -> None:
    """A module pickled by a script names its classes under `__main__`; find them in the code that the user gave."""
    import __main__

    for name, value in vars(module).items():
        if not name.startswith("__") and not hasattr(__main__, name):
            setattr(__main__, name, value)


def _reading(spec: Spec, read: Callable[[str], Any]) -> Any:
    path = str(spec["path"])
    name = Path(path).name
    try:
        return read(path)
    except JobFailed:
        raise
    except (AttributeError, ImportError) as problem:
        raise user_error(
            problem, f"{name} cannot be loaded", "Add the source of its classes with --code FILE.py or --code FOLDER."
        ) from problem
    except UnpicklingError as problem:
        raise JobFailed(
            f"{name} holds pickled objects, which loading would run",
            remedy="Pass --trust if you know where the file comes from, or export the model without custom objects.",
        ) from problem
    except Exception as problem:
        text = next(iter(str(problem).strip().splitlines()), "")
        raise JobFailed(
            f"{name} cannot be loaded: {type(problem).__name__}: {text}",
            remedy=f"It may be damaged, or written by another version than torch {torch.__version__}.",
        ) from problem


@contextmanager
def _refuse_pickles(trust: bool) -> Iterator[None]:
    """torch.export.load unpickles whatever example inputs and constants need; without trust it must not."""
    original = torch.load
    if trust:
        yield
        return

    def load_weights_only(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **{**kwargs, "weights_only": True})

    torch.load = load_weights_only
    try:
        yield
    finally:
        torch.load = original


def trains(program: Any) -> bool:
    """Whether an operator of the program has its `train` or `training` argument set (dropout, batch norm)."""
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        for index, argument in enumerate(schema.arguments if schema else ()):
            if argument.name in {"train", "training"}:
                given = node.kwargs.get(argument.name, argument.default_value)
                if (node.args[index] if index < len(node.args) else given) is True:
                    return True
    return False
