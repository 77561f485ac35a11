"""A model whose target is its own framework: the same artifact under two interpreters, or in another mode.

With `--python source=...` or `--python target=...` each side has an interpreter of its own; the floor is that of the
source, and what differs between their packages is listed beside what differs between their results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from tensoraudit.artifacts.artifact import Artifact
from tensoraudit.audit.frameworks import FRAMEWORKS, framework_of, rule_source
from tensoraudit.audit.modes import mode_candidates
from tensoraudit.audit.releases import Change, Crossing, changes, crossings, mentions
from tensoraudit.audit.roles import SIDES, target_role, two_interpreters
from tensoraudit.audit.rows import probe_row
from tensoraudit.audit.state import Audit, Candidate
from tensoraudit.errors import InputError
from tensoraudit.options import Options

NAMED = 12
"""Packages and rules that a note names; the JSON report has all."""


def with_target(artifact: Artifact, options: Options) -> Options:
    """Return the options with the model's own framework as target where nobody named one and interpreters differ."""
    stays = not options.targeted and two_interpreters(options) and FRAMEWORKS[artifact.framework].can("run")
    return replace(options, target=(artifact.framework,)) if stays else options


def check_sides(artifact: Artifact, options: Options) -> None:
    """Refuse an interpreter for a side where a target is another framework: nothing would run in it.

    Raises InputError.
    """
    others = [target for target in options.target if target != artifact.framework]
    if not others or not two_interpreters(options) or not FRAMEWORKS[artifact.framework].can("run"):
        return
    raise InputError(
        f"source and target are the sides of a model that stays in {FRAMEWORKS[artifact.framework].title}, "
        f"and the target is {' and '.join(others)}",
        where="--python",
        remedy=f"Name frameworks (--python {FRAMEWORKS[artifact.framework].role}=PATH), or add --target "
        f"{artifact.framework} alone.",
    )


def upgrade(audit: Audit, target: str) -> Audit:
    """Add the candidates of a model that stays in its framework.

    Under two interpreters it is the model itself on the target's side, which ships. Under one it is the reference in
    its other modes, of which the framework's own compiled one ships.
    """
    assert audit.reference is not None and audit.artifact is not None
    if not two_interpreters(audit.options):
        return audit.add(candidates=mode_candidates(audit, target))
    role = target_role(target, audit.artifact, audit.options)
    candidate = Candidate("upgrade", role, audit.reference.params, target, ships=True, path=audit.artifact.path)
    return _compare_packages(audit.add(candidates=(candidate,)), role, target)


def _compare_packages(audit: Audit, role: str, target: str) -> Audit:
    """List what differs between the interpreters, and the rules that speak of it."""
    assert audit.reference is not None and audit.pool is not None and audit.rules is not None
    listed: list[dict[str, str]] = []
    for side, worker in zip(SIDES, (audit.reference.role, role), strict=True):
        outcome = audit.pool.run(worker, framework_of(worker).job("installed"), {})
        if outcome.result is None:
            return audit.add(probes=(probe_row(f"packages.{side}", worker, "cpu", outcome, target=target),))
        listed.append(outcome.result["packages"])
    found = changes(*listed)
    source = rule_source(audit.artifact.framework) if audit.artifact else ""
    crossed, spoken = crossings(audit.rules, found, source), mentions(audit.rules, found, source)
    told: dict[str, Any] = {
        "packages": [asdict(change) for change in found],
        "rules": [asdict(crossing) for crossing in crossed],
        "speaking": spoken,
    }
    return audit.add(settings={"upgrade": told}, notes=tuple(_notes(found, crossed, spoken)))


def _notes(found: Sequence[Change], crossed: Sequence[Crossing], spoken: dict[str, list[str]]) -> Iterator[str]:
    if not found:
        yield "the interpreters of the two sides have the same packages in the same versions"
        return
    yield f"packages that differ between the two sides: {_some([str(change) for change in found])}"
    yield from map(str, crossed)
    for name, ids in spoken.items():
        yield f"rules that speak of {name}: {_some(ids)} (tensoraudit rules explain ID)"


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - NAMED
    return ", ".join(texts[:NAMED]) + (f", and {more} more" if more > 0 else "")
