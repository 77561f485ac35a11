"""Between tensor references and ONNX Runtime's own values: no cast, ever; what cannot be carried is named.

bfloat16 has no numpy twin: it travels as float32 (exact) with `logical` set, and is narrowed and widened here bit by
bit. It must not know sessions of ONNX Runtime or how samples are paired with inputs.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tensoraudit.probes.protocol import Session

BFLOAT16 = 16
"""TensorProto.DataType of bfloat16 (onnx.proto)."""

ELEMENTS = {
    "float": "float32",
    "double": "float64",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "bool": "bool",
    **{name: name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
}
"""Element types of `tensor(...)` that can be carried, and their common names."""

SCALARS: dict[type, tuple[str, ...]] = {
    bool: ("bool",),
    int: ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
    float: ("float64", "float32", "float16"),
}
"""Element types that a Python scalar may become; it has no dtype of its own to be faithful to."""


class MismatchError(ValueError):
    """A sample's array is not what the model's input wants."""


class UnsupportedValueError(TypeError):
    """A value of a kind that cannot be carried between processes."""


def element_of(type_text: str) -> str | None:
    """Return the common dtype name of an ONNX Runtime type such as `tensor(float)`; None for what is no such tensor."""
    if not (type_text.startswith("tensor(") and type_text.endswith(")")):
        return None
    return ELEMENTS.get(type_text[len("tensor(") : -1])


def feed(name: str, wanted: str, given: Any, session: Session) -> Any:
    """Return the OrtValue for one input from a tensor reference or `{"value": scalar}`.

    `wanted` is the input's ONNX Runtime type. Raises MismatchError when the dtypes differ: a cast would hide it.
    """
    element = element_of(wanted)
    if element is None:
        raise MismatchError(f"input {name!r} is a {wanted}, which cannot be fed")
    if "file" not in given:
        return _ort_value(_scalar(name, element, given.get("value")), element)
    array = session.get(given)
    have = str(given.get("logical") or array.dtype.name)
    if have != element:
        raise MismatchError(f"input {name!r} is {have} in the sample, but the model takes {element}")
    return _ort_value(array, element)


def _scalar(name: str, element: str, value: Any) -> np.ndarray[Any, Any]:
    if element not in SCALARS.get(type(value), ()):
        raise MismatchError(
            f"input {name!r} is the Python value {value!r} in the sample, but the model takes {element}"
        )
    return np.array(value, dtype=element)


def _ort_value(array: np.ndarray[Any, Any], element: str) -> Any:
    import onnxruntime

    dense = np.asarray(array, order="C")  # ascontiguousarray would turn a scalar into a vector
    if element == "bfloat16":
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(narrow_bfloat16(dense), BFLOAT16)
    return onnxruntime.OrtValue.ortvalue_from_numpy(dense)


def narrow_bfloat16(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the bit patterns (uint16) of float32 values that came from bfloat16."""
    return (array.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def widen_bfloat16(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the float32 values of bfloat16 bit patterns (uint16); exact."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def read_value(value: Any) -> tuple[np.ndarray[Any, Any], str | None]:
    """Return the array of an output and, where numpy has no twin, the name of its dtype.

    Raises UnsupportedValueError for sequences, maps, empty optionals, strings and types narrower than a byte.
    """
    if not value.has_value():
        raise UnsupportedValueError("an optional without a value cannot be compared")
    if not value.is_tensor():
        raise UnsupportedValueError(f"a value of type {value.data_type()} cannot be compared: only tensors can")
    element = element_of(value.data_type())
    if element is None:
        raise UnsupportedValueError(f"a value of type {value.data_type()} cannot be carried between processes")
    if element == "bfloat16":
        return widen_bfloat16(_raw_words(value)), "bfloat16"
    array: np.ndarray[Any, Any] = value.numpy()
    return array, None


def _raw_words(value: Any) -> np.ndarray[Any, Any]:
    """The 16-bit words of a tensor in main memory; `OrtValue.numpy` refuses bfloat16."""
    if value.device_name() != "cpu":
        raise UnsupportedValueError(f"a bfloat16 tensor on {value.device_name()} cannot be read")
    shape = tuple(value.shape())
    size = 2 * int(np.prod(shape, dtype=np.int64))
    content = ctypes.string_at(value.data_ptr(), size) if size else b""
    return np.frombuffer(content, dtype=np.uint16).reshape(shape)
