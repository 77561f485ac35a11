"""What a rule may ask: the kinds of facts, their fields, and which tests fit which field. Data only.

The names of fields are those of the dataclasses in `facts/`; a test checks that each exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_EVERYWHERE = frozenset({"is", "in", "not", "present"})
_ORDER = frozenset({"lt", "le", "gt", "ge"})
_QUANTIFIERS = frozenset({"any", "every", "none", "count"})
_TEXT = _EVERYWHERE | {"regex", "contains", "version"}
_DATA = _TEXT | _ORDER | _QUANTIFIERS | {"index"}


DTYPES: Final = (
    "float32", "float16", "bfloat16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "bool", "string", "complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0", "float8_e8m0fnu", "float6_e2m3", "float6_e3m2", "float4_e2m1",
    "int4", "uint4", "int2", "uint2", "qint8", "quint8", "qint32", "quint4x2", "quint2x4",
)  # fmt: skip
"""What the extractors call the types of elements. Types of no tensor are written `sequence(float32)`."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """A type of field: its name in messages, the operators that fit, and the type of its elements.

    `short` says what a bare scalar or list stands for: an equal value, a version range, or a name pattern that one of
    the elements must match. `entries` is set for mappings whose keys a rule names. `scalars` are the types of a scalar
    that can be equal, `words` the only texts that can.
    """

    label: str
    operators: frozenset[str]
    element: FieldType | None = None
    short: str = "equal"
    entries: FieldType | None = None
    scalars: tuple[type, ...] = (str, int, float, bool, type(None))
    words: tuple[str, ...] = ()


TEXT: Final = FieldType("text", _TEXT, scalars=(str,))
WRITTEN: Final = FieldType("text", _TEXT, short="pattern", scalars=(str,))
"""Text as it stands in the source: a bare word is a name pattern."""
DTYPE: Final = FieldType("dtype", _TEXT, scalars=(str,), words=DTYPES)
NUMBER: Final = FieldType("number", _EVERYWHERE | _ORDER, scalars=(int, float))
BOOLEAN: Final = FieldType("true or false", _EVERYWHERE, scalars=(bool,))
VERSION: Final = FieldType("version", _TEXT, short="version", scalars=(str,))
SIDE: Final = FieldType("side", _EVERYWHERE, scalars=(str,), words=("source", "target"))
STORE: Final = FieldType("kind of write", _EVERYWHERE, scalars=(str,), words=("set", "augment", "item"))
ROLE: Final = FieldType("role", _EVERYWHERE, scalars=(str,), words=("input", "output", "initializer", "intermediate"))
DATA: Final = FieldType("value", _DATA)
ARGUMENT: Final = FieldType("argument", _DATA | {"literal", "name", "known"})
CONSTANT: Final = FieldType("constant", _DATA)
DIMENSION: Final = FieldType("dimension", _EVERYWHERE | _ORDER | {"dim", "regex"}, scalars=(int, str))
SHAPE: Final = FieldType("shape", _EVERYWHERE | _QUANTIFIERS | {"rank", "index"}, DIMENSION, short="refused")
TEXTS: Final = FieldType("list of texts", _EVERYWHERE | _QUANTIFIERS | {"contains", "index"}, TEXT)
NAMES: Final = FieldType("list of names", TEXTS.operators, TEXT, short="name")
OPERANDS: Final = FieldType("list of arguments", TEXTS.operators, ARGUMENT)
BY_KEY: Final = FieldType("values by key", frozenset(), entries=DATA)
NUMBER_BY_KEY: Final = FieldType("numbers by key", frozenset(), entries=NUMBER)
ARGUMENTS: Final = FieldType("arguments", frozenset(), entries=ARGUMENT)

VALUE_FIELDS: Final[Mapping[str, FieldType]] = {
    "name": TEXT, "role": ROLE, "dtype": DTYPE, "shape": SHAPE, "constant": CONSTANT, "graph": TEXT,
}  # fmt: skip
"""The fields of a value, where it is an element of a list or an end of an edge."""
RECORD: Final = FieldType("value of a graph", _EVERYWHERE)
VALUES: Final = FieldType("list of values", _QUANTIFIERS | {"index"}, RECORD)

COMMON: Final[Mapping[str, FieldType]] = {"side": SIDE, "path": TEXT}
"""Fields of every kind. `path` is that of the fact's place."""

