"""Why tf2onnx fails, as data; see `causes`. The texts are those of tf2onnx 1.17 and TensorFlow 2.21."""

from __future__ import annotations

from tensoraudit.routes.causes import CAUSES as _SHARED
from tensoraudit.routes.causes import Cause, cause

_WRITING = ("exceed", "No space left", "maximum recursion")

CAUSES: tuple[Cause, ...] = (
    cause(
        r"no translation of the TensorFlow Lite operator (?P<name>[^\n]+)",
        "tf2onnx has no translation for the TensorFlow Lite operator {name}",
        "Convert the SavedModel that the file was made from (--via tf2onnx), or make the file without this operator.",
    ),
    cause(
        r"(?P<why>tf2onnx reads the first graph of the file only, and signature [^\n]+ is another)",
        "{why}",
        "Convert the SavedModel with this signature alone, or convert it to TensorFlow Lite with this signature alone.",
    ),
    cause(
        r"Opset (?P<opset>\d+) is not supported yet",
        "tf2onnx does not write opset {opset}",
        "Ask for a lower one: --opset 18 is the highest of tf2onnx 1.17.",
    ),
    cause(
        (
            r"Failed to convert (?:a NumPy array|.*) to a Tensor",
            r"numpy\(\) is only available when eager",
            r"has no attribute 'numpy'",
        ),
        "the model leaves TensorFlow for NumPy or Python inside its call, where tracing cannot follow",
        "Write that step with TensorFlow operations, or do it before or after the model.",
    ),
    cause(
        (r"Using a symbolic `tf\.Tensor` as a Python `bool`", r"OperatorNotAllowedInGraphError"),
        "the Python code branches on a tensor's value, which is known only when the model runs",
        "Choose with tf.where or tf.cond instead of a Python `if`, `while` or `for`.",
    ),
    cause(
        r"incompatible with expected resource",
        "the model writes to one of its variables in its call, and an ONNX graph has no memory",
        "Make that variable an input and an output of the call, and let the caller carry it.",
    ),
    cause(
        (r"Cannot convert .*(?:RaggedTensor|SparseTensor)", r"CompositeTensor"),
        "the model takes or returns a ragged or sparse tensor, which ONNX does not have",
        "Make it dense at the border of the model (to_tensor, tf.sparse.to_dense).",
    ),
    cause(
        (r"UnliftableError", r"Unable to lift tensor"),
        "the model depends on something outside of its graph that is no variable, such as a lookup table",
        "Do that step before or after the model: with numbers in place of what the table holds.",
    ),
    cause(
        r"No module named '?(?P<module>[\w.]+)'?",
        "the exporter needs the package {module}, which this environment lacks",
        "Install {module} into the environment of the TensorFlow worker.",
    ),
    *(each for each in _SHARED if any(text in each.pattern.pattern for text in _WRITING)),
)
