"""How much of a model a target takes: its operators against the registry of the first converter, and control flow.

A registry promises a translation, not a right one, and a converter may get through where its registry has nothing: the
conversion decides. So nothing here is required, and what cannot be told is "unknown" with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from tensoraudit.audit.control_flow import control_flow
from tensoraudit.audit.frameworks import FRAMEWORKS
from tensoraudit.audit.migration import TOOLS, Hop, worker_of
from tensoraudit.audit.rows import probe_row
from tensoraudit.audit.state import Audit
from tensoraudit.facts import Measurement, Model, Node, Site
from tensoraudit.findings.result import Migratability, OperatorUse

FAMILIES: Final[Mapping[str, str]] = {
    "tf": "tensorflow", "keras": "keras", "tflite": "tflite", "jax": "jax",
    **dict.fromkeys(("stablehlo", "func"), "stablehlo"),
}  # fmt: skip
"""Which kind of graph an operator's domain belongs to; other domains are ONNX's or PyTorch's, by the artifact."""

TAKES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("torch_onnx_dynamo", "torch_onnx_torchscript", "torch_export", "torchax"), "pytorch"),
    "tf2onnx": "tensorflow", "tf2onnx_tflite": "tflite", "jax2onnx": "jax", "jax2tf": "jax", "onnx2torch": "onnx",
    "onnx2tf": "onnx", **dict.fromkeys(("keras_save", "keras_torch", "keras_jax"), "keras"),
}  # fmt: skip
"""Which kind of graph each tool translates."""

PLUMBING: Final = frozenset((
    *("Const", "Placeholder", "VarHandleOp", "ReadVariableOp", "NoOp", "PartitionedCall", "StatefulPartitionedCall"),
    *("Constant", "InputLayer", "jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call"),
    *("prim::GetAttr", "prim::SetAttr", "prim::CallMethod", "prim::CallFunction", "prim::TupleUnpack"),
    *("aten._assert_tensor_metadata.default", "aten._assert_scalar.default", "aten._assert_async.msg", "Assert"),
    *("prim::TupleConstruct", "prim::ListConstruct", "prim::ListUnpack", "prim::DictConstruct", "_operator.getitem"),
))  # fmt: skip
"""What holds a graph together and computes nothing: it counts neither for nor against."""

OWN: Final[Mapping[str, frozenset[str]]] = {
    "pytorch": frozenset(("aten", "prim", "prims", "higher_order", "_operator", "math", "builtins", "torch")),
    "onnx": frozenset(("", "ai.onnx.ml", "ai.onnx.training")),
    "tflite": frozenset(("tflite",)),
}
"""Domains that belong to the framework; of other kinds of graphs the name of an operator does not tell."""


def measure_coverage(audit: Audit) -> Audit:
    """State for every target what the first tool of its route knows of the model's operators."""
    if audit.pool is None or audit.artifact is None or audit.candidate_artifact is not None:
        return audit
    for target in audit.options.target:
        if target != audit.artifact.framework:
            audit = _measure(audit, target)
    return audit


def _measure(audit: Audit, target: str) -> Audit:
    assert audit.pool is not None
    conversion = next((row for row in audit.conversions if row.target == target and row.ships), None)
    if conversion is None:
        return audit.add(migratability=(Migratability(target, "", reason="no converter was tried"),))
    hop = TOOLS[conversion.route.partition("+")[0]]
    flow = control_flow(audit, target, conversion)
    found = Migratability(target, conversion.route, control_flow=flow.text, converted=conversion.status == "ok")
    nodes = list(source_nodes(audit, TAKES[hop.tool]))
    if not nodes:
        found = replace(found, reason=_no_nodes(audit, hop))
        return audit.add(migratability=(found,), measurements=tuple(_rows(found, flow.word)))
    role = worker_of(hop, FRAMEWORKS[hop.framework].role, audit.options.python)
    request = {"tool": hop.tool, "operators": sorted(set(map(operator_name, nodes))), "opsets": _opsets(audit)}
    outcome = audit.pool.run(role, FRAMEWORKS[hop.framework].job("coverage"), request)
    if outcome.result is None:
        found = replace(found, reason=outcome.reason or outcome.status)
    else:
        found = _found(found, nodes, TAKES[hop.tool], set(outcome.result["supported"]))
    row = probe_row(f"coverage.{target}", role, "cpu", outcome, target=target)
    return audit.add(migratability=(found,), measurements=tuple(_rows(found, flow.word)), probes=(row,))


