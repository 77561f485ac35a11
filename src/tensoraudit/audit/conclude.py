"""The last steps: rules over all facts and measurements, states, suppression, grade, and the one result."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tensoraudit.audit.frameworks import rule_source, rule_target
from tensoraudit.audit.roles import target_role
from tensoraudit.audit.state import Audit
from tensoraudit.extract.derived import complete_store
from tensoraudit.facts import Scope, Site
from tensoraudit.findings.baseline import apply_baseline, read_baseline
from tensoraudit.findings.causes import add_causes
from tensoraudit.findings.comments import read_comments
from tensoraudit.findings.finding import Finding
from tensoraudit.findings.grade import exit_code, grades, layers
from tensoraudit.findings.merge import merge
from tensoraudit.findings.result import Probe, Result, Suppressed
from tensoraudit.findings.settle import findings_from_matches
from tensoraudit.findings.severity import order_key
from tensoraudit.findings.suppress import read_config, suppress
from tensoraudit.language.engine import match_rules
from tensoraudit.version import __version__

SOURCE_KINDS = frozenset({"call", "import", "reference", "operation", "class", "function", "package", "variable"})
"""Kinds of facts that source code and the environment give."""

STORED_KINDS = frozenset({"tensor", "checkpoint", "package", "variable"})
"""Kinds of facts that a file of weights gives, with the environment. It never gives every measurement."""

PROBE_OF: Mapping[str, str] = {
    "reference": "outputs", "run": "outputs", "convert": "export", "levels": "levels", "localise": "nodes",
    "training": "training", "resume": "resume", "ported": "ported", "gradients": "gradients",
    "checkpoint": "checkpoint", "checkpoint_diff": "checkpoint_diff",
}  # fmt: skip
"""Which probe of the rule language a row of the report belongs to, by the row's first word."""

SPOKEN = ("conversions", "equivalence", "probes", "notes", "settings", "findings")
"""What of an audit holds texts of workers."""

IMPLIED: Mapping[str, tuple[str, ...]] = {"outputs": ("sizes", "determinism", "session")}
"""Probes that come from the same runs."""


def match_and_settle(audit: Audit) -> Audit:
    """Ask every rule, and let the measurements decide where a rule says how."""
    audit.progress("matching rules")
    found = [finding for target in _targets(audit) for finding in _found(audit, target)]
    return audit.add(findings=tuple(sorted(found, key=order_key)))


def _targets(audit: Audit) -> tuple[str, ...]:
    """The targets that rules are asked for; weights that go nowhere are asked every rule once."""
    return audit.options.target or ("",)


def _found(audit: Audit, target: str) -> list[Finding]:
    """The findings for one target: what was measured of another says nothing of it."""
    assert audit.artifact is not None and audit.rules is not None
    # Rules speak of runtimes, users of targets; the store speaks the rules' language.
    measured = (
        replace(row, target=rule_target(row.target)) for row in audit.measurements if row.target in {"", target}
    )
    store = complete_store((*audit.facts, *measured))
    probes = [row for row in audit.probes if row.target in {"", target}]
    ran = None if audit.pool is None else _why_not(probes)
    source = _source(audit)
    matches = match_rules(audit.rules, store, source=source, target=rule_target(target))
    found = findings_from_matches(matches, store, target, probes=ran, relocate=lambda site: _relocate(audit, site))
    merged = merge(found, {rule.id: rule.supersedes for rule in audit.rules})
    rows = [row for row in audit.equivalence if row.target in {"", target}]
    return [_name_target(finding) for finding in add_causes(merged, rows, store)]


def _source(audit: Audit) -> str:
    """What rules call the framework that the model comes from; "" for two checkpoints of different ones, either of
    which may be the one that a rule speaks of."""
    assert audit.artifact is not None
    others = audit.checkpoint_diff is not None and audit.candidate_artifact is not None
    if others and audit.candidate_artifact.framework != audit.artifact.framework:  # type: ignore[union-attr]
        return ""
    return rule_source(audit.artifact.framework)


def _name_target(finding: Finding) -> Finding:
    """Evidence in the user's words again: `onnx`, not the runtime behind it."""
    return replace(
        finding, evidence=tuple(replace(row, target=finding.target) if row.target else row for row in finding.evidence)
    )


def _why_not(probes: Sequence[Probe]) -> dict[str, str]:
    """Why a probe of the rule language gave no measurement."""
    reasons: dict[str, str] = {}
    for row in probes:
        probe = PROBE_OF.get(row.name.partition(".")[0])
        if probe is not None and row.status != "ok" and row.device == "cpu":
            text = f"{row.status}: {row.reason}" if row.reason else row.status
            for name in (probe, *IMPLIED.get(probe, ())):
                reasons.setdefault(name, text)
    return reasons


def _relocate(audit: Audit, site: Site) -> Site:
    """Files of the run folder are gone when the report is read: name the route instead. Others relative to the root."""
    if site.path is None:
        return site
    path = Path(site.path)
    if audit.pool is not None and path.is_relative_to(audit.pool.folder):
        return replace(site, path=f"{path.stem} (converted)")
    root = audit.options.root.resolve()
    return replace(site, path=str(path.relative_to(root))) if path.is_relative_to(root) else site


