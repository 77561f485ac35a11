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
    "training.regions": "training",
    "training.recomputations": "training",
    "training.status": "training",
    "training.error": "training",
    "training.gradients_missing": "training",
    "training.gradients_nan": "training",
    "training.gradient_verdict": "training",
    "training.gradient_difference": "training",
    "training.output_verdict": "training",
    "training.buffer_verdict": "training",
    "training.buffers_differ": "training",
    "training.batches_tracked": "training",
    "training.rng_differs": "training",
    "training.side_effects": "training",
    "training.forward_calls": "training",
    "training.warnings": "training",
    "training.recompute_dtype_changed": "training",
    "training.autocast_error": "training",
    "training.autocast_gradient_verdict": "training",
    "training.scaler_differs": "training",
    "training.peak_memory_ratio": "training",
    "training.flops_ratio": "training",
    "training.time_ratio": "training",
    "training.region_recomputations": "training",
    "training.region_modules": "training",
    "training.region_error": "training",
    "training.region_gradients_missing": "training",
    "training.region_gradients_nan": "training",
    "training.region_gradient_verdict": "training",
    "training.region_output_verdict": "training",
    "training.region_rng_differs": "training",
    "training.region_statistics_verdict": "training",
    "training.region_buffers_differ": "training",
    "training.region_side_effects": "training",
    "training.region_dtype_changed": "training",
    "training.region_autocast_error": "training",
    "training.region_autocast_gradient_verdict": "training",
    "training.line_recomputed": "training",
}
"""Metric to probe."""

PROBES: Final = tuple(dict.fromkeys(METRICS.values()))

VERDICTS: Final = ("identical", "equivalent", "noise", "drift", "break", "unverified")

WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    **{metric: VERDICTS for metric in METRICS if metric.endswith("verdict")},
    "conversion.status": ("ok", "partial", "impossible", "refused", "unknown"),
    "export.status": ("ok", "failed", "crashed", "timeout", "unsupported", "missing"),
    "training.status": ("ok", "unsupported"),
}
"""The only values of metrics that are words."""
