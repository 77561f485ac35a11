"""What is known of Flax's own layers: what each of their parameters means, and which settings matter.

`axes` name the axes of a parameter: o and i for outputs and inputs, d, h, w for space, c for channels, v for a
vocabulary. `gates` are the blocks along o (r, z, n of a GRU; i, f, g, o of an LSTM), `part` says what they are applied
to. An upper-case axis runs the other way than in Keras and PyTorch, as in a transposed convolution.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SPACE = {3: "w", 4: "hw", 5: "dhw"}
NORMALISED = {"scale": "gamma", "bias": "beta", "mean": "mean", "var": "variance"}
CELLS: Mapping[str, str] = {"GRUCell": "rzn", "LSTMCell": "ifgo", "OptimizedLSTMCell": "ifgo"}
FUSED: Mapping[str, str] = {"dense_i": "input", "dense_h": "state"}
"""The two layers of nnx's recurrent cells, which hold all gates side by side."""
PARTS = {"i": "input", "h": "state"}
NOT_SETTINGS = frozenset(("name", "parent", "kernel_init", "bias_init", "scale_init", "param_dtype", "rngs"))


def parameter(path: tuple[str, ...], shape: tuple[int, ...], classes: Mapping[str, str]) -> dict[str, Any]:
    """Return module, class, kind, axes, gates, part and cell of the parameter at `path`; `classes` are those of the
    modules by their path, as far as they are known."""
    owner, name = "/".join(path[:-1]), path[-1]
    parent = "/".join(path[:-2])
    if classes.get(parent) in CELLS and len(path) > 1:
        return _recurrent(parent, classes[parent], path[-2], name)
    kind = classes.get(owner, "")
    row = {"module": owner, "class": kind, "gates": "", "part": "", "cell": ""}
    if "Norm" in kind or name in {"scale", "mean", "var"}:
        return {**row, "kind": NORMALISED.get(name, "other"), "axes": "c" if len(shape) == 1 else ""}
    if name == "embedding":
        return {**row, "kind": "embedding", "axes": "vc"}
    if name == "kernel" and kind in {"Dense", "Linear"}:
        return {**row, "kind": "kernel", "axes": "io" if len(shape) == 2 else ""}
    if name == "kernel" and "Conv" in kind:
        space = SPACE.get(len(shape), "")
        return {**row, "kind": "kernel", "axes": (space.upper() if kind == "ConvTranspose" else space) + "io"}
    if name == "bias":
        return {**row, "kind": "bias", "axes": "o" if len(shape) == 1 else ""}
    return {**row, "kind": "kernel" if "kernel" in name else "other", "axes": ""}


def _recurrent(parent: str, kind: str, layer: str, name: str) -> dict[str, Any]:
    """A gate of a cell: `ir/kernel`, `hn/bias`; or one of the two fused layers. Where only one layer of a gate has a
    bias, it stands for both parts; in a GRU the last gate has one in each."""
    gates, part = (CELLS[kind], FUSED[layer]) if layer in FUSED else (layer[1:], PARTS.get(layer[:1], ""))
    if name == "bias" and layer not in {"in", "hn"}:
        part = "both"
    axes = "io" if name == "kernel" else "o"
    kinds = {"kernel": "kernel", "bias": "bias"}
    row = {"module": parent, "class": kind, "kind": kinds.get(name, "other"), "axes": axes}
    return {**row, "gates": gates, "part": part, "cell": ""}


def settings(module: Any) -> dict[str, Any]:
    """Return the fields of a module as plain JSON."""
    names = getattr(module, "__dataclass_fields__", None) or vars(module)
    found = {name: plain(getattr(module, name, None)) for name in names if name not in NOT_SETTINGS}
    if type(module).__name__ in {"Conv", "ConvTranspose", "BatchNorm"}:
        found["data_format"] = "channels_last"
    if type(module).__name__ == "GRUCell":
        found["reset_after"] = True
    return {name: value for name, value in found.items() if value is not NOT_PLAIN}


NOT_PLAIN = object()


def plain(value: Any) -> Any:
    """Return plain JSON, the name of a function, or NOT_PLAIN."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        inner = [plain(each) for each in value]
        return NOT_PLAIN if NOT_PLAIN in inner else inner
    name = getattr(value, "__name__", None)
    return name if callable(value) and isinstance(name, str) else NOT_PLAIN
