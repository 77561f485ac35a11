"""One letter per target, the four-layer map, and the exit code. Knows nothing of rules or formats.

1. Start from the worst open finding: none A, low B, medium C, high D, critical F.
2. `suspected` and `unverified` count one step milder; `refuted` and `advice` do not count.
3. While a required probe has not run the grade is at best C and carries `?`.
4. The gate counts as the letter does, so that `--fail-on high` fails exactly on D and F.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tensoraudit.findings.finding import Finding, Layer
from tensoraudit.findings.result import Probe
from tensoraudit.findings.severity import NONE, RANKS, counted, worst

LETTERS: Final[Mapping[str, str]] = {NONE: "A", "low": "B", "medium": "C", "high": "D", "critical": "F"}
BEST_IF_UNSURE: Final = "C"
UNKNOWN: Final = "unknown"
"""A cell of the map without a finding while a required probe has not run: nobody looked."""

OK, FOUND, CANNOT_TELL = 0, 1, 3


def concerning(findings: Iterable[Finding], target: str) -> list[Finding]:
    """Return the findings of one target; a finding without a target concerns all."""
    return [finding for finding in findings if finding.target in {"", target}]


def missing_probes(probes: Iterable[Probe], target: str | None = None) -> list[Probe]:
    """Return the required probes that did not run, of one target or of all."""
    return [
        probe
        for probe in probes
        if probe.required and probe.status != "ok" and (target is None or probe.target in {"", target})
    ]


def grade(findings: Iterable[Finding], probes: Iterable[Probe], target: str) -> str:
    """Return the letter of one target, with `?` while a required probe has not run."""
    letter = LETTERS[worst(map(counted, concerning(findings, target)))]
    if missing_probes(probes, target):
        return max(letter, BEST_IF_UNSURE) + "?"
    return letter


def grades(findings: Iterable[Finding], probes: Iterable[Probe], targets: Iterable[str]) -> dict[str, str]:
    """Return the letter of every target."""
    all_findings, all_probes = list(findings), list(probes)
    return {target: grade(all_findings, all_probes, target) for target in targets}


def layers(findings: Iterable[Finding], probes: Iterable[Probe], targets: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return target -> layer -> the worst severity counted there, `none`, or `unknown` where nobody could look."""
    all_findings, all_probes = list(findings), list(probes)
    return {
        target: _layers_of(concerning(all_findings, target), missing_probes(all_probes, target)) for target in targets
    }


def _layers_of(findings: list[Finding], missing: list[Probe]) -> dict[str, str]:
    cells = {layer.value: worst(counted(each) for each in findings if each.layer is layer) for layer in Layer}
    return {layer: UNKNOWN if missing and severity == NONE else severity for layer, severity in cells.items()}


def exit_code(findings: Iterable[Finding], probes: Iterable[Probe], fail_on: str) -> int:
    """Return 1 when a finding counts at or above `fail_on`, else 3 when a required probe has not run, else 0.

    `fail_on` is a severity or `never`, which leaves 0 and 3.
    """
    if fail_on != "never" and RANKS[worst(map(counted, findings))] >= RANKS[fail_on]:
        return FOUND
    return CANNOT_TELL if missing_probes(probes) else OK
