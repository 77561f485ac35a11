"""Why conversions between frameworks are refused, as data: see `causes`.

The texts are those of torch 2.13, torchax 0.0.13, onnx2torch 1.5.15 and Keras 3.15.
tests/routes/test_conversion_causes.py provokes them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tensoraudit.routes.causes import CAUSES as COMMON
from tensoraudit.routes.causes import Cause, cause
from tensoraudit.routes.failure import understand
from tensoraudit.routes.source import Place

_VALUES = (
    "Keep the value in a tensor (masks, where, gather) instead of turning it into a Python number, a size or a branch."
)
_PACKAGE = r"No module named '?(?P<module>[\w.]+)'?"
_OVER_ONNX = "Write that step with other operators, or take another route (--via)."

TORCH_EXPORT: tuple[Cause, ...] = (
    cause(
        r"Exporting a ScriptModule is not supported",
        "torch.export takes no TorchScript module",
        "Name the module that it was made from (file.py:factory) instead of the TorchScript file.",
    ),
    cause(
        r"You marked (?P<name>\w+) as dynamic but your code specialized it to be a constant \((?P<size>\d+)\)",
        "the dimension {name} was to vary, but the code fixes it to {size}",
        "In that line take the size from the tensor's own shape (x.shape[0], or -1 in view and reshape) instead of a "
        "constant or a comparison; or convert with a fixed size and serve only that one.",
    ),
    *COMMON,
)

TORCHAX: tuple[Cause, ...] = (
    cause(
        r"Attempting to convert unknown type: torch\.(?P<dtype>\w+)",
        "torchax has no JAX dtype for torch.{dtype}",
        "Compute in a dtype that both have (float32, bfloat16, int32).",
    ),
    cause(
        r"overflow was encountered while parsing an argument[^\n]*value (?P<value>-?\d+)",
        "the integer {value} of the program does not fit into int32, to which JAX narrows int64 without 64-bit types",
        "Keep the integers of the model below 2^31.",
    ),
    cause(
        r"get_and_rotate_prng_key",
        "the program draws random numbers, for which torchax has no generator in a converted program",
        "Make the random numbers an input of forward, or take them out of the model for inference.",
    ),
    cause(
        r"TracerBoolConversion|Concretization|TracerIntegerConversion|TracerArrayConversion|NonConcreteBooleanIndex"
        r"|Attempted boolean conversion of traced array|Abstract tracer value encountered",
        "the operator {operator} needs a value while JAX traces it that is known only when the model runs",
        _VALUES,
    ),
    cause(_PACKAGE, "torchax needs the package {module}, which this environment lacks", "Install {module} there."),
    cause(
        r"(?:^|\n)(?P<name>\w+(?:\.\w+)+)(?:\n|$)|No lowering found for",
        "torchax has no JAX translation for the operator {operator}",
        _OVER_ONNX,
    ),
)

ONNX_PROGRAM: tuple[Cause, ...] = (
    cause(
        r"data-dependent|numpy\(\) is not supported|Can't call numpy\(\)|[uz]\w*\d+ .*unbacked|FakeTensor",
        "{operator} takes a size or an index that the ONNX graph computes, which torch.export cannot follow",
        "Convert with fixed sizes for all inputs, or fold the computation of shapes first (onnxsim).",
    ),
    *TORCH_EXPORT,
)
"""torch.export of a graph that came from ONNX: there is no Python of the user's to change."""

ONNX2TORCH: tuple[Cause, ...] = (
    cause(
        r"Converter is not implemented \(OperationDescription\(domain='(?P<domain>[^']*)', "
        r"operation_type='(?P<name>[^']+)', version=(?P<version>\d+)\)\)",
        "onnx2torch has no translation for the operator {name} (version {version})",
        "Export the model with an opset at which this operator is known (13 serves most), or without it.",
    ),
    cause(
        r"torchvision is missing: (?P<name>\w+)",
        "onnx2torch computes {name} with torchvision, which this environment lacks",
        "Install the torchvision that belongs to this torch into the environment of the PyTorch worker.",
    ),
    cause(_PACKAGE, "onnx2torch needs the package {module}, which this environment lacks", "Install {module} there."),
    cause(
        r"(?P<what>[^\n]*(?:not implemented|not supported|cannot|Got unexpected)[^\n]*)",
        "onnx2torch translates {operator} only in part: {what}",
        "Export the model without this form of the operator, or take another route (--via).",
    ),
)

KERAS: tuple[Cause, ...] = (
    cause(
        r"keras was imported with the backend (?P<other>\w+)",
        "Keras already runs on {other} in this process, and it takes one backend only",
        "Do not import keras in the code that is given beside the model (--code), or name a file of its own.",
    ),
    cause(
        r"[Ll]ambda.*(?:unsafe|safe_mode|arbitrary code)|(?:unsafe|safe_mode|arbitrary code).*[Ll]ambda",
        "the file stores Python code (a Lambda layer), and loading it would run it",
        "If you trust where it comes from, add --trust; else build the model from its source, file.py:name.",
    ),
    cause(
        (r"Could not locate \w+ '(?P<name>[^']+)'", r"Unknown (?:layer|object|\w+ function):? '(?P<other>[^']+)'"),
        "the file names {name}{other}, which is not Keras's own and which nothing has registered",
        "Give the file that registers it (keras.saving.register_keras_serializable): --code FILE.py.",
    ),
    cause(
        r"(?P<name>\w+) (?:layer )?(?:is only|can only be used|requires|only works)[^\n]*?(?:TensorFlow|tensorflow)",
        "the layer {name} runs on TensorFlow only",
        "Take it out of the model (before or after it), or take the way over ONNX.",
    ),
    cause(
        r"No module named '?tensorflow|"
        r"(?:numpy\(\)|__array__).{0,80}(?:KerasTensor|Tensor that requires grad|traced array)"
        r"|Attempt to convert a value \(.*\) with an unsupported type|the model returns a (?:EagerTensor|ndarray)",
        "the model calls TensorFlow or NumPy inside a layer, so Keras cannot run it on another backend",
        "Write that layer with keras.ops, which every backend has.",
    ),
    cause(_PACKAGE, "Keras needs the package {module}, which this environment lacks", "Install {module} there."),
)


def refusal(
    problem: BaseException,
    table: tuple[Cause, ...],
    stage: str,
    *,
    operator: str = "",
    source: Place | None = None,
) -> tuple[str, dict[str, Any]]:
    """Return the cause of a refusal in one sentence, and the details of a failed job.

    What the caller knows of operator and place comes before what the exception says of them.
    """
    found = understand(problem, table=table, operator=operator)
    known = replace(found, stage=stage, source=source or found.source)
    return known.cause, known.details()
