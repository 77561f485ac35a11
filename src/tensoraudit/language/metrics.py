"""The measurements that every scan makes, and the probe that makes each. docs/rule-language.md explains them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensoraudit.checkpoints.kinds import AGAINST_MODEL, DIFFERENCES, OBSERVED, RESUME
from tensoraudit.checkpoints.schema import KINDS

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
    "artifact.file_operators": "artifact",
    "conversion.status": "export",
    "conversion.route": "export",
    "export.status": "export",
    "export.opset_requested": "export",
    "export.opset_written": "export",
    "export.dynamic_requested": "export",
    "export.dynamic_written": "export",
    "export.dynamic_lost": "export",
    "export.batch_fixed": "export",
    "export.dynamic_refused": "export",
    "export.training": "export",
    "export.warnings": "export",
    "export.dtype_changes": "export",
    "export.dropped_outputs": "export",
    "coverage.types": "coverage",
    "coverage.nodes": "coverage",
    "coverage.unsupported": "coverage",
    "coverage.control_flow": "coverage",
    "session.provider_requested": "session",
    "session.provider": "session",
    "session.loads": "session",
    "session.error": "session",
    "node.local_error_ratio": "nodes",
    "gradient.verdict": "gradients",
    "gradient.error_ratio": "gradients",
    "gradient.linf": "gradients",
    "gradient.missing_candidate": "gradients",
    "gradient.missing_reference": "gradients",
    "gradient.zero_candidate": "gradients",
    "gradient.check": "gradients",
    "port.cause": "ported",
    "port.suspected": "ported",
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
    **{f"checkpoint.{kind}": "checkpoint" for kind in (*KINDS, *OBSERVED, *AGAINST_MODEL)},
    **{f"checkpoint_diff.{kind}": "checkpoint_diff" for kind in DIFFERENCES},
    **{f"resume.{kind}": "resume" for kind in RESUME},
}
"""Metric to probe."""

PROBES: Final = tuple(dict.fromkeys(METRICS.values()))

VERDICTS: Final = ("identical", "equivalent", "noise", "drift", "break", "unverified")

CAUSES: Final = (
    *("batchnorm-epsilon", "layernorm-epsilon", "batch-statistics", "dropout-active", "weight-difference"),
    *("padding-shift", "flatten-order", "kernel-not-transposed", "kernel-flipped", "kernel-axes", "missing-bias"),
    *("gate-order", "reset-after", "gelu-variant", "softmax-axis", "missing-activation", "extra-activation"),
    *("other-activation", "other-pooling", "resize-mode", "other-shape", "setting-differs", "unexplained"),
)
"""Why a layer of a port differs."""

WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    **{metric: VERDICTS for metric in METRICS if metric.endswith("verdict")},
    "conversion.status": ("ok", "partial", "impossible", "refused", "unknown"),
    "export.status": ("ok", "failed", "crashed", "timeout", "unsupported", "missing"),
    "training.status": ("ok", "unsupported"),
    "resume.status": ("equal", "differs", "unknown"),
    "gradient.missing_candidate": ("gradient", "zeros", "both"),
    "gradient.missing_reference": ("gradient", "zeros", "both"),
    "gradient.check": ("ok", "differs", "cut", "unverified"),
    "coverage.control_flow": ("none", "kept", "lost", "unknown"),
}
"""The only values of metrics that are words."""
