"""The options that commands share, named once."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def _option(names: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(names, help=help, metavar=metavar)


_INPUT = "'x:float32[batch,3,224,224]': a name in the shape is a dynamic dimension; 'sr:int64[]=16000' fixes a value."

Inputs = Annotated[
    list[str] | None,
    _option("--inputs", "Arrays (.npz) in the order of the arguments; repeat for other sizes.", "FILE"),
]
Input = Annotated[list[str] | None, _option("--input", _INPUT, "SPEC")]
Code = Annotated[list[str] | None, _option("--code", "More source code to read.", "PATH")]
Model = Annotated[str | None, _option("--model", "The factory that a bare state_dict belongs to.", "FACTORY")]
Framework = Annotated[
    str | None,
    _option("--framework", "What file.py:name is made of, where its imports do not tell.", "pytorch|tensorflow|jax"),
]
Via = Annotated[str | None, _option("--via", "The converter whose result you ship; it decides the grade.", "ROUTE")]
Opset = Annotated[int | None, _option("--opset", "ONNX opset to ask of the exporters.")]
Device = Annotated[str | None, _option("--device", "Where candidates must run.", "cpu|cuda|all")]
Tolerance = Annotated[
    float | None, _option("--tolerance", "L-infinity tolerance instead of the preset of the dtype.", "X")
]
Gradients = Annotated[
    bool | None, _option("--gradients/--no-gradients", "Compare gradients where both sides have them.")
]
Seed = Annotated[int | None, _option("--seed", "Seed of untrained weights and of generated inputs.")]
Trust = Annotated[bool | None, _option("--trust", "Allow code stored in the file to run, inside a worker only.")]
Timeout = Annotated[float | None, _option("--timeout", "Wall-clock limit of one job of a worker.", "SECONDS")]
Memory = Annotated[str | None, _option("--memory", "Memory limit of one worker, for example 8GiB.", "SIZE")]
Python = Annotated[
    list[str] | None, _option("--python", "Probe a framework, or a side, in another interpreter.", "NAME=PATH")
]
Report = Annotated[
    list[str] | None, _option("--report", "console, json, sarif, junit, html, markdown; repeatable.", "FORMAT[=FILE]")
]
FailOn = Annotated[str | None, _option("--fail-on", "critical, high (default), medium, low or never.", "SEVERITY")]
Baseline = Annotated[str | None, _option("--baseline", "A file of known findings, which do not fail the gate.", "FILE")]
Rules = Annotated[
    list[str] | None,
    _option("--rules", "A pack: default, ./FOLDER or the name of an installed one; repeatable.", "PACK"),
]
Reproducer = Annotated[
    str | None, _option("--reproducer", "Write the smallest diverging sub-model with its inputs here.", "FOLDER")
]
Map = Annotated[
    str | None,
    _option("--map", "Which input, output and parameter of the candidate belongs to which of the reference.", "FILE"),
]
WriteMap = Annotated[
    str | None, _option("--write-map", "Write the pairs that were found, as a draft of a map.", "FILE")
]
Transfer = Annotated[
    bool | None, _option("--transfer/--no-transfer", "Copy the reference's weights into the candidate first.")
]
Checkpoint = Annotated[
    str | None,
    _option("--checkpoint", "Weights that are for this model: names, shapes and dtypes are held against it.", "FILE"),
]
Values = Annotated[
    bool | None, _option("--values", "Read the tensors as well: digests, and the comparator's verdict of each pair.")
]
ByValue = Annotated[
    bool | None, _option("--by-value", "Pair by their values what no name brings together; reads the tensors.")
]
Cache = Annotated[
    bool | None, _option("--cache/--no-cache", "Recall the result of files and rules that have not changed.")
]
Quiet = Annotated[bool | None, _option("--quiet", "Verdict and findings only.")]
Color = Annotated[bool | None, _option("--color/--no-color", "Colours on the console.")]
Verbose = Annotated[bool | None, _option("--verbose", "Full tracebacks of converters and workers.")]
