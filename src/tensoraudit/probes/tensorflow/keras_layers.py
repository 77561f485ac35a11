"""What is known of Keras's own layers: what each of their variables means, and which settings matter.

`axes` name the axes of a variable: o and i for outputs and inputs, d, h, w for space, c for channels, v for a
vocabulary, m for the multiplier of a depthwise kernel, p for the two rows (inputs, state) of a bias. `gates` are the
blocks along o (z, r, n of a GRU; i, f, g, o of an LSTM), `part` says what they are applied to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

SPACE = {"1D": "w", "2D": "hw", "3D": "dhw"}
GATES = {"GRU": "zrn", "LSTM": "ifgo", "SimpleRNN": "o"}
NORMALISED = {
    **{"gamma": "gamma", "scale": "gamma", "beta": "beta"},
    **{"moving_mean": "mean", "moving_variance": "variance"},
}
SETTINGS = frozenset(
    (
        *("epsilon", "momentum", "padding", "strides", "dilation_rate", "kernel_size", "groups", "activation"),
        *("recurrent_activation", "reset_after", "data_format", "axis", "rate", "negative_slope", "alpha", "use_bias"),
        *("return_sequences", "go_backwards", "pool_size", "interpolation", "size", "units", "filters", "center"),
        *("scale", "depth_multiplier", "output_padding", "target_shape", "approximate", "max_value"),
    )
)
GENERATOR = "seed_generator_state"


def owners(model: Any) -> Iterator[Any]:
    """Yield the layers that own variables or compute by themselves, in the model's order; a recurrent layer owns the
    variables of its cell."""
    for layer in model._flatten_layers(include_self=True, recursive=True):
        kind = type(layer).__name__
        if kind.endswith("Cell") and _inside_recurrent(layer, model):
            continue
        yield layer


def _inside_recurrent(layer: Any, model: Any) -> bool:
    return any(getattr(each, "cell", None) is layer for each in model._flatten_layers())


def own_variables(layer: Any) -> list[Any]:
    """The variables of a layer itself, or of its cell."""
    found = [*layer._trainable_variables, *layer._non_trainable_variables]
    cell = getattr(layer, "cell", None)
    if cell is not None and hasattr(cell, "_trainable_variables"):
        found += [*cell._trainable_variables, *cell._non_trainable_variables]
    return [each for each in found if GENERATOR not in path_of(each)]


def path_of(variable: Any) -> str:
    """The name of a variable within its model."""
    return str(getattr(variable, "path", None) or variable.name)


def parameter(layer: Any, variable: Any) -> dict[str, Any]:
    """Return kind, axes, gates, part and cell of one variable."""
    kind, name = type(layer).__name__, path_of(variable).rpartition("/")[2].partition(":")[0]
    if "Normalization" in kind:
        return _known(NORMALISED.get(name, "other"), "c" if name in NORMALISED and len(variable.shape) == 1 else "")
    for recurrent, gates in GATES.items():
        if kind in {recurrent, f"{recurrent}Cell"}:
            return _recurrent(name, gates, len(variable.shape))
    if kind == "Embedding":
        return _known("embedding", "vc")
    if kind == "Dense" and name == "kernel":
        return _known("kernel", "io")
    if "Conv" in kind and "kernel" in name:
        return _known("kernel", _convolution(kind, name))
    if "bias" in name:
        return _known("bias", "o" if len(variable.shape) == 1 else "")
    return _known("kernel" if "kernel" in name else "other", "")


def _convolution(kind: str, name: str) -> str:
    space = next((axes for rank, axes in SPACE.items() if rank in kind), "")
    if kind.startswith("Depthwise") or name.startswith("depthwise"):
        return space + "im"
    return space + ("oi" if "Transpose" in kind else "io")


def _known(kind: str, axes: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "axes": axes, "gates": "", "part": "", "cell": "", **more}


def _recurrent(name: str, gates: str, rank: int) -> dict[str, Any]:
    if name == "bias":
        return _known("bias", "po" if rank == 2 else "o", gates=gates, part="" if rank == 2 else "both")
    return _known("kernel", "io", gates=gates, part="state" if name == "recurrent_kernel" else "input")


def settings(layer: Any) -> dict[str, Any]:
    """Return a layer's configuration as plain JSON."""
    try:
        config = dict(layer.get_config())
    except Exception:  # a class of the user's without a configuration: its attributes may still tell
        config = {name: getattr(layer, name) for name in SETTINGS if hasattr(layer, name)}
    return {name: value for name, each in config.items() if name in SETTINGS and (value := _plain(each)) is not _ODD}


_ODD = object()


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)) and all(isinstance(each, (int, float, str)) for each in value):
        return list(value)
    name = value.get("config") if isinstance(value, dict) else getattr(value, "__name__", None)
    return name if isinstance(name, str) else _ODD