def _no_nodes(audit: Audit, hop: Hop) -> str:
    others = {family(node, audit) for node in _nodes(audit)}
    if others:
        return f"{hop.tool} translates {TAKES[hop.tool]} operators; the model is known as {', '.join(sorted(others))}"
    row = next((row for row in audit.probes if row.name == "operators" and row.reason), None)
    return f"its operators could not be listed ({row.reason})" if row else "its operators are not known"


def _found(found: Migratability, nodes: Sequence[Node], kind: str, known: set[str]) -> Migratability:
    """Fill in the numbers, for the operators that the tool knows."""
    counts = Counter(operator_name(node) for node in nodes)
    places = {operator_name(node): node.at for node in reversed(nodes)}
    uses = [OperatorUse(name, counts[name], places[name]) for name in sorted(counts)]
    custom = {operator_name(node) for node in nodes if is_custom(node, kind)}
    return replace(
        found,
        types_supported=len(known & set(counts)),
        types_total=len(counts),
        nodes_supported=sum(count for name, count in counts.items() if name in known),
        nodes_total=counts.total(),
        unsupported=tuple(use for use in uses if use.op not in known),
        custom=tuple(use for use in uses if use.op in custom),
    )


def source_nodes(audit: Audit, kind: str) -> Iterator[Node]:
    """The operators of the source's graph of one kind, without what only holds it together."""
    return (node for node in _nodes(audit) if family(node, audit) == kind and node.op not in PLUMBING)


def _nodes(audit: Audit) -> Iterator[Node]:
    return (fact for fact in audit.facts if isinstance(fact, Node) and fact.side in ("source", "both"))


def family(node: Node, audit: Audit) -> str:
    """Return which kind of graph a node of the source belongs to."""
    other = "onnx" if audit.artifact is not None and audit.artifact.framework == "onnx" else "pytorch"
    return FAMILIES.get(node.domain.partition(".")[0], other)


def operator_name(node: Node) -> str:
    """Return an operator as the job `coverage` takes it: `com.microsoft::Gelu`, a class of the user's by its module."""
    if node.domain == "keras" and node.metadata:
        return node.metadata.get("registered_name") or f"{node.metadata.get('module', '')}.{node.op}"
    plain = node.domain.partition(".")[0] in FAMILIES or node.domain in ("", "ai.onnx") or "::" in node.op
    return node.op if plain or node.op.startswith(f"{node.domain}.") else _qualified(node)


def _qualified(node: Node) -> str:
    return node.op if node.domain == "higher_order" else f"{node.domain}::{node.op}"


def is_custom(node: Node, kind: str) -> bool:
    """Tell whether an operator is not its framework's own."""
    if kind == "keras":
        return bool(node.metadata)
    return kind in OWN and node.domain not in OWN[kind]


def _opsets(audit: Audit) -> dict[str, int]:
    """Those of an ONNX file, else the one that is asked for."""
    models = (fact for fact in audit.facts if isinstance(fact, Model) and fact.side != "target")
    declared = next((dict(model.opsets) for model in models if model.format == "onnx"), {})
    return declared or ({} if audit.options.opset is None else {"": audit.options.opset})


def _rows(found: Migratability, flow: str) -> Iterator[Measurement]:
    def row(metric: str, value: Any, subject: str = "model", at: Site | None = None, detail: str = "") -> Measurement:
        return Measurement(
            metric, subject, value, probe="coverage", side="target", target=found.target, at=at or Site(), detail=detail
        )

    if found.types_total:
        yield row("coverage.types", found.types_supported / found.types_total)
        yield row("coverage.nodes", found.nodes_supported / found.nodes_total)
    for use in found.unsupported:
        yield row("coverage.unsupported", use.count, use.op, use.at)
    yield row("coverage.control_flow", flow, detail=found.control_flow)
