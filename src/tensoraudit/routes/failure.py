"""Explain a failed export: stage, operator, the user's source line, the cause in one sentence, and what to change.

Everything is read from the exception and its traceback: texts through the table in `causes`, and the node that the
exporter was working on from the frames, because its messages often leave out the operator or the line.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tensoraudit.routes.causes import CAUSES, UNKNOWN_REMEDY, Cause
from tensoraudit.routes.source import Place, chain, error_place, frames, stack_place, text_place

MAX_CAUSE = 300
"""Characters of a quoted exception message in a cause that the table does not know."""

# (file, function) of the exporters' own frames, and the stage that they mean. The innermost frame decides.
_STAGES: Mapping[tuple[str, str], str] = {
    ("_capture_strategies.py", "__call__"): "trace",
    ("converter.py", "convert"): "trace",
    ("_core.py", "_prepare_exported_program_for_export"): "decompose",
    ("_fx_passes.py", "decompose_with_registry"): "decompose",
    ("_core.py", "_translate_fx_graph"): "translate",
    ("_core.py", "_exported_program_to_onnx_program"): "translate",
    ("_onnx_program.py", "optimize"): "optimise",
    ("_onnx_program.py", "save"): "serialise",
    ("utils.py", "_create_jit_graph"): "trace",
    ("utils.py", "_optimize_graph"): "optimise",
    ("utils.py", "_run_symbolic_function"): "translate",
    ("utils.py", "_run_symbolic_method"): "translate",
    ("onnx_proto_utils.py", "_export_file"): "serialise",
    ("conversion_api.py", "_trace_to_jaxpr"): "trace",
    ("conversion_api.py", "_lower_jaxpr_equations"): "translate",
    ("conversion_api.py", "_build_and_finalize_ir_model"): "optimise",
    ("user_interface.py", "_save_model_proto"): "serialise",
}
# The exporters' own words for a stage, for exceptions that were raised anew outside of these frames.
_STAGE_TEXTS = (
    (re.compile(r"step 1/3"), "trace"),
    (re.compile(r"step 2/3"), "decompose"),
    (re.compile(r"step 3/3"), "translate"),
)
_OPERATORS = (
    re.compile(r"TS2EPConverter failed for node ((?:prim|aten)::\w+)"),
    re.compile(r"<OpOverload\(op='([\w.:]+)', overload='(\w*)'\)>"),
    re.compile(r"torch\.ops\.([\w.]+)"),
    re.compile(r"Exporting the operator '([\w:.]+)'"),
    re.compile(r"unrecognized namespace ([\w.]+::\w+)"),
    re.compile(r"No plugins registered for primitive '([\w-]+)'"),
    re.compile(r"<CustomOpDef\(([\w.:]+)\)>"),
    re.compile(r"\b((?:aten|prim|quantized|torchvision)::[\w.]+)"),
)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_CONFLICT = re.compile(
    r"inferred a static shape of (\d+) for dimension inputs\['([^']+)'\]((?:\[[^\]]+\])*)\.shape\[(\d+)\]"
)


@dataclass(frozen=True)
class Failure:
    """Why an export failed. `stage` is trace, decompose, translate, optimise or serialise ("" when it cannot be told);
    `known` tells whether the cause comes from the table. `fixed` lists dimensions that were to vary but cannot."""

    cause: str
    remedy: str
    stage: str = ""
    operator: str = ""
    source: Place | None = None
    exception: str = ""
    traceback: str = ""
    known: bool = False
    fixed: Mapping[str, Mapping[str, int]] | None = None

    def details(self) -> dict[str, Any]:
        """Everything but the cause, as plain JSON."""
        return {name: value for name, value in asdict(self).items() if name != "cause" and value is not None}


def understand(
    error: BaseException,
    sources: Mapping[str, Place] | None = None,
    more: BaseException | None = None,
    table: tuple[Cause, ...] = CAUSES,
    operator: str = "",
) -> Failure:
    """Explain an exception of an exporter.

    `sources` maps what a log said while the export ran (an equation of symbolic sizes) to the user's line, for the
    failures whose exception holds no line. `more` is a second exception about the same refusal that knows better where
    it lies. `table` holds the known causes of the exporter. A failure that it does not know is quoted as it is.
    `operator` is given by who knows it better than the exception.
    """
    causes = [*chain(error), *(chain(more) if more else ())]
    text = _ANSI.sub("", "\n".join(_message(each) for each in causes))
    root = causes[-1]
    nodes = list(_nodes(causes))
    operator = operator or _operator(text, nodes)
    known = _known(text, operator, table)
    cause, remedy = known or (_quote(root), UNKNOWN_REMEDY)
    fixed = _fixed(text)
    return Failure(
        cause=cause,
        remedy=remedy,
        stage=_stage(causes, text),
        operator=operator,
        source=_fixing_line(fixed, sources or {}) or _source(more or error, text, nodes),
        exception=type(root).__name__,
        traceback="".join(traceback.format_exception(type(error), error, error.__traceback__)),
        known=known is not None,
        fixed=fixed or None,
    )


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an exception whose own message fails must not hide it
        return type(error).__name__


def _known(text: str, operator: str, table: tuple[Cause, ...]) -> tuple[str, str] | None:
    for entry in table:
        if found := entry.pattern.search(text):
            words = {name: value or "" for name, value in found.groupdict().items()}
            words["operator"] = operator or "in question"
            return entry.cause.format(**words), entry.remedy.format(**words)
    return None


def _quote(root: BaseException) -> str:
    lines = [line.strip() for line in _ANSI.sub("", _message(root)).splitlines() if line.strip()] or [""]
    # TensorFlow's autograph puts the user's stack in front of what happened.
    first = lines[-1] if lines[0] == "in user code:" else lines[0]
    short = first if len(first) <= MAX_CAUSE else f"{first[:MAX_CAUSE]}..."
    return f"{type(root).__name__}: {short}" if short else type(root).__name__


def _stage(causes: list[BaseException], text: str) -> str:
    for cause in reversed(causes):
        for frame, _ in reversed(list(frames(cause.__traceback__))):
            code = frame.f_code
            file = code.co_filename.replace("\\", "/").rpartition("/")[2]
            if stage := _STAGES.get((file, code.co_name)):
                return stage
    return next((stage for pattern, stage in _STAGE_TEXTS if pattern.search(text)), "")


def _nodes(causes: list[BaseException]) -> Iterator[Any]:
    """The graph nodes that the exporters' frames were working on, the innermost first."""
    for cause in reversed(causes):
        for frame, _ in reversed(list(frames(cause.__traceback__))):
            node = dict(frame.f_locals).get("node")
            if hasattr(node, "sourceRange") or (hasattr(node, "meta") and hasattr(node, "op")):  # a node of torch's
                yield node


