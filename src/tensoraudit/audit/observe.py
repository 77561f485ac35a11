"""Collect the static facts: source code, graphs, weights, and the environments of both sides."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from tensoraudit.artifacts.artifact import Artifact
from tensoraudit.audit.frameworks import FRAMEWORKS
from tensoraudit.audit.roles import target_role
from tensoraudit.audit.rows import probe_row
from tensoraudit.audit.state import Audit
from tensoraudit.extract.environment import read_environment
from tensoraudit.extract.python_source import PythonFacts, read_python
from tensoraudit.facts import ClassDef, Fact, Import, Scope, Side
from tensoraudit.facts.code_index import CodeIndex
from tensoraudit.findings.result import Probe

MODULES = tuple(name for each in FRAMEWORKS.values() for name in each.modules)
"""How the dotted names of model classes begin."""


def collect_facts(audit: Audit) -> Audit:
    """Everything that can be known without running the model."""
    assert audit.artifact is not None
    audit.progress("reading source, graph and environment")
    source_side: Side = "both" if audit.artifact.framework == "onnx" and not audit.against else "source"
    audit = _read_graph(audit, audit.artifact, source_side)
    if audit.candidate_artifact is not None:
        audit = _read_graph(audit, audit.candidate_artifact, "target")
    return _read_environments(_read_sources(audit))


def _read_graph(audit: Audit, artifact: Artifact, side: Side) -> Audit:
    if artifact.format == "python_source" or artifact.path is None:
        return audit
    from tensoraudit.audit.graph_readers import GRAPH_READERS  # half of all readers, none of which `lint` needs

    reader = GRAPH_READERS.get(artifact.format)
    if reader is None:
        return audit
    return audit.add(facts=tuple(reader(artifact.path, side, audit.options.root.resolve())))


def _read_sources(audit: Audit) -> Audit:
    assert audit.artifact is not None
    own = (
        [audit.artifact.path]
        if audit.artifact.format in {"python_object", "python_source"} and audit.artifact.path
        else []
    )
    candidates = [*own, *audit.sources, *audit.options.source_paths()]
    paths = [Path(path) for path in dict.fromkeys(map(os.path.realpath, candidates))]
    if not paths:
        return audit
    root = audit.options.root.resolve()
    read = read_python(paths, root=root, side="source")
    return audit.add(
        facts=tuple(own_code(read.facts, audit.description.get("classes", ()))),
        notes=tuple(f"not read: {skip}" for skip in read.skipped),
        probes=tuple(_unread(audit.options.code, read, root)),
    )


def _unread(named: Iterable[str], read: PythonFacts, root: Path) -> Iterator[Probe]:
    """Yield a required probe that failed for each path that the user named and of which nothing could be read: a file
    inside a folder may be left out with a note, but what nobody has looked at must not pass."""
    places = {place for path in read.paths for place in (path, *path.parents)}
    for name in named:
        path = Path(os.path.realpath(name))
        if path not in places:
            reasons = [str(skip) for skip in read.skipped if (root / skip.path).is_relative_to(path)]
            more = f" ({len(reasons) - 1} more)" if len(reasons) > 1 else ""
            reason = reasons[0] + more if reasons else f"{name}: no Python file in it that is not hidden or ignored"
            yield probe_row("source.read", "python", "cpu", "failed", reason, required=True)


def own_code(facts: Sequence[Fact], classes: Collection[str]) -> Iterator[Fact]:
    """Leave out the bodies of modules that the audited model is not made of: a file often holds several models.

    `classes` are the qualified names that make up the model; without any (the model could not be asked) all facts stay.
    """
    if not classes:
        return iter(facts)
    scopes = [fact for fact in facts if isinstance(fact, Scope)]
    code = CodeIndex(
        scopes,
        [fact for fact in facts if isinstance(fact, ClassDef)],
        [fact for fact in facts if isinstance(fact, Import)],
    )
    foreign: set[tuple[str | None, int | None]] = set()
    for scope in scopes:
        definition = code.class_of(scope) if scope.kind == "class" else None
        module = definition is not None and any(base.startswith(MODULES) for base in code.bases(definition))
        if (scope.at.path, scope.parent) in foreign or (module and scope.name not in classes):
            foreign.add((scope.at.path, scope.id))
    return (fact for fact in facts if (fact.at.path, getattr(fact, "scope", None)) not in foreign)  # type: ignore[union-attr]


def _read_environments(audit: Audit) -> Audit:
    """The packages that each side's own interpreter has; without workers those of this one."""
    assert audit.artifact is not None
    source = audit.reference.role if audit.reference else ""
    targets = dict.fromkeys(target_role(each, audit.artifact, audit.options) for each in audit.options.target)
    sides: list[tuple[Side, str]] = [("source", source), *(("target", role) for role in targets)]
    for side, role in sides:
        hello = audit.pool.hello(role).result if audit.pool is not None and role else None
        packages = {**hello["packages"], "python": hello["python"]} if hello and "packages" in hello else None
        devices = (hello or {}).get("devices", ())
        audit = audit.add(facts=tuple(read_environment(side, packages=packages, devices=devices)))
    return audit
