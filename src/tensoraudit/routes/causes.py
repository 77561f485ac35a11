"""Why exports fail, as data: a pattern in the exception's text, the cause in one sentence, and what to change.

The first pattern that matches wins, so the specific ones stand first. Templates may use the pattern's named groups and
`{operator}`. Every text here was seen with torch 2.13; the tests in tests/routes/test_failure.py provoke them.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Cause(NamedTuple):
    """One known kind of failure."""

    pattern: re.Pattern[str]
    cause: str
    remedy: str


def _cause(pattern: str, cause: str, remedy: str) -> Cause:
    return Cause(re.compile(pattern, re.DOTALL), cause, remedy)


_BRANCH = (
    "Choose with torch.where or torch.cond instead of a Python `if`, `while` or `for`, or take the decision outside the "
    "model and pass its result in."
)
_OTHER_OPERATORS = (
    "Write the operation with operators that ONNX has, or give the exporter a translation of it ({how}); the other route "
    "may know it."
)
_DYNAMO_TABLE = "custom_translation_table of torch.onnx.export"
_SYMBOLIC = "torch.onnx.register_custom_op_symbolic"

CAUSES: tuple[Cause, ...] = (
    # The file, before anything of the model is looked at.
    _cause(
        r"Exporting a ScriptModule is not supported.*TS2EPConverter failed for node (?P<node>prim::\w+|aten::\w+)",
        "torch.export takes no TorchScript module, and PyTorch's converter for TorchScript stops at {node}",
        "Export the original nn.Module (as file.py:factory) instead of the TorchScript file.",
    ),
    _cause(
        r"Exporting a ScriptModule is not supported.*TS2EPConverter succeeded",
        "torch.export takes no TorchScript module",
        "Export the original nn.Module (as file.py:factory), or convert the file first with "
        "torch._export.converter.TS2EPConverter(model, args).convert(), which works for this model.",
    ),
    _cause(
        r"Exporting a ScriptModule is not supported",
        "torch.export takes no TorchScript module, and PyTorch's converter for TorchScript fails too",
        "Export the original nn.Module (as file.py:factory) instead of the TorchScript file.",
    ),
    # Values that exist only when the model runs.
    _cause(
        r"Could not guard on data-dependent expression (?P<expression>[^\n]*?)(?: \(unhinted|\n|$)",
        "the Python code branches on a value that is known only when the model runs",
        _BRANCH,
    ),
    _cause(
        r"Could not extract specialized integer from data-dependent expression (?P<expression>\S+)",
        "a size or an index comes from a tensor's value, which is known only when the model runs",
        "Keep the value in a tensor (index_select, gather, masks) instead of turning it into a Python number, or bound it "
        "with torch._check.",
    ),
    _cause(
        r"(?:Dynamic control flow is not supported|Data-dependent branching)",
        "the Python code branches on a value that is known only when the model runs",
        _BRANCH,
    ),
    _cause(
        r"argument 'size' failed to unpack.*FakeTensor|_pack_padded_sequence|packed sequence",
        "the sizes of a packed sequence come from a tensor's values, which are known only when the model runs",
        "Run the recurrent layer on the padded batch and mask the result, instead of pack_padded_sequence.",
    ),
    # Dimensions that were asked to vary.
    _cause(
        r"inferred a static shape of (?P<size>\d+) for dimension inputs\['(?P<argument>[^']+)'\](?P<inner>(?:\[[^\]]+\])*)"
        r"\.shape\[(?P<axis>\d+)\]",
        "dimension {axis} of {argument}{inner} was to vary, but the code fixes it to {size}",
        "Take the size from the tensor's own shape in that line (x.shape[{axis}], or -1 in view and reshape) instead of a "
        "constant or a comparison; or export with a fixed size and serve only that one.",
    ),
    _cause(
        r"Constraints violated \((?P<names>[^)]*)\)",
        "the dimensions {names} were to vary, but the code restricts them",
        "Take sizes from the tensors' own shapes instead of constants, or give these dimensions one common name.",
    ),
    # Operators without a translation.
    _cause(
        r"ONNX export failed on an operator with unrecognized namespace (?P<name>[\w.]+::\w+)",
        "the TorchScript exporter has no translation for the custom operator {name}",
        _OTHER_OPERATORS.replace("{how}", _SYMBOLIC),
    ),
    _cause(
        r"Support for this operator was added in version (?P<version>\d+)",
        "the operator {operator} needs a newer opset than was asked for",
        "Export with --opset {version} or higher.",
    ),
    _cause(
        r"Exporting the operator '(?P<name>[\w:.]*fft\w*|aten::stft|aten::istft|aten::view_as_complex|aten::polar"
        r"|aten::view_as_real|aten::complex)' to ONNX opset version (?P<opset>\d+) is not supported",
        "{name} works on complex numbers, for which the TorchScript exporter has no translation",
        "Use the dynamo route, which knows the Fourier transforms, or compute real and imaginary parts apart as real tensors.",
    ),
    _cause(
        r"Exporting the operator '(?P<name>[\w:.]+)' to ONNX opset version (?P<opset>\d+) is not supported",
        "the TorchScript exporter has no translation for {name} at opset {opset}",
        _OTHER_OPERATORS.replace("{how}", _SYMBOLIC),
    ),
    _cause(
        r"No ONNX function found for <OpOverload\(op='(?P<name>[\w.:]+)'",
        "the dynamo exporter has no ONNX translation for {name}",
        _OTHER_OPERATORS.replace("{how}", _DYNAMO_TABLE),
    ),
    _cause(
        r"bitwise Not for non-boolean input",
        "the code negates an integer, as in `not len(x)`, and ONNX's Not takes bools only",
        "Compare instead of negating (`len(x) == 0`), or keep that decision out of the model.",
    ),
    _cause(
        r"Unsupported: ONNX export of (?:operator )?(?P<name>[\w:]+)[,.]? (?P<why>[^\n]*?)\.?(?: Please feel free|\n|$)",
        "the exporter cannot translate {name} here: {why}",
        "Give the exporter what it lacks as constants (fixed sizes, Python numbers), or use the other route.",
    ),
    _cause(
        r"ONNX symbolic (?:expected a constant|does not understand)(?P<why>[^\n]*)|since it is not constant, please try to make",
        "an argument of {operator} must be a constant for the exporter, but the model computes it",
        "Make that argument a Python number that does not depend on the input, or use the dynamo route.",
    ),
    _cause(
        r"(?P<name>prim::(?:If|Loop|RaiseException|PythonOp|Uninitialized|\w+))\b.*(?:not supported|Unsupported|Couldn't export)",
        "the TorchScript in the model holds {name}, which has no counterpart in ONNX",
        "Keep that decision or that error check out of the model, or export the original nn.Module by the dynamo route.",
    ),
    # Python that a tracer cannot follow.
    _cause(
        r"Can't call numpy\(\) on|\.numpy\(\) is not supported|numpy\(\) method on|np\.ndarray.*FakeTensor",
        "the model leaves PyTorch for NumPy inside forward, where the exporter cannot follow",
        "Write that step with torch functions, or do it before or after the model.",
    ),
    _cause(
        r"There was no fake impl registered for (?P<name>[\w.:<>= ']+)|Could not run '(?P<meta>aten::[\w.]+)' with arguments "
        r"from the 'Meta' backend|Operator .* does not have a .*meta",
        "the operator {operator} cannot be traced, because nothing says which shapes it gives",
        "Register a fake implementation for it (torch.library.register_fake), or replace it.",
    ),
    _cause(
        r"(?:tensor attributes? (?P<names>[^\n]*?) w(?:as|ere) assigned during export|[Aa]ttribute .* (?:was )?mutated|"
        r"mutat\w+ (?:a|the) (?:module )?attribute)",
        "forward stores a tensor in a plain attribute, and an exported model has no such memory",
        "Register it as a buffer, or pass the state in as an argument and return it as an output.",
    ),
    _cause(
        r"Please convert all Tensors to FakeTensors first|(?:FakeTensor|fake tensor).*(?:not a FakeTensor|real tensor)",
        "forward uses a tensor that was made outside of it and is no parameter or buffer",
        "Register that tensor as a buffer of the module.",
    ),
    _cause(
        r"Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced functions"
        r"|Encountered (?:a dictionary|an object) at the output of the tracer|Tracer cannot infer type of (?P<value>[^\n]*)",
        "forward returns something that the tracer cannot carry: it takes tensors in tuples, lists and dicts",
        "Return a tuple or a dict of tensors from forward, for example in a small wrapper module.",
    ),
    _cause(
        r"Cannot insert a Tensor that requires grad as a constant",
        "forward uses a tensor that requires gradients but is no parameter of the module",
        "Make it an nn.Parameter or a buffer, or detach it.",
    ),
    _cause(
        r"Only tuples, lists and Variables are supported as JIT inputs|Type .* cannot be traced|is not a valid JAX|"
        r"Unsupported input type (?P<type>[^\n.]*)",
        "the tracer cannot carry one of the model's arguments, because it is no tensor",
        "Bind that argument in a small wrapper module, so that only tensors remain.",
    ),
    # The call itself.
    _cause(
        r"mat1 and mat2 shapes cannot be multiplied|must have same reduction dim|The size of tensor a \(\d+\) must match|"
        r"expected input\S* to have \d+ channels|Given groups=|shape '\[[^\]]*\]' is invalid for input of size|"
        r"Sizes of tensors must match|input.size\(-1\) must be equal to input_size",
        "the model does not take inputs of these shapes",
        "Check the shapes of the sample inputs against what the named line expects.",
    ),
    _cause(
        r"index out of range in self|index \S+ is out of bounds",
        "an index in the sample inputs lies outside of what the model's table holds",
        "Give sample inputs whose ids lie within the model's vocabulary.",
    ),
    _cause(
        r"missing \d+ required (?:positional|keyword-only) arguments?: (?P<names>[^\n]*)|got an unexpected keyword argument "
        r"(?P<extra>\S+)|got multiple values for argument (?P<twice>\S+)|takes \S+(?: to \d+)? positional arguments? but",
        "the exporter calls forward with other arguments than it takes",
        "Check the names and the number of the sample inputs against the signature of forward, or wrap the model in a "
        "module whose forward takes tensors only.",
    ),
    # Writing.
    _cause(
        r"exceeds maximum protobuf size|larger than 2 ?G(?:i?B)?|serialized size .* exceed",
        "the model is larger than the 2 GiB that one ONNX file can hold",
        "Store the weights as external data.",
    ),
    _cause(
        r"No space left on device",
        "the disk is full",
        "Free some space, or set TMPDIR to a larger disk.",
    ),
    _cause(
        r"No module named '?(?P<module>[\w.]+)'?",
        "the exporter needs the package {module}, which this environment lacks",
        "Install {module} into the environment of the PyTorch worker.",
    ),
    _cause(
        r"(?:maximum recursion depth exceeded)",
        "the model nests deeper than the exporter can follow",
        "Flatten the nesting of modules or containers in the named place.",
    ),
)

UNKNOWN_REMEDY = "tensoraudit has no explanation for this failure yet. The named place is where it began; --verbose prints the traceback."
