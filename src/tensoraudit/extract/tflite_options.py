"""The options of TensorFlow Lite's operators by name: strides, paddings, axes, fused activations, subgraphs.

Numbers are those of schema.fbs, version 3 (LiteRT 2.3): the union `BuiltinOptions`, and the fields of its tables.
Options of operators that are not here are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tensoraudit.artifacts.flatbuffers import Table
from tensoraudit.artifacts.tflite_operators import TYPES
from tensoraudit.extract.onnx_schema import plain

_PADDING: Final = ("SAME", "VALID")
_ACTIVATION: Final = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
_MIRROR: Final = ("REFLECT", "SYMMETRIC")

_Read = Callable[[Table, int], Any]


def _one_of(words: tuple[str, ...]) -> _Read:
    def read(table: Table, field: int) -> str:
        number = table.number(field, "b")
        return words[number] if 0 <= number < len(words) else str(number)

    return read


def _number(default: int = 0) -> _Read:
    return lambda table, field: table.number(field, "i", default)


def _float(table: Table, field: int) -> float:
    import numpy as np

    value: float = plain(np.asarray([table.number(field, "f")], np.float32))[0]
    return value


def _flag(table: Table, field: int) -> bool:
    return bool(table.number(field, "B"))


def _numbers(table: Table, field: int) -> tuple[int, ...]:
    return table.numbers(field, "i")


_pad, _act, _int, _dtype = _one_of(_PADDING), _one_of(_ACTIVATION), _number(), _one_of(TYPES)
_STRIDES: Final = {"padding": (0, _pad), "stride_w": (1, _int), "stride_h": (2, _int)}
_FUSED: Final = {"fused_activation": (0, _act)}

_OPTIONS: Final[Mapping[int, Mapping[str, tuple[int, _Read]]]] = {
    1: {**_STRIDES, "fused_activation": (3, _act), "dilation_w": (4, _number(1)), "dilation_h": (5, _number(1))},
    2: {**_STRIDES, "depth_multiplier": (3, _int), "fused_activation": (4, _act), "dilation_w": (5, _number(1)),
        "dilation_h": (6, _number(1))},
    5: {**_STRIDES, "filter_width": (3, _int), "filter_height": (4, _int), "fused_activation": (5, _act)},
    8: {**_FUSED, "keep_num_dims": (2, _flag)},
    9: {"beta": (0, _float)},
    10: {"axis": (0, _int), "fused_activation": (1, _act)},
    11: _FUSED, 12: _FUSED, 21: _FUSED, 28: _FUSED, 29: _FUSED,
    13: {"radius": (0, _int), "bias": (1, _float), "alpha": (2, _float), "beta": (3, _float)},
    14: {**_FUSED, "cell_clip": (1, _float), "proj_clip": (2, _float)},
    15: {"align_corners": (2, _flag), "half_pixel_centers": (3, _flag)},
    17: {"new_shape": (0, _numbers)},
    19: {"block_size": (0, _int)}, 94: {"block_size": (0, _int)},
    23: {"axis": (0, _int), "batch_dims": (1, _int)},
    27: {"keep_dims": (0, _flag)},
    30: {"squeeze_dims": (0, _numbers)},
    32: {"begin_mask": (0, _int), "end_mask": (1, _int), "ellipsis_mask": (2, _int), "new_axis_mask": (3, _int),
         "shrink_axis_mask": (4, _int), "offset": (5, _flag)},
    35: {"num_splits": (0, _int)}, 79: {"num_splits": (0, _int)},
    37: {"in_type": (0, _dtype), "out_type": (1, _dtype)},
    40: {"output_type": (0, _dtype)}, 57: {"output_type": (0, _dtype)}, 55: {"out_type": (0, _dtype)},
    49: {**_STRIDES, "fused_activation": (3, _act)},
    59: {"values_count": (0, _int), "axis": (1, _int)}, 64: {"num": (0, _int), "axis": (1, _int)},
    61: {"axis": (0, _int)},
    71: {**_FUSED, "cell_clip": (1, _float), "proj_clip": (2, _float), "time_major": (3, _flag)},
    74: {"align_corners": (0, _flag), "half_pixel_centers": (1, _flag)},
    75: {"alpha": (0, _float)},
    77: {"mode": (0, _one_of(_MIRROR))},
    92: {"then_branch": (0, _int), "else_branch": (1, _int)},
    93: {"cond": (0, _int), "body": (1, _int)},
    101: {"adj_x": (0, _flag), "adj_y": (1, _flag)},
    102: {"exclusive": (0, _flag), "reverse": (1, _flag)},
    103: {"init": (0, _int)},
    116: {"approximate": (0, _flag)},
}  # fmt: skip
"""By the number of the options' table: name to (field, reader)."""
GRAPHS: Final = frozenset(("then_branch", "else_branch", "cond", "body", "init"))
"""Options that are numbers of subgraphs."""


def read_options(operator: Table) -> dict[str, Any]:
    """Return the options of an entry of `operators`. Raises FlatBufferError."""
    known, options = _OPTIONS.get(operator.number(3, "B")), operator.table(4)
    if known is None or options is None:
        return {}
    return {name: read(options, field) for name, (field, read) in known.items()}