ANCHORS: Final[Mapping[str, Mapping[str, FieldType]]] = {
    "call": {
        "args": ARGUMENTS, "effective": ARGUMENTS, "written": WRITTEN, "assigned": TEXT, "splat": BOOLEAN,
        "double_splat": BOOLEAN, "ambiguous": BOOLEAN, "dropped": BOOLEAN,
    },
    "import": {"names": NAMES},
    "reference": {"store": STORE, "value": ARGUMENT, "ambiguous": BOOLEAN},
    "operation": {"operands": OPERANDS, "calls": NAMES, "names": NAMES},
    "class": {"bases": NAMES, "methods": NAMES},
    "function": {"decorators": NAMES},
    "model": {
        "producer": TEXT, "version": NUMBER, "opsets": NUMBER_BY_KEY, "inputs": VALUES, "outputs": VALUES,
        "metadata": BY_KEY,
    },
    "node": {
        "domain": TEXT, "opset": NUMBER, "name": TEXT, "attributes": BY_KEY, "inputs": TEXTS, "outputs": TEXTS,
        "graph": TEXT, "overload": TEXT, "metadata": BY_KEY,
    },
    "value": {key: kind for key, kind in VALUE_FIELDS.items() if key != "name"},
    "tensor": {
        "dtype": DTYPE, "shape": SHAPE, "file": TEXT, "offset": NUMBER, "bytes": NUMBER, "location": TEXT,
    },
    "checkpoint": {"files": TEXTS, "imports": NAMES, "metadata": BY_KEY},
    "package": {"version": VERSION},
    "variable": {"value": TEXT},
    "device": {"name": TEXT, "capability": TEXT, "driver": TEXT},
    "measurement": {
        "subject": TEXT, "value": DATA, "unit": TEXT, "probe": TEXT, "seed": NUMBER, "target": TEXT, "detail": TEXT,
    },
}  # fmt: skip
"""The fields of each kind that can be tested, beside its name."""

SPARSE: Final = frozenset({"model", "checkpoint", "package", "variable", "device", "measurement", "class", "function"})
"""Kinds of which there are few, so that an anchor without a literal name costs nothing."""

ALSO_INDEXED: Final[Mapping[str, str]] = {
    "class": "bases",
    "function": "decorators",
    "node": "domain",
    "tensor": "location",
    "value": "role",
}
"""A second field that can find the facts of a kind when their name cannot."""

UNSELECTIVE: Final = frozenset({"", "intermediate"})
"""Values of such a field that nearly every node or value has, so that they find nothing."""

KEY_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "operation": (
        "+", "-", "*", "/", "//", "%", "**", "@", "<<", ">>", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=", "is",
        "is not", "in", "not in", "if", "while", "for", "assert",
    ),
    "model": (
        "onnx", "torchscript", "exported_program", "torch_export", "torch_trace", "saved_model", "graph_def",
        "tf_function", "keras", "tflite", "jaxpr", "stablehlo",
    ),
    "device": ("cpu", "cuda"),
}  # fmt: skip
"""All names that facts of a kind can have, where they are few. Those of measurements stand in metrics.py."""

FRAMEWORKS: Final = (
    "pytorch", "tensorflow", "keras", "jax", "onnx", "onnxruntime", "tensorrt", "openvino", "tflite",
)  # fmt: skip
SEVERITIES: Final = ("critical", "high", "medium", "low")
LAYERS: Final = ("graph", "memory", "hardware", "deployment")
CERTAINTIES: Final = ("certain", "likely", "suspected", "advice")
PLACES: Final = ("function", "class", "module", "project", "graph", "model", "checkpoint")
BLOCKS: Final = ("with", "loop", "if", "try")
ENVIRONMENT_ANCHORS: Final = ("package", "variable", "device", "model", "checkpoint")
EVERYWHERE: Final = frozenset({"package", "variable", "device", "measurement", "model", "checkpoint"})
"""Kinds that need no `in`."""
FIX_VERBS: Final = ("set-argument", "remove-argument", "rename-call", "replace-import")
