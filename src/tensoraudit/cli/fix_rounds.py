"""Mend what rules found in source files, in rounds, until nothing more can be mended. Writes nothing.

    1. audit the files as they would be now
    2. take back each change after which its rule still speaks of the place, and do not try it again
    3. edit what is found, file by file; when nothing is left to edit, this is the end

So the last audit is one of the result, and a second run of the whole finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tensoraudit.audit.frameworks import rule_source, rule_target
from tensoraudit.audit.state import Audit
from tensoraudit.extract.derived import complete_store
from tensoraudit.extract.python_files import unsaved
from tensoraudit.facts import Scope, Site
from tensoraudit.findings.finding import Finding
from tensoraudit.findings.result import Result
from tensoraudit.fixes.apply import apply
from tensoraudit.fixes.encoded import read_source
from tensoraudit.fixes.verbs import Applied, CannotEdit, Done, Edit, Fix, Outcome, Place, Refused
from tensoraudit.language.edits import doubt, edit_of, place_of
from tensoraudit.language.engine import Match, match_rules
from tensoraudit.language.load import RuleSet
from tensoraudit.options import Options
from tensoraudit.steps import LINT, source_audit

MOST_ROUNDS: Final = 20
"""Two are the rule: one that edits and one that finds nothing more. Rules whose fixes feed each other end here."""

NO_FIX: Final = "no mechanical fix"
NOTEBOOK: Final = "notebooks are not rewritten: change the cell by hand"
NOT_MENDED: Final = "not mended: the rule still holds after its fix, which was taken back"
UNDONE: Final = "not mended again: the fix of another rule undoes this one"
_UNSAFE: Final = "; --unsafe makes the change"

Key = tuple[str, str]
"""Rule and fingerprint of a finding."""


@dataclass(frozen=True, slots=True)
class Change:
    """A finding that was mended: where it stood (`path` is absolute), what was done, and where the result stands."""

    finding: Finding
    path: Path
    what: str
    places: tuple[Place, ...]

    @property
    def key(self) -> Key:
        """What the finding is known by."""
        return self.finding.rule, self.finding.fingerprint


@dataclass(frozen=True, slots=True)
class Left:
    """A finding that stays, with the reason."""

    finding: Finding
    reason: str


@dataclass(frozen=True, slots=True)
class Repair:
    """What files would hold and held (by absolute path), what was changed, what stays, and the audit of the result."""

    contents: Mapping[Path, bytes]
    before: Mapping[Path, bytes]
    changes: tuple[Change, ...]
    left: tuple[Left, ...]
    result: Result


@dataclass(frozen=True, slots=True)
class _View:
    """One audit: its result, and the matches of rules with verbs."""

    result: Result
    matches: Mapping[Key, Match]
    modules: frozenset[str]

    def still(self, change: Change) -> bool:
        """Tell whether the rule of a change still speaks of its place, or the file can no longer be read."""
        path = change.finding.where.path
        if path not in self.modules:
            return True
        return any(
            match.rule.id == change.finding.rule and match.where.path == path and place_of(match) in change.places
            for match in self.matches.values()
        )


def repair(options: Options, *, unsafe: bool) -> Repair:
    """Mend the findings in `options.code`. Raises UserError as an audit does."""
    rounds = _Rounds(options, unsafe)
    view = rounds.look()
    for _ in range(MOST_ROUNDS):
        if not rounds.edit(view):
            break
        view = rounds.look()
        while rounds.take_back([change for change in rounds.last if view.still(change)]):
            view = rounds.look()
        rounds.settle()
    else:
        rounds.ended = True
        rounds.edit(view)
    before = {path: data for path, data in rounds.before.items() if rounds.contents[path] != data}
    contents = {path: rounds.contents[path] for path in before}
    return Repair(contents, before, tuple(rounds.done), tuple(rounds.left), view.result)


@dataclass(slots=True)
class _Rounds:
    options: Options
    unsafe: bool
    contents: dict[Path, bytes] = field(default_factory=dict)
    before: dict[Path, bytes] = field(default_factory=dict)
    done: list[Change] = field(default_factory=list)
    last: list[Change] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    blocked: dict[Key, str] = field(default_factory=dict)
    earlier: dict[Path, bytes] = field(default_factory=dict)
    """What files held before the last round."""
    ended: bool = False
    """No further edits are made."""

    def look(self) -> _View:
        """Audit the files as they would be now."""
        with unsaved(self.contents):
            audit = source_audit(self.options)
            for step in LINT:
                audit = step(audit)
        assert audit.result is not None
        paths = (fact.at.path for fact in audit.facts if isinstance(fact, Scope) and fact.kind == "module")
        return _View(audit.result, _matches(audit), frozenset(path for path in paths if path))

    def edit(self, view: _View) -> bool:
        """Edit what can be mended; tell whether anything was."""
        self.last, self.left, self.earlier = [], [], {}
        files: dict[Path, list[tuple[Finding, Match, Edit]]] = {}
        for finding in view.result.findings:
            match = view.matches.get((finding.rule, finding.fingerprint))
            edit = edit_of(match) if match is not None else None
            reason = self._why_not(finding, match)
            if reason or match is None or edit is None:
                self.left.append(Left(finding, reason or NO_FIX))
            else:
                files.setdefault(self._absolute(finding.where), []).append((finding, match, edit))
        for path, rows in files.items():
            self._edit_file(path, rows)
        return bool(self.last)

    def _why_not(self, finding: Finding, match: Match | None) -> str:
        key = (finding.rule, finding.fingerprint)
        if match is None or not isinstance(match.fix, Fix):
            return NO_FIX
        if finding.where.cell is not None:
            return NOTEBOOK
        if key in self.blocked:
            return self.blocked[key]
        if self.ended or any(change.key == key for change in self.done):
            return UNDONE
        if self.unsafe:
            return ""
        unsure = doubt(match) or ("" if match.fix.safe else "its fix may change what the code means")
        return unsure and unsure + _UNSAFE

    def _absolute(self, where: Site) -> Path:
        assert where.path is not None
        return (self.options.root.resolve() / where.path).resolve()

    def _edit_file(self, path: Path, rows: list[tuple[Finding, Match, Edit]]) -> None:
        data = self.contents.get(path)
        data = path.read_bytes() if data is None else data
        applied, new = self._applied(path, data, [edit for _, _, edit in rows])
        for (finding, match, _), outcome in zip(rows, applied.outcomes, strict=True):
            self._note(finding, path, str(match.fix), outcome, new != data)
        if new != data:
            self.before.setdefault(path, data)
            self.earlier[path], self.contents[path] = data, new

    def _applied(self, path: Path, data: bytes, edits: list[Edit]) -> tuple[Applied, bytes]:
        try:
            source = read_source(data)
            keep = path.name == "__init__.py"  # what a package imports, others import from it
            applied = apply(source.text, edits, unsafe=self.unsafe, keep_imports=keep)
            return applied, source.encode(applied.text)
        except CannotEdit as error:
            return Applied("", (Refused(str(error)),) * len(edits)), data

    def _note(self, finding: Finding, path: Path, what: str, outcome: Outcome, changed: bool) -> None:
        match outcome:
            case Done(places=places) if changed:
                self.last.append(Change(finding, path, what, places))
            case Done():
                self.left.append(Left(finding, NOT_MENDED))
            case Refused(reason=reason, risky=risky):
                self.left.append(Left(finding, reason + _UNSAFE * risky))

    def take_back(self, failed: list[Change]) -> bool:
        """Undo the last round in the files of changes that did not mend; tell whether there were any."""
        self.blocked |= {change.key: NOT_MENDED for change in failed}
        spoiled = {change.path for change in failed}
        for path in spoiled:
            self.contents[path] = self.earlier[path]
        self.last = [change for change in self.last if change.path not in spoiled]
        return bool(failed)

    def settle(self) -> None:
        """The changes of the last round have been looked at and stay."""
        self.done += self.last


def _matches(audit: Audit) -> dict[Key, Match]:
    """Ask the rules with verbs alone once more: a finding does not tell which pattern matched what."""
    assert audit.rules is not None and audit.artifact is not None
    verbs = tuple(rule for rule in audit.rules if any(isinstance(each.fix, Fix) for each in rule.alternatives))
    rules, store, source = RuleSet(verbs), complete_store(audit.facts), rule_source(audit.artifact.framework)
    return {
        (match.rule.id, match.fingerprint): match
        for target in audit.options.target
        for match in match_rules(rules, store, source=source, target=rule_target(target))
    }
