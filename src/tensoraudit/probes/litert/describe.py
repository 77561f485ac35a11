"""litert.describe: what a TensorFlow Lite model is, without running it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tensoraudit.probes.litert.program import Program, open_program
from tensoraudit.probes.protocol import Session


def describe(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Load the model and describe it: inputs and outputs with dtypes, shapes and quantisation, operators.

    Its weights are constants that the interpreter does not tell from other tensors: `parameters` is empty. Raises
    JobFailed when the model cannot be loaded or takes text, JobUnsupported for operators that the interpreter lacks.
    """
    program = open_program(session, params["model"])
    return {
        "class": "TensorFlow Lite model",
        "arguments": [
            {"name": name, "required": True, "annotation": "", "dtype": each.dtype, "shape": list(each.shape)}
            for name, each in program.inputs.items()
        ],
        "outputs": [
            {"name": name, "dtype": each.dtype, "shape": list(each.shape)} for name, each in program.outputs.items()
        ],
        "quantisation": quantisation(program),
        "operators": program.operators,
        "stateful": program.remembers,
        "parameters": [],
        "embedding_sizes": {},
        "samples": [],
        "dynamic": {},
        "source_files": [],
        "classes": [],
        "notes": list(_notes(program)),
    }


def quantisation(program: Program) -> dict[str, dict[str, Any]]:
    """Return {"inputs": {name: {"scale", "zero_point"}}, "outputs": ...} of what is stored quantised."""
    ends = {"inputs": program.inputs, "outputs": program.outputs}
    return {end: {n: each.quantisation for n, each in found.items() if each.scale} for end, found in ends.items()}


def _notes(program: Program) -> Iterator[str]:
    if others := [name for name in program.signatures if name != program.signature]:
        yield f"signature {program.signature} was audited; the model has {', '.join(others)} too"
    for end, found in quantisation(program).items():
        for name, each in found.items():
            scale, zero = each["scale"], each["zero_point"]
            yield f"{end.removesuffix('s')} {name} is quantised: scale {scale}, zero point {zero}"
