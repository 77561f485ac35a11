"""Which globals of a pickle are harmless: they rebuild tensors and plain containers and can do nothing else.

Three tables, so that adding a name is one line. `torch.load(weights_only=True)` of torch 2.13 has the first two
(torch/_weights_only_unpickler.py); the third rebuilds NumPy arrays and plain values, which torch refuses by default
although they cannot do harm. Everything else is listed to the user and needs `--trust`.
"""

from __future__ import annotations

import re
from typing import Final

_TORCH: Final = re.compile(
    r"torch\.(?:_utils\._rebuild_(?:parameter|parameter_with_state|qtensor|tensor|tensor_v2|tensor_v3|sparse_tensor"
    r"|meta_tensor_no_storage|nested_tensor|wrapper_subclass|device_tensor_from_numpy|device_tensor_from_cpu_tensor)"
    r"|_tensor\._rebuild_from_type_v2|nn\.parameter\.Parameter|serialization\._get_layout|Size|Tensor|device"
    r"|(?:cuda\.)?(?:Bool|Byte|Char|Short|Int|Long|Half|BFloat16|Float|Double|ComplexFloat|ComplexDouble)Storage"
    r"|(?:QInt8|QUInt8|QInt32|QUInt4x2|QUInt2x4)Storage|storage\.(?:Untyped|Typed)Storage"
    r"|(?:u?int(?:1|2|3|4|5|6|7|8|16|32|64)|bits(?:1x8|2x4|4x2|8|16)|q(?:u?int8|int32|uint4x2|uint2x4)|bool"
    r"|float16|bfloat16|float32|float64|complex32|complex64|complex128"
    r"|float(?:8_e4m3fn|8_e4m3fnuz|8_e5m2|8_e5m2fnuz|8_e8m0fnu|4_e2m1fn_x2))"
    r"|per_(?:tensor|channel)_(?:affine|symmetric|affine_float_qparams))"
)
_PYTHON: Final = frozenset({
    "collections.OrderedDict", "collections.Counter", "_codecs.encode", "builtins.bytearray", "builtins.set",
    "builtins.complex",
})  # fmt: skip
_PLAIN: Final = frozenset({
    "torch._utils._rebuild_sparse_csr_tensor", "torch._utils._rebuild_xla_tensor",
    "numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct", "numpy.core.multiarray.scalar",
    "numpy._core.multiarray.scalar", "numpy.core.numeric._frombuffer", "numpy._core.numeric._frombuffer",
    "numpy.ndarray", "numpy.dtype", "builtins.frozenset", "builtins.slice", "builtins.range", "builtins.bytes",
    "builtins.int", "builtins.float", "builtins.bool", "builtins.str", "builtins.list", "builtins.dict",
    "builtins.tuple", "builtins.object", "copyreg._reconstructor", "datetime.datetime", "datetime.date",
    "datetime.timedelta", "decimal.Decimal",
})  # fmt: skip


def is_safe_for_torch(name: str) -> bool:
    """Whether `torch.load(weights_only=True)` accepts the dotted global without further ado."""
    return name in _PYTHON or _TORCH.fullmatch(name) is not None


def is_harmless(name: str) -> bool:
    """Whether the dotted global can do no more than rebuild data."""
    return is_safe_for_torch(name) or name in _PLAIN
