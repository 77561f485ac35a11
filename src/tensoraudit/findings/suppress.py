"""What users silence, with their reasons: comments in source, and `[[tool.tensoraudit.ignore]]` in the configuration.

    loss = model.half()(x)   # tensoraudit: ignore[AMP-003] inference only, checked by hand
    # tensoraudit: file-ignore[ONX-014] state is reset by the caller

A comment speaks of its line and of the whole statement that it stands in. A reason is compulsory, and so are rule ids:
there is no blanket ignore. A suppression that does not work or is not needed is a finding itself:

    SUP-001  no reason         SUP-002  no known rule        SUP-003  suppresses nothing       SUP-004  past its date
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from fnmatch import fnmatchcase
from typing import Any, Final

from tensoraudit.errors import ConfigError, did_you_mean
from tensoraudit.facts import Site
from tensoraudit.findings.finding import Finding, Layer, Severity, State
from tensoraudit.findings.result import Suppressed

_WORDS: Final[Mapping[str, tuple[str, str, str]]] = {
    "SUP-001": (
        "Suppression without a reason",
        "A finding that is silenced without a word cannot be reviewed later, so this suppression does not work.",
        "Write the reason behind the bracket, or remove the comment.",
    ),
    "SUP-002": (
        "Suppression of an unknown rule",
        "It silences nothing; a typing error or a rule that is gone.",
        "Name a rule that `tensoraudit rules list` shows.",
    ),
    "SUP-003": (
        "Suppression that is not needed",
        "Nothing is found there any more; left standing it would hide the next finding of that rule.",
        "Remove it.",
    ),
    "SUP-004": (
        "Suppression past its date",
        "The date in `until` has passed, so what it silenced counts again.",
        "Mend the finding, or move the date with a fresh reason.",
    ),
}


NOWHERE: Final = Site()


@dataclass(frozen=True, slots=True)
class Suppression:
    """One suppression: rules, place and reason.

    `line` to `end_line` is the statement of a comment, within the `cell` of a notebook; no line means the whole file.
    `pattern` is a glob over path, node, tensor and variable (configuration only). `until` is its last day. `by` says
    where it stands.
    """

    rules: tuple[str, ...]
    reason: str
    by: str
    at: Site = NOWHERE
    path: str | None = None
    line: int | None = None
    end_line: int | None = None
    cell: int | None = None
    pattern: str | None = None
    until: date | None = None

    def covers(self, finding: Finding) -> bool:
        """Tell whether a finding lies where this suppression holds; says nothing of rules."""
        where = finding.where
        if self.pattern is not None:
            places = (where.path, where.node, where.tensor, where.variable)
            return any(place is not None and fnmatchcase(place, self.pattern) for place in places)
        if self.line is None:
            return self.path in {None, where.path}
        # The finding's first line decides: a comment inside a function does not speak of the whole function.
        if (where.path, where.cell) != (self.path, self.cell):
            return False
        return where.line in range(self.line, (self.end_line or self.line) + 1)


def read_config(entries: Iterable[Mapping[str, Any]]) -> list[Suppression]:
    """Read `[[tool.tensoraudit.ignore]]`: `rule` (one or several), `reason`, optional `where` and `until`.

    Raises ConfigError naming the entry.
    """
    return [_read_entry(entry, f"tool.tensoraudit.ignore[{index}]") for index, entry in enumerate(entries)]


def _read_entry(entry: Mapping[str, Any], where: str) -> Suppression:
    if not isinstance(entry, Mapping):
        raise ConfigError("an entry must be a table", where=where, remedy="Write [[tool.tensoraudit.ignore]].")
    unknown = sorted(set(entry) - {"rule", "where", "reason", "until"})
    if unknown:
        raise ConfigError(f"unknown key {unknown[0]!r}", where=where, remedy="Use rule, where, reason and until.")
    named = entry.get("rule")
    rules = tuple(named) if isinstance(named, list | tuple) else (named,)
    if not rules or not all(isinstance(rule, str) and rule for rule in rules):
        raise ConfigError("no rule is named", where=where, remedy="Add rule = 'ONX-014'.")
    reason = entry.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise ConfigError("the reason is missing", where=where, remedy="Add reason = '...'.")
    pattern = entry.get("where")
    if pattern is not None and not isinstance(pattern, str):
        raise ConfigError("where must be a text", where=where, remedy="Write a glob such as 'model/*.py'.")
    return Suppression(
        rules, reason.strip(), "configuration", pattern=pattern, until=_read_date(entry.get("until"), where)
    )


def _read_date(value: Any, where: str) -> date | None:
    if value is None:
        return None
    try:
        if isinstance(value, datetime):  # a date to Python, which no date compares with
            return value.date()
        return value if isinstance(value, date) else date.fromisoformat(value)
    except (TypeError, ValueError):
        message = f"{value!r} is no date"
        raise ConfigError(message, where=where, remedy="Write until = 2027-01-31.") from None


def suppress(
    findings: Iterable[Finding],
    suppressions: Iterable[Suppression],
    *,
    known: Mapping[str, str],
    asked: Collection[str],
    today: date,
) -> tuple[list[Finding], list[Suppressed]]:
    """Return the findings that stay, with those about the suppressions themselves, and the suppressed ones.

    `known` maps every rule id and alias to its id. `asked` are the rules that this audit could have reported: only for
    them a suppression can be found to be unneeded.
    """
    working: list[Suppression] = []
    faults: list[Finding] = []
    for each in suppressions:
        fault = _fault(each, known, today)
        faults += fault
        if not any(finding.rule in {"SUP-001", "SUP-004"} for finding in fault):
            working.append(each)
    kept: list[Finding] = []
    silenced: list[Suppressed] = []
    used: set[tuple[int, str]] = set()
    for finding in findings:
        index = _by_whom(finding, working, known)
        if index is None:
            kept.append(finding)
        else:
            used.add((index, finding.rule))
            silenced.append(Suppressed(finding, working[index].reason, working[index].by))
    faults += _unneeded(working, used, known, asked)
    return [*kept, *faults], silenced


def _by_whom(finding: Finding, working: list[Suppression], known: Mapping[str, str]) -> int | None:
    for index, each in enumerate(working):
        if finding.rule in {known.get(rule) for rule in each.rules} and each.covers(finding):
            return index
    return None


def _fault(each: Suppression, known: Mapping[str, str], today: date) -> list[Finding]:
    unknown = (rule for rule in each.rules if rule not in known)
    faults = [_finding("SUP-002", each, _unknown(rule, known)) for rule in unknown]
    if not each.rules:
        faults.append(_finding("SUP-002", each, "No rule is named: write ignore[RULE-ID]"))
    if not each.reason:
        faults.append(_finding("SUP-001", each, f"ignore[{', '.join(each.rules)}] gives no reason"))
    if each.until is not None and today > each.until:
        text = f"The suppression of {', '.join(each.rules)} ended on {each.until.isoformat()}"
        faults.append(_finding("SUP-004", each, text))
    return faults


def _unknown(rule: str, known: Iterable[str]) -> str:
    return f"{rule!r} is no rule. {did_you_mean(rule.upper(), known)}".rstrip()


def _unneeded(
    working: list[Suppression], used: set[tuple[int, str]], known: Mapping[str, str], asked: Collection[str]
) -> list[Finding]:
    faults = []
    for index, each in enumerate(working):
        for rule in each.rules:
            rule_id = known.get(rule)
            if rule_id in asked and (index, rule_id) not in used:
                faults.append(_finding("SUP-003", each, f"{rule} is not found here"))
    return faults


def _finding(rule: str, each: Suppression, message: str) -> Finding:
    title, why, remedy = _WORDS[rule]
    identity = "\n".join([rule, each.by, each.path or "", each.pattern or "", *each.rules, message])
    return Finding(
        rule=rule,
        title=title,
        severity=Severity.LOW,
        state=State.CERTAIN,
        layer=Layer.DEPLOYMENT,
        target="",
        where=each.at,
        message=message if message.endswith(("?", ".")) else f"{message}.",
        why=why,
        remedy=remedy,
        fingerprint=hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:16],
    )
