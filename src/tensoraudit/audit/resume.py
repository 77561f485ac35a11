"""The steps of `checkpoint resume`: run a training program through and interrupted, and say what a resume loses.

Every run is a process of its own, since a resume happens in one; two roles take turns, so that the next framework is
being imported while a run is going on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.artifact import Artifact
from tensoraudit.artifacts.identify import identify
from tensoraudit.audit.frameworks import framework_of
from tensoraudit.audit.prepare import told
from tensoraudit.audit.resume_runs import Plan, Row, Run, Verdict, examine
from tensoraudit.audit.roles import source_role
from tensoraudit.audit.rows import probe_row
from tensoraudit.audit.state import Audit
from tensoraudit.errors import InputError
from tensoraudit.facts import Measurement, Site
from tensoraudit.language.load import RuleSet
from tensoraudit.language.metrics import METRICS
from tensoraudit.language.rule import Rule
from tensoraudit.probes.outcome import Outcome

PROBE: Final = "resume"
_FIELDS: Final = tuple(each.name for each in fields(Run))


def identify_program(audit: Audit) -> Audit:
    """Find out what the user named: a function of a training program. Raises InputError."""
    artifact = told(identify(audit.spec), audit.options.framework)
    if artifact.format != "python_object":
        raise InputError(
            f"is {artifact.format.replace('_', ' ')}, no training program",
            where=audit.spec,
            remedy="Name the function that takes one training step: train.py:train_step.",
        )
    return replace(audit, options=replace(audit.options, target=())).add(artifact=artifact)


def keep_rules(audit: Audit) -> Audit:
    """Ask only the rules that a resume test can settle; the names of the others stay known to suppressions."""
    assert audit.rules is not None
    asked = tuple(rule for rule in audit.rules if _is_settled(rule))
    others = tuple(rule for rule in audit.rules if not _is_settled(rule))
    return audit.add(rules=RuleSet(asked, (*audit.rules.off, *others)))


def _is_settled(rule: Rule) -> bool:
    confirmed = rule.confirm is not None and rule.confirm.probe == PROBE
    return confirmed or any(
        METRICS.get(name.text) == PROBE for each in rule.alternatives for name in each.pattern.names
    )


def measure_resume(audit: Audit) -> Audit:
    """Run the program as often as it takes. Raises InputError when it cannot be called as a resume test calls it."""
    assert audit.artifact is not None and audit.pool is not None
    role = source_role(audit.artifact.framework, audit.options)
    if not framework_of(role).can("resume"):
        reason = framework_of(role).lacks("test the resume of")
        return audit.add(probes=(probe_row(PROBE, role, "cpu", "unsupported", reason, required=True),))
    plan = Plan(audit.options.save_after, audit.options.steps, audit.pool.folder / "resume")
    plan.folder.mkdir()
    runs = _Runs(audit, role)
    try:
        verdict = examine(runs.make, plan)
    except _RunFailed as failed:
        return _failed(audit, role, failed)
    return _concluded(audit, verdict)


class _RunFailed(Exception):  # noqa: N818 - how a run ended, raised and caught here
    def __init__(self, name: str, outcome: Outcome) -> None:
        super().__init__(name)
        self.name, self.outcome = name, outcome


class _Runs:
    """Makes runs, each in a process that has run nothing before."""

    def __init__(self, audit: Audit, role: str) -> None:
        self._audit, self._role = audit, role
        self._count = 0

    def make(self, name: str, **parameters: Any) -> Run:
        """Make one run; see `examine`. Raises _RunFailed."""
        assert self._audit.pool is not None and self._audit.artifact is not None
        self._audit.progress(f"training: {name}")
        pool, role = self._audit.pool, self._of(self._count)
        self._count += 1
        pool.start(self._of(self._count))
        given = {key: value for key, value in parameters.items() if value is not None}
        job = framework_of(self._role).job(PROBE)
        outcome = pool.run(role, job, {**_program(self._audit), "seed": self._audit.options.seed, **given})
        pool.retire(role)
        if outcome.result is None:
            raise _RunFailed(name, outcome)
        return Run(**{key: outcome.result[key] for key in _FIELDS if key in outcome.result})

    def _of(self, count: int) -> str:
        """Two roles by turns; one where the user named the interpreter of a side, which only that role gets."""
        return self._role if ":" in self._role or count % 2 else f"{self._role}:resume"


def _program(audit: Audit) -> dict[str, Any]:
    artifact: Artifact | None = audit.artifact
    assert artifact is not None
    return {
        "path": str(artifact.path.resolve()) if artifact.path else None,
        "module": artifact.module,
        "attribute": artifact.attribute,
        "code": [str(Path(path).resolve()) for path in audit.options.code],
    }


def _failed(audit: Audit, role: str, failed: _RunFailed) -> Audit:
    """A program that cannot be called is the user's to mend; one that fails on the way leaves the question open."""
    details = (failed.outcome.error or {}).get("details", {})
    if details.get("stage") == "program":
        raise InputError(failed.outcome.reason, where=audit.spec, remedy=details.get("remedy", ""))
    remedy = f" {details['remedy']}" if details.get("remedy") else ""
    reason = f"the run '{failed.name}' did not end well: {failed.outcome.reason}{remedy}"
    row = probe_row(f"{PROBE}.{failed.name}", role, "cpu", failed.outcome, reason, required=True)
    unknown = Measurement("resume.status", "training", "unknown", probe=PROBE, side="source", detail=reason)
    return audit.add(probes=(row,), measurements=(unknown,), resume={"status": "unknown", "reason": reason})


def _concluded(audit: Audit, verdict: Verdict) -> Audit:
    role = source_role(audit.artifact.framework, audit.options) if audit.artifact else ""
    unknown = verdict.status == "unknown"
    row = probe_row(PROBE, role, "cpu", "failed" if unknown else "ok", verdict.reason if unknown else "", required=True)
    return audit.add(
        probes=(row,),
        measurements=tuple(
            Measurement(metric, subject, value, probe=PROBE, side="source", at=_place(audit, row), detail=detail)
            for row in verdict.rows
            for metric, subject, value, detail in [row]
        ),
        notes=tuple(_notes(verdict)),
        resume={
            "status": verdict.status,
            "reason": verdict.reason,
            "save_after": audit.options.save_after,
            "steps": audit.options.steps,
            "own_save": verdict.saves,
            "losses": {name: list(losses) for name, losses in verdict.runs.items()},
            "parts": {name: {"kind": verdict.kinds[name], "state": state} for name, state in verdict.parts.items()},
            "opaque": list(verdict.opaque),
        },
    )


def _place(audit: Audit, row: Row) -> Site:
    """The program, and the part that is spoken of: two parts are two findings."""
    path, part = _program(audit)["path"], row[0] in {"resume.lost", "resume.not_restored", "resume.needed"}
    return Site(path=path, variable=row[1] if part else None)


def _notes(verdict: Verdict) -> Iterator[str]:
    idle = [part for part, state in verdict.parts.items() if state == "not_restored"]
    if idle and verdict.status == "equal":
        yield (
            f"not brought back, without effect in these steps: {', '.join(idle)}. "
            "If one of them acts later (a schedule, the next epoch), test over more steps (--steps)."
        )
    needed = [part for part, state in verdict.parts.items() if state == "needed"]
    if needed:
        yield f"nothing is saved by the program itself; a save must hold: {', '.join(needed)}"