def conclude(audit: Audit) -> Audit:
    """Suppress what the user silenced, grade, and write down the result."""
    assert audit.artifact is not None and audit.rules is not None
    audit = _without_run_folder(audit)
    kept, silenced, outdated = _silence(audit)
    probes = audit.probes
    targets = audit.options.target
    result = Result(
        tool=_tool(audit),
        artifact=_artifact(audit),
        targets=targets,
        grade=grades(kept, probes, targets),
        exit_code=exit_code(kept, probes, audit.options.fail_on),
        layers=layers(kept, probes, targets),
        findings=tuple(kept),
        equivalence=audit.equivalence,
        migratability=audit.migratability,
        conversions=audit.conversions,
        probes=probes,
        suppressed=tuple(silenced),
        settings=_settings(audit),
        notes=(*audit.notes, *_input_notes(audit), *outdated),
        timings=audit.timings,
        fail_on=audit.options.fail_on,
        checkpoint=audit.checkpoint,
        checkpoint_diff=audit.checkpoint_diff,
        resume=audit.resume,
    )
    return audit.add(result=result)


def _without_run_folder(audit: Audit) -> Audit:
    """The run folder has another name in every run and is gone when the report is read: files in it by their names."""
    if audit.pool is None:
        return audit
    folder = f"{audit.pool.folder}{os.sep}"
    cleaned = {name: _cleaned(getattr(audit, name), folder) for name in SPOKEN}
    return replace(audit, **cleaned)


def _cleaned(value: Any, folder: str) -> Any:
    if type(value) is str:  # a severity is a text too, and stays what it is
        return value.replace(folder, "")
    if type(value) in {tuple, list}:
        return type(value)(_cleaned(each, folder) for each in value)
    if isinstance(value, Mapping):
        return {key: _cleaned(each, folder) for key, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: _cleaned(getattr(value, each.name), folder) for each in fields(value)})
    return value


def _silence(audit: Audit) -> tuple[list[Finding], list[Suppressed], list[str]]:
    """Comments in the source, the configuration, then the baseline: what is left gates."""
    assert audit.rules is not None
    root = audit.options.root.resolve()
    modules = {
        fact.at.path for fact in audit.facts if isinstance(fact, Scope) and fact.kind == "module" and fact.at.path
    }
    suppressions = [*read_comments((root / path, path) for path in sorted(modules)), *read_config(audit.options.ignore)]
    kept, silenced = suppress(
        audit.findings,
        suppressions,
        known=audit.rules.names,
        asked=_asked(audit),
        today=datetime.now(UTC).date(),
    )
    if audit.options.baseline is None:
        return kept, silenced, []
    path = Path(audit.options.baseline)
    split = apply_baseline(kept, read_baseline(path), path.name)
    return split.new, [*silenced, *split.known], _gone(split.gone, path)


def _gone(fingerprints: Sequence[str], path: Path) -> list[str]:
    count = len(fingerprints)
    return [f"{count} entries of {path.name} were not found again: write it anew to drop them"] if count else []


def _asked(audit: Audit) -> set[str]:
    """The rules that this audit could have reported: only for them can a suppression be called unneeded."""
    assert audit.rules is not None and audit.artifact is not None
    kinds = None if audit.pool is not None else SOURCE_KINDS if audit.checkpoint is None else STORED_KINDS
    source = _source(audit)
    return {
        rule.id
        for rule in audit.rules
        if not rule.deprecated
        and any(rule.concerns(source, rule_target(target)) for target in _targets(audit))
        and (kinds is None or all(each.pattern.kind in kinds for each in rule.alternatives))
    }


def _tool(audit: Audit) -> dict[str, Any]:
    versions: dict[str, Any] = {
        "name": "tensoraudit",
        "version": __version__,
        "python": platform.python_version(),
    }
    if audit.pool is None or audit.reference is None or audit.artifact is None:
        return versions
    targets = (target_role(each, audit.artifact, audit.options) for each in audit.options.target)
    for role in dict.fromkeys((audit.reference.role, *targets)):
        versions[role] = (audit.pool.hello(role).result or {}).get("version", "missing")
    return versions


def _artifact(audit: Audit) -> dict[str, Any]:
    artifact = audit.artifact
    assert artifact is not None
    told: dict[str, Any] = {"spec": artifact.spec, "format": artifact.format, "framework": artifact.framework}
    if artifact.size is not None:
        told["size"] = artifact.size
    if audit.candidate_artifact is not None:
        told["candidate"] = {"spec": audit.against, "format": audit.candidate_artifact.format}
    for key in ("class", "training"):
        if key in audit.description:
            told[key] = audit.description[key]
    if audit.description.get("parameters"):
        told["parameters"] = sum(_count(each["shape"]) for each in audit.description["parameters"])
    return told


def _count(shape: list[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def _settings(audit: Audit) -> dict[str, Any]:
    samples = {sample.name: {name: _shape(array) for name, array in sample.arrays.items()} for sample in audit.samples}
    return {
        **audit.settings,
        "seed": audit.options.seed,
        "tolerance": audit.options.tolerance or "preset of the dtype",
        "dynamic": {name: dict(axes) for name, axes in audit.dynamic.items()},
        "inputs": samples,
    }


def _shape(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}" if hasattr(array, "dtype") else repr(array["value"])


def _input_notes(audit: Audit) -> list[str]:
    refused: dict[str, list[str]] = {}
    for run in audit.reference_runs.values():
        if run.error:
            refused.setdefault(run.error, []).append(run.sample)
    told = "; ".join(f"{', '.join(names)} ({error})" for error, names in refused.items())
    notes = [f"input sets that the reference itself refuses, left out: {told}"] if refused else []
    if audit.implicit_batch:
        notes.append(
            "no dynamic dimension was declared: the first one was taken as the batch, since the reference accepts it"
        )
    return notes
