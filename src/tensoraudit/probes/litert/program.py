"""A TensorFlow Lite model and its interpreter: names in, names out.

Inputs and outputs have the names of a signature: the one that servers call, else the first by name; a file without any
has those of its tensors. (artifacts/tflite.py chooses by the same rule.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tensoraudit.probes.litert.settings import threads
from tensoraudit.probes.protocol import JobFailed, JobUnsupported, Session

PREFERRED = "serving_default"
MEMORY = frozenset((
    *("VAR_HANDLE", "CALL_ONCE", "LSTM", "RNN", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN"),
    *("BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "HASHTABLE", "RANDOM_UNIFORM", "MULTINOMIAL"),
    *("RANDOM_STANDARD_NORMAL", "IF", "WHILE"),
))  # fmt: skip
"""Operators that may remember something from one call to the next (branches and loops may hold one)."""
DELEGATE = "DELEGATE"
"""Stands, among the operators, for the part of a graph that a delegate has taken over."""
_UNKNOWN = re.compile(r"unresolved custom op: (\S+?)\.? ")
_FLEX = re.compile(r"Select TensorFlow op\(s\)|Flex delegate")
TEXT = "text"
_MAX_MESSAGE = 2000


class CallError(ValueError):
    """The inputs do not fit the model, or the interpreter fails on them; the text says why."""


@dataclass(frozen=True)
class End:
    """One input or output. `shape` has None for a dimension that may vary; `scale` and `zero_point` are those of a
    quantised one: real = scale * (stored - zero_point)."""

    name: str
    index: int
    dtype: str
    shape: tuple[Any, ...]
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()

    @property
    def quantisation(self) -> dict[str, Any]:
        """Scale and zero point as plain JSON."""
        return {"scale": list(self.scale), "zero_point": list(self.zero_point)}


class Program:
    """One loaded model. `remembers`: whether a call may change the next, so that each needs a `fresh` interpreter;
    `delegated`: whether XNNPACK really computes a part of it."""

    def __init__(self, path: str, *, xnnpack: bool = True, preserve: bool = False) -> None:
        self.path, self.xnnpack, self.preserve = path, xnnpack, preserve
        self.interpreter = self._load()
        known = self.interpreter.get_signature_list()
        self.signatures = sorted(known)
        self.signature = PREFERRED if PREFERRED in known else min(known, default=None)
        operators = [each["op_name"] for each in self.interpreter._get_ops_details()]
        self.delegated = DELEGATE in operators
        self.operators = [name for name in operators if name != DELEGATE]
        self.remembers = not MEMORY.isdisjoint(self.operators)
        self.inputs, self.outputs = self._ends()

    def _load(self) -> Any:
        kinds = OpResolverType
        resolver = kinds.BUILTIN if self.xnnpack else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        try:
            made = Interpreter(
                self.path,
                num_threads=threads(),
                experimental_op_resolver_type=resolver,
                experimental_preserve_all_tensors=self.preserve,
            )
            made.allocate_tensors()
        except Exception as problem:
            raise _refused(Path(self.path).name, problem) from problem
        return made

    def _ends(self) -> tuple[dict[str, End], dict[str, End]]:
        if self.signature is None:
            pairs = [[(each["name"], each) for each in found] for found in self._details()]
        else:
            runner = self.interpreter.get_signature_runner(self.signature)
            pairs = [list(runner.get_input_details().items()), list(runner.get_output_details().items())]
        inputs, outputs = ({name: _end(name, details) for name, details in found} for found in pairs)
        for what, found in (("input", inputs), ("output", outputs)):
            if text := [name for name, each in found.items() if each.dtype == TEXT]:
                raise JobFailed(
                    f"{what} {', '.join(text)} is text, which cannot be carried to another runtime as it is",
                    remedy="Audit the part of the model whose inputs and outputs are numbers.",
                )
        return inputs, outputs

    def _details(self) -> tuple[Any, Any]:
        return self.interpreter.get_input_details(), self.interpreter.get_output_details()

    def fresh(self) -> Program:
        """Return a program in its first state: this one, unless it may remember something."""
        return Program(self.path, xnnpack=self.xnnpack, preserve=self.preserve) if self.remembers else self

    def run(self, leaves: Mapping[str, Any]) -> dict[str, Any]:
        """Run once on arrays by name. Raises CallError."""
        arrays = self.checked(leaves)
        try:
            if self.signature is not None:
                found = self.interpreter.get_signature_runner(self.signature)(**arrays)
                return {name: np.asarray(found[name]) for name in self.outputs}
            self.invoke(arrays)
            return {name: self.interpreter.get_tensor(each.index) for name, each in self.outputs.items()}
        except Exception as problem:  # the interpreter raises ValueError and RuntimeError with a text of its kernels
            raise CallError(" ".join(str(problem).split())[:_MAX_MESSAGE]) from problem

    def invoke(self, arrays: Mapping[str, Any]) -> None:
        """Run the first graph on checked arrays."""
        for name, each in self.inputs.items():
            self.interpreter.resize_tensor_input(each.index, list(arrays[name].shape))
        self.interpreter.allocate_tensors()
        for name, each in self.inputs.items():
            self.interpreter.set_tensor(each.index, arrays[name])
        self.interpreter.invoke()

    def checked(self, leaves: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arrays of a call. The interpreter itself resizes dimensions that the file calls fixed, and fails
        in a kernel afterwards, or not at all. Raises CallError."""
        extra, missing = sorted(set(leaves) - set(self.inputs)), [name for name in self.inputs if name not in leaves]
        if extra or missing:
            parts = [f"it has no input {', '.join(extra)}"] if extra else []
            parts += [f"the sample lacks {', '.join(missing)}"] if missing else []
            raise CallError(f"the inputs do not fit the model: {' and '.join(parts)}")
        arrays = {name: np.asarray(leaves[name]) for name in self.inputs}
        for name, array in arrays.items():
            wanted = self.inputs[name]
            if array.dtype.name != wanted.dtype:
                raise CallError(f"{name} is {wanted.dtype} in this model, not {array.dtype.name}")
            if array.ndim != len(wanted.shape) or any(
                size not in {None, given}
                for size, given in zip(wanted.shape, array.shape)  # noqa: B905 - Python 3.9
            ):
                shape = ", ".join("any" if size is None else str(size) for size in wanted.shape)
                raise CallError(f"{name} is [{shape}] in this model, not {list(array.shape)}")
        return arrays


