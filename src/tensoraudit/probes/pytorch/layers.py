"""What is known of PyTorch's own layers: what each of their parameters means, and which settings matter.

`axes` name the axes of a parameter: o and i for outputs and inputs, d, h, w for space, c for channels, v for a
vocabulary. `gates` are the blocks along o (r, z, n of a GRU; i, f, g, o of an LSTM), `part` says what they are applied
to.
"""

from __future__ import annotations

from typing import Any

import torch

SPACE = {"1d": "w", "2d": "hw", "3d": "dhw"}
GATES = {"GRU": "rzn", "LSTM": "ifgo", "RNN": "o"}
NORMALISED = {"weight": "gamma", "bias": "beta", "running_mean": "mean", "running_var": "variance"}
NORMS = ("BatchNorm", "SyncBatchNorm", "LayerNorm", "GroupNorm", "InstanceNorm", "RMSNorm")
SETTINGS = {
    **{"eps": "epsilon", "momentum": "momentum", "padding": "padding", "stride": "strides", "dilation": "dilation"},
    **{"kernel_size": "kernel_size", "groups": "groups", "padding_mode": "padding_mode", "approximate": "approximate"},
    **{"negative_slope": "negative_slope", "p": "rate", "dim": "axis", "align_corners": "align_corners"},
    **{"mode": "mode", "ceil_mode": "ceil_mode", "count_include_pad": "count_include_pad"},
    **{"batch_first": "batch_first", "bidirectional": "bidirectional", "num_layers": "num_layers"},
    **{"output_padding": "output_padding", "affine": "affine", "num_groups": "groups", "nonlinearity": "activation"},
}
"""Attributes of modules, and what they are called in a configuration."""


def parameter(module: torch.nn.Module, name: str) -> dict[str, Any]:
    """Return kind, axes, gates, part and cell of one of a module's own parameters or buffers."""
    kind = type(module).__name__
    if kind.startswith(NORMS):
        return _known(NORMALISED.get(name, "other"), "c" if name in NORMALISED else "")
    if recurrent := next((each for each in GATES if kind in {each, f"{each}Cell"}), None):
        return _recurrent(GATES[recurrent], name)
    if kind in {"Embedding", "EmbeddingBag"}:
        return _known("embedding", "vc")
    if kind == "Linear" and name == "weight":
        return _known("kernel", "oi")
    if kind.startswith("Conv") and name == "weight":
        order = "io" if kind.startswith("ConvTranspose") else "oi"
        return _known("kernel", order + SPACE.get(kind[-2:], ""))
    if "bias" in name:
        return _known("bias", "o" if kind == "Linear" or kind.startswith("Conv") else "")
    return _known("kernel" if "weight" in name or "kernel" in name else "other", "")


def _known(kind: str, axes: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "axes": axes, "gates": "", "part": "", "cell": "", **more}


def _recurrent(gates: str, name: str) -> dict[str, Any]:
    """`weight_ih_l0_reverse`: what it is, what it is applied to, and of which of the stacked cells it is."""
    what, _, rest = name.partition("_")
    part, _, cell = rest.partition("_")
    parts = {"ih": "input", "hh": "state"}
    if what not in {"weight", "bias"} or part not in parts:
        return _known("other", "")
    kind, axes = ("kernel", "oi") if what == "weight" else ("bias", "o")
    return _known(kind, axes, gates=gates, part=parts[part], cell="" if cell == "l0" else cell)


def settings(module: torch.nn.Module) -> dict[str, Any]:
    """Return a module's configuration as plain JSON."""
    found = {word: plain(getattr(module, name)) for name, word in SETTINGS.items() if hasattr(module, name)}
    if type(module).__name__.startswith(("Conv", "BatchNorm", "MaxPool", "AvgPool", "InstanceNorm")):
        found["data_format"] = "channels_first"
    if type(module).__name__ in {"GRU", "GRUCell"}:
        found["reset_after"] = True
    if module.training:
        found["training"] = True
    return {word: value for word, value in found.items() if value is not NOT_PLAIN}


NOT_PLAIN = object()


def plain(value: Any) -> Any:
    """Return plain JSON, or NOT_PLAIN."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)) and all(isinstance(each, (int, float, str)) for each in value):
        return list(value)
    return NOT_PLAIN
