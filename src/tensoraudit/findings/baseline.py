"""Fingerprints of the findings that a team knows of already, so that only new ones gate. Knows the JSON report's shape.

{"schema": "tensoraudit-baseline/1", "findings": [{"fingerprint", "rule", "title", "count"}, ...]}
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tensoraudit.errors import InputError
from tensoraudit.findings.finding import Finding
from tensoraudit.findings.result import SCHEMA, Suppressed
from tensoraudit.findings.severity import is_open

BASELINE_SCHEMA: Final = "tensoraudit-baseline/1"
NOT_OPEN: Final = frozenset({"refuted", "advice"})


@dataclass(frozen=True, slots=True)
class Baselined:
    """Findings against a baseline: the new ones, the known ones, and the fingerprints that were not found again."""

    new: list[Finding]
    known: list[Suppressed]
    gone: list[str]


def read_baseline(path: Path) -> dict[str, int]:
    """Return fingerprint -> count. Raises InputError."""
    document = _read(path, BASELINE_SCHEMA, "baseline", "Write one with: tensoraudit baseline write REPORT.json")
    try:
        return {str(entry["fingerprint"]): int(entry["count"]) for entry in document["findings"]}
    except (KeyError, TypeError, ValueError):
        raise InputError("the baseline is damaged", where=str(path), remedy="Write it again.") from None


def apply_baseline(findings: Iterable[Finding], baseline: Mapping[str, int], name: str) -> Baselined:
    """Split findings into new and known; each fingerprint is known as often as the baseline counts it.

    `name` is what the report calls the baseline. Refuted findings and notes are left where they are.
    """
    left = dict(baseline)
    new: list[Finding] = []
    known: list[Suppressed] = []
    for finding in findings:
        if is_open(finding) and left.get(finding.fingerprint, 0) > 0:
            left[finding.fingerprint] -= 1
            known.append(Suppressed(finding, f"known in {name}", "baseline"))
        else:
            new.append(finding)
    return Baselined(new, known, sorted(mark for mark, count in left.items() if count > 0))


def baseline_from_report(path: Path) -> dict[str, Any]:
    """Return the baseline of a JSON report: its open findings, and those that an older baseline suppressed.

    Raises InputError.
    """
    report = _read(path, SCHEMA, "JSON report", "Write one with: tensoraudit scan ... --report json=report.json")
    try:
        known = [entry["finding"] for entry in report.get("suppressed", ()) if entry["by"] == "baseline"]
        entries = [each for each in (*report["findings"], *known) if each["state"] not in NOT_OPEN]
        counts = Counter(str(each["fingerprint"]) for each in entries)
        words = {str(each["fingerprint"]): (str(each["rule"]), str(each["title"])) for each in entries}
    except (KeyError, TypeError, AttributeError):
        raise InputError("the report is damaged", where=str(path), remedy="Run the audit again.") from None
    rows = [
        {"fingerprint": mark, "rule": rule, "title": title, "count": counts[mark]}
        for mark, (rule, title) in sorted(words.items(), key=lambda item: (item[1], item[0]))
    ]
    return {"schema": BASELINE_SCHEMA, "findings": rows}


def _read(path: Path, schema: str, what: str, remedy: str) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"the {what} cannot be read: {error.strerror}", where=str(path), remedy=remedy) from None
    except (UnicodeDecodeError, ValueError, RecursionError):
        raise InputError(f"this is no {what}: it is not JSON", where=str(path), remedy=remedy) from None
    if not isinstance(document, dict) or document.get("schema") != schema:
        raise InputError(f"this is no {what}: its schema is not {schema}", where=str(path), remedy=remedy)
    return document
