"""pytorch.describe: what a model is, without running it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tensoraudit.probes.protocol import Session
from tensoraudit.probes.pytorch.devices import pinned
from tensoraudit.probes.pytorch.loaded import Loaded
from tensoraudit.probes.pytorch.model import Model, open_model
from tensoraudit.probes.pytorch.samples import dynamic_dims, flat
from tensoraudit.probes.pytorch.tensors import describe_leaf, dtype_name
from tensoraudit.routes.source import in_package, is_machinery


def describe(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Load the model and describe it: class, mode, arguments, weights, modules, own samples, source files.

    `embedding_sizes` maps each embedding's path to its number of rows, the bound of ids that go into it.
    Raises JobFailed when the model cannot be loaded.
    """
    with pinned():
        model = open_model(session, params["model"])
        module = model.loaded.module
        return {
            "class": _class_name(module),
            "training": model.loaded.training,
            "arguments": _arguments(model),
            "parameters": [_tensor(name, each) for name, each in module.named_parameters()],
            "buffers": [_tensor(name, each) for name, each in module.named_buffers()],
            "embedding_sizes": embedding_sizes(module),
            "samples": [
                {
                    "name": f"sample-{index}",
                    "arrays": {name: describe_leaf(session, leaf) for name, leaf in flat(sample).items()},
                }
                for index, sample in enumerate(model.samples)
            ],
            "dynamic": dynamic_dims(model.loaded, list(model.samples), model.attribute),
            "source_files": source_files(model.loaded),
            "modules": [{"path": path, "class": _class_name(each)} for path, each in module.named_modules()],
            "classes": _classes(module),
        }


def _classes(module: torch.nn.Module) -> list[str]:
    """The qualified names of all classes that the model is made of, those that they inherit from included."""
    return sorted({base.__qualname__ for each in module.modules() for base in type(each).__mro__})


def _class_name(module: torch.nn.Module) -> str:
    if isinstance(module, torch.jit.ScriptModule):
        return str(module._c.qualified_name).removeprefix("__torch__.")
    return type(module).__qualname__


def _tensor(name: str, tensor: torch.Tensor) -> dict[str, Any]:
    return {"name": name, "dtype": dtype_name(tensor.dtype), "shape": list(tensor.shape)}


def _arguments(model: Model) -> list[dict[str, Any]]:
    arguments = [argument for argument in model.signature.arguments if argument.kind in {"positional", "keyword"}]
    return [{"name": each.name, "required": each.required, "annotation": each.annotation} for each in arguments]


def embedding_sizes(module: torch.nn.Module) -> dict[str, int]:
    """Return the number of rows of every embedding, by path; a script's modules are known by their names."""
    sizes = {}
    for path, each in module.named_modules():
        name = _class_name(each).rpartition(".")[2]
        weight = getattr(each, "weight", None)
        if name in {"Embedding", "EmbeddingBag"} and isinstance(weight, torch.Tensor):
            sizes[path] = int(weight.shape[0])
    return sizes


def source_files(loaded: Loaded) -> list[str]:
    """Return the user's Python files that define the model: its classes, their bases and the factory.

    Files of installed packages are left out, except the one that the user named.
    """
    files = {
        path
        for each in loaded.module.modules()
        for kind in type(each).__mro__
        if (path := _file(kind)) and not in_package(path)
    }
    if loaded.home is not None and getattr(loaded.home, "__file__", None):
        files.add(str(Path(str(loaded.home.__file__)).resolve()))
    return sorted(files)


def _file(kind: type) -> str | None:
    try:
        path = inspect.getsourcefile(kind)
    except (TypeError, OSError):
        return None
    return str(Path(path).resolve()) if path and not is_machinery(path) and Path(path).is_file() else None
