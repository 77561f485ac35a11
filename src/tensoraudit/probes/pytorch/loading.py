"""From a model spec to a module that can run, and fresh copies of it.

The loaded module itself is never run: forward may change it. Every run, trace and export works on a copy.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from types import ModuleType
from typing import Any

import torch

from tensoraudit.probes.protocol import JobFailed, JobUnsupported, Session
from tensoraudit.probes.pytorch.devices import seed_everything
from tensoraudit.probes.pytorch.user_code import add_code, find, import_file, import_module, user_error
from tensoraudit.probes.pytorch.weights import load_weights

SHARED_ABOVE = 512 << 20
"""Bytes of parameters above which copies share them: a forward that edits parameters in place then goes unseen."""

Spec = Mapping[str, Any]


@dataclass(frozen=True)
class Loaded:
    """A model as it was handed over. `program` is set for an ExportedProgram; `home` and `factory` for Python objects.

    `training` is the module's own flag; for an ExportedProgram, whether an operator in its graph is in training mode.
    """

    module: torch.nn.Module
    training: bool
    reload: Callable[[], torch.nn.Module]
    program: Any = None
    home: ModuleType | None = None
    factory: Any = None

    @property
    def scripted(self) -> bool:
        """Whether the module is TorchScript, which has no Python frames and takes no hooks."""
        return isinstance(self.module, torch.jit.ScriptModule)

    def fresh(self, *, evaluate: bool, share: bool | None = None) -> torch.nn.Module:
        """Return a copy in its first state, in eval mode or in the mode that it was handed over in.

        `share` says whether parameters are shared with other copies; None decides by their size.
        """
        share = self.weight_bytes > SHARED_ABOVE if share is None else share
        module = self._copy(share)
        if evaluate and self.program is None:
            module.eval()
        return module

    def _copy(self, share: bool) -> torch.nn.Module:
        memo = {id(parameter): parameter for parameter in self.module.parameters()} if share else {}
        try:
            return copy.deepcopy(self.module, memo)
        except Exception:  # locks, generators, tensors with history: whatever cannot be copied can be made again
            return self.reload()

    @property
    def weight_bytes(self) -> int:
        """The size of parameters and buffers."""
        tensors = [*self.module.parameters(), *self.module.buffers()]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def load(session: Session, spec: Spec) -> Loaded:
    """Return the model of a spec, from the session's cache when it was loaded before and its files are unchanged.

    Raises JobFailed with what, where and what to do.
    """
    key = "pytorch.model " + json.dumps([dict(spec), _stamps(spec)], sort_keys=True)
    if key not in session.cache:
        for old in [name for name in session.cache if name.startswith("pytorch.model ")]:
            del session.cache[old]  # one model at a time: two large ones do not fit under the memory limit
        session.progress("loading the model")
        session.cache[key] = _load(spec)
    loaded: Loaded = session.cache[key]
    return loaded


def _stamps(spec: Spec) -> list[Any]:
    files = [Path(path) for path in (spec.get("path"), spec.get("state_dict")) if path]
    return [(file.stat().st_mtime_ns, file.stat().st_size) if file.is_file() else None for file in files]


def _load(spec: Spec) -> Loaded:
    add_code(spec.get("code") or ())
    seed_everything(int(spec.get("seed") or 0))  # untrained weights are the same in every worker, however they are made
    loader = LOADERS.get(spec["format"])
    if loader is None:
        raise JobUnsupported(f"PyTorch runs no model of the format {spec['format']!r}")
    return loader(spec)


def _remembering(make: Callable[[], torch.nn.Module], **more: Any) -> Loaded:
    module = make()
    return Loaded(module, training=bool(module.training), reload=make, **more)


def _load_torchscript(spec: Spec) -> Loaded:
    def make() -> torch.nn.Module:
        module = _reading(spec, lambda path: torch.jit.load(path, map_location="cpu"))
        assert isinstance(module, torch.nn.Module)
        return module

    return _remembering(make)


def _load_exported_program(spec: Spec) -> Loaded:
    def read(path: str) -> Any:
        with _refuse_pickles(bool(spec.get("trust"))):
            return torch.export.load(path)

    program = _reading(spec, read)
    module: torch.nn.Module = program.module()
    return Loaded(module, training=_trains(program), reload=lambda: _reading(spec, read).module(), program=program)


def _load_pickled_module(spec: Spec) -> Loaded:
    if not spec.get("trust"):
        raise JobFailed(
            f"{Path(spec['path']).name} is a pickled module, and loading it runs code that is stored in it",
            remedy="Pass --trust if you know where the file comes from.",
        )
    for path in spec.get("code") or ():
        if Path(path).is_file():
            _lend_to_main(import_file(path))

    def make() -> torch.nn.Module:
        module = _reading(spec, lambda path: torch.load(path, map_location="cpu", weights_only=False))
        if not isinstance(module, torch.nn.Module):
            raise JobFailed(
                f"{Path(spec['path']).name} holds a {type(module).__name__}, not a module",
                remedy="Name the factory that its weights belong to (--model FILE.py:FACTORY).",
            )
        return module

    return _remembering(make)


def _lend_to_main(module: ModuleType) -> None:
    """A module pickled by a script names its classes under `__main__`; find them in the code that the user gave."""
    import __main__

    for name, value in vars(module).items():
        if not name.startswith("__") and not hasattr(__main__, name):
            setattr(__main__, name, value)


def _load_python_object(spec: Spec) -> Loaded:
    home = import_file(spec["path"]) if spec.get("path") else import_module(str(spec.get("module")))
    what = Path(spec["path"]).name if spec.get("path") else str(spec.get("module"))
    attribute = str(spec.get("attribute") or "")
    factory = find(home, attribute, what)

    def make() -> torch.nn.Module:
        seed_everything(int(spec.get("seed") or 0))  # again, because a copy may be made this way later
        module = _build(factory, f"{what}:{attribute}")
        if spec.get("state_dict"):
            load_weights(module, spec["state_dict"], key=spec.get("state_key"), trust=bool(spec.get("trust")))
        return module

    if isinstance(factory, torch.export.ExportedProgram):
        return Loaded(factory.module(), _trains(factory), factory.module, program=factory, home=home, factory=factory)
    if isinstance(factory, torch.nn.Module) and not spec.get("state_dict"):
        return Loaded(factory, bool(factory.training), lambda: _no_copy(what, attribute), home=home, factory=factory)
    return _remembering(make, home=home, factory=factory)


def _no_copy(what: str, attribute: str) -> torch.nn.Module:
    raise JobFailed(
        f"{what}:{attribute} is a model that cannot be copied, so its state cannot be put back between runs",
        remedy="Write a function that builds it, and name that function.",
    )


def _build(factory: Any, what: str) -> torch.nn.Module:
    """Make the module: an instance is copied, a class or function is called without arguments."""
    if isinstance(factory, torch.nn.Module):
        return copy.deepcopy(factory)
    if not callable(factory):
        raise JobFailed(
            f"{what} is a {type(factory).__name__}, not a module, a module class or a function that returns one",
            remedy="Name one of these after the colon.",
        )
    try:
        module = factory()
    except (Exception, SystemExit) as problem:
        needs = _needs(factory)
        if needs:
            raise JobFailed(
                f"{what} needs arguments: {', '.join(needs)}",
                remedy="Write a function without arguments that builds the model with the right ones, and name that function.",
            ) from problem
        raise user_error(problem, f"{what} cannot build the model") from problem
    if isinstance(module, torch.nn.Module):
        return module
    raise JobFailed(
        f"{what} returns a {type(module).__name__}, not a torch.nn.Module", remedy="Return the model itself from it."
    )


def _needs(factory: Any) -> list[str]:
    import inspect

    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return []
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in variable]


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
    """torch.export.load falls back to unpickling anything (example inputs, custom constants); without trust it must not."""
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


def _trains(program: Any) -> bool:
    """Whether an operator of the program has its `train` or `training` argument set (dropout, batch norm)."""
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        for index, argument in enumerate(schema.arguments if schema else ()):
            if argument.name in {"train", "training"}:
                value = (
                    node.args[index]
                    if index < len(node.args)
                    else node.kwargs.get(argument.name, argument.default_value)
                )
                if value is True:
                    return True
    return False


LOADERS: Mapping[str, Callable[[Spec], Loaded]] = {
    "torchscript": _load_torchscript,
    "exported_program": _load_exported_program,
    "pickled_module": _load_pickled_module,
    "python_object": _load_python_object,
}
