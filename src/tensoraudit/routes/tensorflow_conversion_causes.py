"""Why conversions into TensorFlow are refused, as data: see `causes`.

The texts are those of onnx2tf 1.29, jax2tf of JAX 0.10, tf_keras 2.21 and Keras 3.15.
"""

from __future__ import annotations

from tensoraudit.routes.causes import CAUSES as _SHARED
from tensoraudit.routes.causes import Cause, cause

_PACKAGE = r"No module named '?(?P<module>[\w.]+)'?"
_WRITING = ("exceed", "No space left", "maximum recursion")
_COMMON = tuple(each for each in _SHARED if any(text in each.pattern.pattern for text in _WRITING))

ONNX2TF: tuple[Cause, ...] = (
    cause(
        r"No module named 'onnx2tf\.ops\.(?P<name>\w+)'",
        "onnx2tf has no translation for the operator {name}",
        "Export the model without this operator, or take another route (--via).",
    ),
    cause(
        r"ONNX Runtime does not run the file on the sample: (?P<why>.*)",
        "ONNX Runtime does not run the file on the sample, so nothing tells what the conversion must give: {why}",
        "Give inputs that the ONNX file takes.",
    ),
    cause(
        r"the converted model does not run on the sample: (?P<why>.*)",
        "onnx2tf makes a model that fails when it runs: {why}",
        "Export the ONNX file with fixed sizes, or take another route (--via).",
    ),
    cause(
        r"Tried to export a function which references an 'untracked' resource",
        "TensorFlow cannot save what onnx2tf made, because it holds a variable that belongs to nothing",
        "Report this to onnx2tf with the model; another route (--via) may do.",
    ),
    cause(_PACKAGE, "onnx2tf needs the package {module}, which this environment lacks", "Install {module} there."),
    *_COMMON,
)

JAX2TF: tuple[Cause, ...] = (
    cause(
        r"(?:Cannot lower|cannot be serialized|Serialization is not supported)[^\n]*",
        "jax2tf cannot store an operation of the model for another process",
        "Write it with operations of JAX itself: callbacks into Python and custom kernels stay in their process.",
    ),
    cause(
        r"std::bad_cast|pure_callback|io_callback|debug_callback|python_callback|Effects not supported",
        "the model calls back into Python, which a SavedModel cannot hold",
        "Write that step with jax.numpy, or leave it out of the function.",
    ),
    cause(
        (r"InconclusiveDimensionOperation", r"symbolic dimension", r"Cannot evaluate.*for all"),
        "the code compares or computes with a size in a way that does not hold for every size",
        "Export with fixed sizes, or take sizes from the arrays' own shapes.",
    ),
    cause(
        (r"TracerBoolConversionError", r"ConcretizationTypeError", r"TracerArrayConversionError"),
        "the Python code looks at a value that is known only when the model runs",
        "Choose with jnp.where or lax.cond instead of a Python `if`.",
    ),
    cause(_PACKAGE, "jax2tf needs the package {module}, which this environment lacks", "Install {module} there."),
    *_COMMON,
)

KERAS_SAVE: tuple[Cause, ...] = (
    cause(
        (r"get_config|NotImplementedError", r"not (?:be )?serializable|Cannot serialize"),
        "the model has a layer or a class without a configuration that Keras can store",
        "Give it a get_config method and register it (keras.saving.register_keras_serializable).",
    ),
    cause(
        r"Deserializing instances of Functional models|__init__\(\) (?:missing|got|takes)",
        "the model's class cannot be made again from its configuration",
        "Write get_config so that it returns the arguments of __init__.",
    ),
    *_COMMON,
)