def _end(name: str, details: Mapping[str, Any]) -> End:
    made_with, declared = details["shape"], details.get("shape_signature")
    declared = made_with if declared is None or len(declared) != len(made_with) else declared
    quantisation = details["quantization_parameters"]
    return End(
        name,
        int(details["index"]),
        TEXT if np.dtype(details["dtype"]).kind in "SUO" else np.dtype(details["dtype"]).name,
        tuple(None if size < 0 else int(size) for size in declared),
        tuple(map(float, quantisation["scales"])),
        tuple(map(int, quantisation["zero_points"])),
    )


def _refused(name: str, problem: Exception) -> JobFailed | JobUnsupported:
    text = " ".join(str(problem).split())
    if _FLEX.search(text):
        return JobUnsupported(
            f"{name} uses operators of TensorFlow itself (Flex), which LiteRT's interpreter does not have",
            remedy="Convert the model with built-in operators only (target_spec.supported_ops), or audit the "
            "SavedModel that it was made from.",
        )
    if found := _UNKNOWN.search(f"{text} "):
        return JobUnsupported(
            f"{name} uses the custom operator {found[1]}, which LiteRT's interpreter does not have",
            operator=found[1],
            remedy="Only the program that registers this operator can run the model; audit what it was made from.",
        )
    return JobFailed(
        f"{name} cannot be loaded by LiteRT: {text[:300]}",
        remedy="It may be damaged, or made for a newer version: convert it again, or install a newer ai-edge-litert.",
    )


def open_program(session: Session, spec: Mapping[str, Any], *, xnnpack: bool = True) -> Program:
    """Return the model of a spec, from the session where its file is unchanged.

    Raises JobFailed and JobUnsupported with what, where and what to do.
    """
    if spec["format"] != "tflite":
        raise JobUnsupported(f"TensorFlow Lite runs no model of the format {spec['format']!r}")
    path = Path(spec["path"])
    stamp = (path.stat().st_mtime_ns, path.stat().st_size) if path.is_file() else None
    key = "litert.model " + json.dumps([str(path), stamp, xnnpack])
    if key not in session.cache:
        session.cache.clear()
        session.progress("loading the model")
        session.cache[key] = Program(str(path), xnnpack=xnnpack)
    program: Program = session.cache[key]
    return program


def read_input(session: Session, sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of a sample by name."""
    return {name: _get(session, reference) for name, reference in sample["arrays"].items()}


def _get(session: Session, reference: Mapping[str, Any]) -> Any:
    if "value" in reference:
        return reference["value"]
    array = np.array(session.get(dict(reference)), order="C")
    logical = reference.get("logical")
    if not logical:
        return array
    import ml_dtypes

    return array.astype(np.dtype(getattr(ml_dtypes, logical)))