def _operator(text: str, nodes: list[Any]) -> str:
    for pattern in _OPERATORS[:-1]:
        if found := pattern.search(text):
            return ".".join(part for part in found.groups() if part)
    for node in nodes:
        if hasattr(node, "kind"):
            return str(node.kind())
        if node.op == "call_function":
            return str(node.target)
    found = _OPERATORS[-1].search(text)
    return found[1] if found else ""


def _node_place(node: Any) -> Place | None:
    if hasattr(node, "sourceRange"):
        return stack_place(node.sourceRange())
    return stack_place(node.meta.get("stack_trace"))


def _fixing_line(fixed: Mapping[str, Mapping[str, int]], sources: Mapping[str, Place]) -> Place | None:
    """The line of the first condition on a dimension that was to vary."""
    dims = [f"{name}.shape[{axis}]" for name, axes in fixed.items() for axis in axes]
    return next((at for condition, at in sources.items() if any(dim in condition for dim in dims)), None)


def _source(error: BaseException, text: str, nodes: list[Any]) -> Place | None:
    if found := text_place(text):
        return found
    for node in nodes:
        if found := _node_place(node):
            return found
    return error_place(error)


def _fixed(text: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for size, argument, inner, axis in _CONFLICT.findall(text):
        name = ".".join([argument, *(part.strip("'\"") for part in re.findall(r"\[([^\]]+)\]", inner))])
        found.setdefault(name, {})[axis] = int(size)
    return found
