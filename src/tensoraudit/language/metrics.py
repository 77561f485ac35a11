"""The measurements that every scan makes, and the probe that makes each. docs/rule-language.md explains them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

METRICS: Final[Mapping[str, str]] = {
    "output.verdict": "outputs",
    "output.error_ratio": "outputs",
    "output.linf": "outputs",
    "output.top1_changes": "outputs",
    "output.nan_reference": "outputs",
    "output.nan_candidate": "outputs",
    "run.error": "outputs",
    "sizes.verdict": "sizes",
    "sizes.error": "sizes",
    "reference.deterministic": "determinism",
    "candidate.deterministic": "determinism",
    "reference.state_changed": "determinism",
    "levels.verdict": "levels",
    "conversion.status": "export",
    "conversion.route": "export",
    "export.status": "export",
    "export.opset_requested": "export",
    "export.opset_written": "export",
    "export.dynamic_requested": "export",
    "export.dynamic_written": "export",
    "export.dynamic_lost": "export",
    "export.batch_fixed": "export",
    "export.training": "export",
    "export.warnings": "export",
    "session.provider_requested": "session",
    "session.provider": "session",
    "session.loads": "session",
    "session.error": "session",
    "node.local_error_ratio": "nodes",
}
"""Metric to probe."""

PROBES: Final = tuple(dict.fromkeys(METRICS.values()))
