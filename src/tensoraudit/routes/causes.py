"""Why exports fail, as data: a pattern in the exception's text, the cause in one sentence, and what to change.

The first pattern that matches wins, so the specific ones stand first. Templates may use the pattern's named groups and
`{operator}`. The texts are those of torch 2.13; tests/routes/test_failure.py provokes most of them.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Cause(NamedTuple):
    """One known kind of failure."""

    pattern: re.Pattern[str]
    cause: str
    remedy: str


def cause(patterns: str | tuple[str, ...], words: str, remedy: str) -> Cause:
    """Return a cause with one pattern or several; `words` and `remedy` may use their named groups."""
    alternatives = (patterns,) if isinstance(patterns, str) else patterns
    return Cause(re.compile("|".join(alternatives), re.DOTALL), words, remedy)


_ORIGINAL = "Export the original nn.Module (as file.py:factory) instead of the TorchScript file."
_BRANCH = (
    "Choose with torch.where or torch.cond instead of a Python `if`, `while` or `for`, or decide outside of the model "
    "and pass the result in."
)
_OTHER_OPERATORS = (
    "Write the operation with operators that ONNX has, or give the exporter a translation of it ({how}); the other "
    "route may know it."
)
_DYNAMO_TABLE = "custom_translation_table of torch.onnx.export"
_SYMBOLIC = "torch.onnx.register_custom_op_symbolic"
_COMPLEX = r"[\w:.]*fft\w*|aten::i?stft|aten::view_as_(?:complex|real)|aten::polar|aten::complex"

CAUSES: tuple[Cause, ...] = (
    # The file, before anything of the model is looked at.
    cause(
        r"Exporting a ScriptModule is not supported.*TS2EPConverter failed for node (?P<node>prim::\w+|aten::\w+)",
        "torch.export takes no TorchScript module, and PyTorch's converter for TorchScript stops at {node}",
        _ORIGINAL,
    ),
    cause(
        r"Exporting a ScriptModule is not supported.*TS2EPConverter succeeded",
        "torch.export takes no TorchScript module",
        _ORIGINAL
        + " Or convert the file first: torch._export.converter.TS2EPConverter(model, args).convert() works for it.",
    ),
    cause(
        r"Exporting a ScriptModule is not supported",
        "torch.export takes no TorchScript module, and PyTorch's converter for TorchScript fails too",
        _ORIGINAL,
    ),
    # Values that exist only when the model runs.
    cause(
        (r"Could not guard on data-dependent expression", r"Data-dependent branching"),
        "the Python code branches on a value that is known only when the model runs",
        _BRANCH,
    ),
    cause(
        r"Could not extract specialized integer from data-dependent expression",
        "a size or an index comes from a tensor's value, which is known only when the model runs",
        "Keep the value in a tensor (index_select, gather, masks) instead of turning it into a Python number, or bound "
        "it with torch._check.",
    ),
    cause(
        r"argument 'size' failed to unpack.*FakeTensor",
        "the sizes of a packed sequence come from a tensor's values, which are known only when the model runs",
        "Run the recurrent layer on the padded batch and mask the result, instead of pack_padded_sequence.",
    ),
    # Dimensions that were asked to vary.
    cause(
        r"inferred a static shape of (?P<size>\d+) for dimension "
        r"inputs\['(?P<argument>[^']+)'\](?P<inner>(?:\[[^\]]+\])*)\.shape\[(?P<axis>\d+)\]",
        "dimension {axis} of {argument}{inner} was to vary, but the code fixes it to {size}",
        "In that line take the size from the tensor's own shape (x.shape[{axis}], or -1 in view and reshape) instead "
        "of a constant or a comparison; or export with a fixed size and serve only that one.",
    ),
    cause(
        r"Constraints violated \((?P<names>[^)]*)\)",
        "the dimensions {names} were to vary, but the code restricts them",
        "Take sizes from the tensors' own shapes instead of constants, or give these dimensions one common name.",
    ),
    # Operators without a translation.
    cause(
        r"ONNX export failed on an operator with unrecognized namespace (?P<name>[\w.]+::\w+)",
        "the TorchScript exporter has no translation for the custom operator {name}",
        _OTHER_OPERATORS.replace("{how}", _SYMBOLIC),
    ),
    cause(
        (
            r"Support for this operator was added in version (?P<version>\d+)",
            r"in opset \d+\.(?: [^\n]*)? Please try opset version (?P<other>\d+)",
        ),
        "the operator {operator} needs opset {version}{other}, which is newer than the one asked for",
        "Export with --opset {version}{other} or higher.",
    ),
    cause(
        rf"Exporting the operator '(?P<name>{_COMPLEX})' to ONNX opset version (?P<opset>\d+) is not supported",
        "{name} works on complex numbers, for which the TorchScript exporter has no translation",
        "Use the dynamo route, which knows the Fourier transforms, or compute real and imaginary parts apart, as real "
        "tensors.",
    ),
    cause(
        r"Exporting the operator '(?P<name>[\w:.]+)' to ONNX opset version (?P<opset>\d+) is not supported",
        "the TorchScript exporter has no translation for {name} at opset {opset}",
        _OTHER_OPERATORS.replace("{how}", _SYMBOLIC),
    ),
    cause(
        r"No ONNX function found for <OpOverload\(op='(?P<name>[\w.:]+)', overload='(?P<overload>\w+)'",
        "the dynamo exporter has no ONNX translation for {name}.{overload}",
        _OTHER_OPERATORS.replace("{how}", _DYNAMO_TABLE),
    ),
    cause(
        r"bitwise Not for non-boolean input",
        "the code negates an integer, as in `not len(x)`, and ONNX's Not takes bools only",
        "Compare instead of negating (`len(x) == 0`), or keep that decision out of the model.",
    ),
    cause(
        r"Unsupported: ONNX export of (?:operator )?(?P<name>[\w:]+)[,.]? (?P<why>[^\n]*?)\.?(?: Please feel|\n|$)",
        "the exporter cannot translate {name} here: {why}",
        "Give the exporter what it lacks as constants (fixed sizes, Python numbers), or use the other route.",
    ),
    cause(
        r"ONNX symbolic (?:expected a constant|does not understand)",
        "an argument of {operator} must be a constant for the exporter, but the model computes it",
        "Make that argument a Python number that does not depend on the input, or use the dynamo route.",
    ),
    cause(
        r"Couldn't export (?:Python )?(?:operator|method) ?(?P<name>[\w:.]*)",
        "the model calls Python code that TorchScript cannot hold ({name})",
        "Write that step with torch functions, or use the dynamo route.",
    ),
    # Python that a tracer cannot follow.
    cause(
        (r"Can't call numpy\(\) on", r"\.numpy\(\) is not supported"),
        "the model leaves PyTorch for NumPy inside forward, where the exporter cannot follow",
        "Write that step with torch functions, or do it before or after the model.",
    ),
    cause(
        (
            r"There was no fake impl registered for",
            r"Could not run 'aten::[\w.]+' with arguments from the 'Meta' backend",
        ),
        "the operator {operator} cannot be traced, because nothing says which shapes it gives",
        "Register a fake implementation for it (torch.library.register_fake), or replace it.",
    ),
    cause(
        r"Please convert all Tensors to FakeTensors first",
        "forward uses a tensor that was made outside of it and is no parameter or buffer",
        "Register that tensor as a buffer of the module.",
    ),
    cause(
        (
            r"Found <class '[^']+'> in output, which is not a known type",
            r"supported as JIT inputs/outputs\..*an input of unsupported type",
            r"Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced functions",
        ),
        "forward returns something that the tracer cannot carry: it takes tensors in tuples, lists and dicts",
        "Return a tuple or a dict of tensors from forward, for example in a small wrapper module.",
    ),
    cause(
        (
            r"Error when translating node return .*'(?:int|float|bool|str)' object has no attribute 'name'",
            r"of traced region did not have observable data dependence with trace inputs",
        ),
        "forward returns a value that is no tensor or does not depend on the inputs",
        "Return only tensors that are computed from the inputs; keep constants and Python numbers out of the model.",
    ),
    cause(
        r"Cannot insert a Tensor that requires grad as a constant",
        "forward uses a tensor that requires gradients but is no parameter of the module",
        "Make it an nn.Parameter or a buffer, or detach it.",
    ),
    cause(
        (r"cannot be traced\. Only Tensors", r"Unsupported input type <class"),
        "the tracer cannot carry one of the model's arguments, because it is no tensor",
        "Bind that argument in a small wrapper module, so that only tensors remain.",
    ),
    cause(
        r"Error when calling function 'TracedOnnxFunction.*\n(?P<why>[^\n]+)\Z",
        "the ONNX translation of {operator} fails: {why}",
        "Call the operator with other arguments, or write it with simpler ones; the other route may know it.",
    ),
    # The call itself.
    cause(
        (
            r"mat1 and mat2 shapes cannot be multiplied",
            r"must have same reduction dim",
            r"The size of tensor a \(\d+\) must match",
            r"expected input\S* to have \d+ channels",
            r"shape '\[[^\]]*\]' is invalid for input of size",
            r"Sizes of tensors must match",
            r"input\.size\(-1\) must be equal to input_size",
        ),
        "the model does not take inputs of these shapes",
        "Check the shapes of the sample inputs against what the named line expects.",
    ),
    cause(
        (
            r"missing \d+ required (?:positional|keyword-only) arguments?",
            r"got an unexpected keyword argument",
            r"got multiple values for argument",
            r"takes \S+(?: to \d+)? positional arguments? but",
            r"missing a required argument",
        ),
        "the exporter calls forward with other arguments than it takes",
        "Check the sample inputs against the signature of forward, or wrap the model in a module whose forward takes "
        "tensors only.",
    ),
    # Writing.
    cause(
        r"exceed\w* maximum protobuf size",
        "the model is larger than the 2 GiB that one ONNX file can hold",
        "Store the weights as external data.",
    ),
    cause(
        r"No space left on device",
        "the disk is full",
        "Free some space, or set TMPDIR to a larger disk.",
    ),
    cause(
        r"No module named '?(?P<module>[\w.]+)'?",
        "the exporter needs the package {module}, which this environment lacks",
        "Install {module} into the environment of the PyTorch worker.",
    ),
    cause(
        r"maximum recursion depth exceeded",
        "the model nests deeper than the exporter can follow",
        "Flatten the nesting of modules or calls in the named place.",
    ),
)

UNKNOWN_REMEDY = (
    "tensoraudit has no explanation for this failure yet. The named place is where it began; "
    "--verbose prints the traceback."
)
