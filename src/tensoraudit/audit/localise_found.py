"""What a search found, as reports and rules take it: the first divergence, and a measurement of the operation alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tensoraudit.audit.state import Audit, Candidate
from tensoraudit.equivalence.tensor import TensorComparison
from tensoraudit.facts import Measurement
from tensoraudit.findings.result import FirstDivergence


@dataclass(frozen=True, slots=True)
class Located:
    """A first divergence with what was measured there."""

    first: FirstDivergence
    measurements: tuple[Measurement, ...] = ()


def shown_line(audit: Audit, path: str, line: int) -> str:
    """A source line as reports print it, relative to the project's root; "" where none is known."""
    if not line:
        return ""
    root = audit.options.root.resolve()
    return f"{Path(path).relative_to(root) if Path(path).is_relative_to(root) else path}:{line}"


def reproducer_folder(audit: Audit) -> str:
    """Where the smallest diverging model shall be written, absolute; "" when the user wants none."""
    return "" if audit.options.reproducer is None else str(Path(audit.options.reproducer).resolve())


def local_measurement(
    first: FirstDivergence, comparison: TensorComparison | None, candidate: Candidate
) -> tuple[Measurement, ...]:
    """The error of the operation alone in units of the noise floor, where both are known."""
    floor = None if comparison is None else comparison.floor
    if first.local_error is None or floor is None or floor.value <= 0:
        return ()
    measurement = Measurement(
        "node.local_error_ratio",
        first.candidate_node,
        first.local_error / floor.value,
        probe="onnxruntime.subgraph",
        side="target",
        target=candidate.target,
        detail=f"{first.reference_node} {first.source_line}".strip(),
    )
    return (measurement,)
