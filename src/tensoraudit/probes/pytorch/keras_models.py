"""A Keras file as a PyTorch module, with torch as Keras's backend."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import torch

from tensoraudit.probes.converted import Declared
from tensoraudit.probes.keras_files import KerasFile, read
from tensoraudit.probes.pytorch.loaded import Loaded, Spec, remember
from tensoraudit.routes.onnx_to_torch_onnx2torch import identifiers


class KerasModule(torch.nn.Module):  # type: ignore[misc]
    """The model of a file, always in inference mode; `weights` holds its variables by Keras's paths.

    Keras's own module tree names a weight by where the model's code put it, and its layers call no hooks.
    """

    declared: Declared
    _arguments: list[str]
    _file: KerasFile

    def __init__(self, file: KerasFile) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterDict({str(each.path): each.value for each in file.model.variables})
        self.__dict__["_file"] = file
        self.__dict__["declared"] = file.declared

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model. Keras moves what it gets to its own device, so that has to be the one of the weights."""
        import keras

        values = [*args, *(kwargs[name] for name in self._arguments[len(args) :] if name in kwargs)]
        given, options = self._file.arrange(values)
        devices = {each.device.type for each in (*self.parameters(), *args) if isinstance(each, torch.Tensor)}
        with keras.device("gpu" if "cuda" in devices else "cpu"):
            return self._file.in_order(self._file.model(*given, **options))

    def __deepcopy__(self, memo: Any) -> KerasModule:
        raise TypeError("a Keras model copies itself through its own file format: load it again instead")


def load_keras(spec: Spec) -> Loaded:
    """Load a `.keras` or `.h5` file. Inputs are called as the Keras model calls them. Raises JobFailed."""

    def make() -> torch.nn.Module:
        return _named(read(spec, "torch", "pytorch"))

    return remember(make)


def _named(file: KerasFile) -> KerasModule:
    """The module, of a class whose forward takes the inputs by their names."""
    names = identifiers([argument.name for argument in file.signature.arguments])
    kinds = [argument.required for argument in file.signature.arguments]
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    rest = [
        inspect.Parameter(name, own.kind, default=inspect.Parameter.empty if required else None)
        for name, required in zip(names, kinds)  # noqa: B905 - Python 3.9
    ]

    def forward(self: KerasModule, *args: Any, **kwargs: Any) -> Any:
        return KerasModule.forward(self, *args, **kwargs)

    forward.__signature__ = inspect.Signature([own, *rest])  # type: ignore[attr-defined]
    kind = type(type(file.model).__name__, (KerasModule,), {"forward": forward, "_arguments": names})
    inputs = dict(zip(names, file.declared.inputs.values()))  # noqa: B905
    called = dict(zip(file.declared.inputs, names))  # noqa: B905
    return kind(replace(file, declared=replace(file.declared, inputs=inputs, called=called)))  # type: ignore[no-any-return]
