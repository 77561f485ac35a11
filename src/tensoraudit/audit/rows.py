"""Rows of the report for what ran, or did not, in a worker. Knows no arrays: `lint` has rows too."""

from __future__ import annotations

from tensoraudit.audit.frameworks import FRAMEWORKS, framework_of
from tensoraudit.findings.result import Probe, Status
from tensoraudit.probes.outcome import Outcome


def probe_row(
    name: str,
    framework: str,
    device: str,
    outcome: Outcome | Status,
    reason: str = "",
    *,
    required: bool = False,
    target: str = "",
    version: str = "",
) -> Probe:
    """The report's row for one run in a worker."""
    if isinstance(outcome, str):
        return Probe(name, framework, version, device, outcome, reason, required=required, target=target)
    return Probe(
        name,
        framework,
        version,
        device,
        outcome.status,
        reason or _with_remedy(outcome, framework),
        seconds=outcome.seconds,
        peak_memory=outcome.peak_memory,
        required=required,
        target=target,
    )


def _with_remedy(outcome: Outcome, label: str) -> str:
    """Why there is no outcome; of a framework that is not installed also how to come by it."""
    name = label.partition("/")[0]
    framework = FRAMEWORKS.get(name) or framework_of(name)  # type: ignore[call-overload]
    if outcome.status != "missing" or not outcome.reason.startswith("No module named") or not framework.extra:
        return outcome.reason
    remedy = f"pip install '{framework.extra}', or name a Python that has it: --python {framework.role}=PATH"
    return f"{outcome.reason}: {remedy}"
