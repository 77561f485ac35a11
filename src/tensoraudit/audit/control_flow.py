"""Whether the branches and loops of a model are still there on the target's side, or were fixed at the sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tensoraudit.audit.state import Audit, Candidate
from tensoraudit.errors import InputError
from tensoraudit.extract.tensorflow_saved import read_saved_model_graph
from tensoraudit.facts import Model, Node
from tensoraudit.findings.result import Conversion

CONTROL: Final = frozenset((
    *("If", "Loop", "Scan", "While", "StatelessIf", "StatelessWhile", "Case", "StatelessCase"),
    *("Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"),
    *("cond", "scan", "while", "case", "while_loop", "prim::If", "prim::Loop"),
))  # fmt: skip
"""Operators that decide or repeat, in whichever framework."""
RECURRENT: Final = frozenset(("GRU", "LSTM", "RNN"))
"""Operators of ONNX that a loop over a sequence may become."""


@dataclass(frozen=True, slots=True)
class Flow:
    """`word` is one of none, kept, lost, unknown; `text` says it with the operators and the reason."""

    word: str
    text: str


def control_flow(audit: Audit, target: str, conversion: Conversion) -> Flow:
    """Compare the branches and loops of the source's graph with those of the target's."""
    source = [fact for fact in audit.facts if isinstance(fact, Node) and fact.side in ("source", "both")]
    own = _counted(node.op for node in source if node.op in CONTROL)
    if not own:
        return _none(audit, source)
    if conversion.status != "ok":
        return Flow("unknown", f"unknown ({_listed(own)} in the source, not converted)")
    found = _of_target(audit, target)
    if found is None:
        return Flow("unknown", f"unknown ({_listed(own)} in the source; the graph of the target is not read)")
    kept = _counted(op for op in found if op in CONTROL)
    recurrent = _counted(op for op in found if op in RECURRENT)
    if kept:
        return Flow("kept", f"kept ({_listed(own)} became {_listed(kept + recurrent)})")
    if recurrent:
        return Flow("kept", f"kept as operators ({_listed(own)} became {_listed(recurrent)})")
    return Flow("lost", f"frozen or unrolled ({_listed(own)} in the source, none in the target)")


def _none(audit: Audit, source: list[Node]) -> Flow:
    formats = {fact.format for fact in audit.facts if isinstance(fact, Model) and fact.side in ("source", "both")}
    if not source:
        return Flow("unknown", "unknown (the graph of the source is not known)")
    if "torch_trace" in formats:
        return Flow("unknown", "unknown (the model was run, not exported: branches and loops do not show)")
    if formats & {"torch_export", "exported_program"}:
        return Flow("none", "none in the exported graph; branches of Python were fixed at the sample")
    return Flow("none", "none")


def _counted(operators: Iterable[str]) -> Counter[str]:
    return Counter(operators)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{op} x{count}" if count > 1 else op for op, count in sorted(counts.items()))


def _of_target(audit: Audit, target: str) -> list[str] | None:
    """The operators of the model that ships, where its graph is known without running it."""
    candidate = next((each for each in audit.candidates if each.target == target and each.ships), None)
    if candidate is None:
        return None
    if candidate.path is not None:
        return list(_of_file(audit, candidate.path))
    return _of_saved_model(candidate)


def _of_file(audit: Audit, path: Path) -> Iterator[str]:
    nodes = (fact for fact in audit.facts if isinstance(fact, Node) and fact.side == "target")
    return (node.op for node in nodes if (node.file or node.at.path) == str(path))


def _of_saved_model(candidate: Candidate) -> list[str] | None:
    spec = candidate.params.get("model") or {}
    if spec.get("format") != "saved_model":
        return None
    try:
        facts = read_saved_model_graph(Path(spec["path"]), "target")
    except InputError:
        return None
    operators = [fact.op for fact in facts if isinstance(fact, Node)]
    return None if "XlaCallModule" in operators else operators
