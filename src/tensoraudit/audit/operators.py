"""The operators of a model that no file shows: asked from its framework's worker, and added to the facts."""

from __future__ import annotations

from tensoraudit.audit.frameworks import framework_of
from tensoraudit.audit.prepare import export_sample
from tensoraudit.audit.probing import wire
from tensoraudit.audit.rows import probe_row
from tensoraudit.audit.state import Audit
from tensoraudit.extract.keras_config import read_config
from tensoraudit.extract.listed_graph import facts_from_listing
from tensoraudit.facts import Fact, Model, Node

OPERATORS = frozenset(("aten", "prim", "tf", "tflite", "jax", "stablehlo", ""))
"""Domains of operators; layers of Keras are made of such."""


def list_operators(audit: Audit) -> Audit:
    """Ask the reference's worker for its graph at a sample, where reading its files gave none. A model that cannot be
    traced has no such facts, and a row says why."""
    if audit.pool is None or audit.reference is None or not audit.samples or has_operators(audit):
        return audit
    role = audit.reference.role
    job = framework_of(role).job("operators")
    if not framework_of(role).can("describe"):
        return audit
    audit.progress("listing operators")
    outcome = audit.pool.run(role, job, {**audit.reference.params, "inputs": wire(audit.pool, export_sample(audit))})
    audit = audit.add(probes=(probe_row("operators", role, "cpu", outcome),))
    if outcome.result is None:
        return audit
    root = audit.options.root.resolve()
    facts = facts_from_listing(outcome.result, "source", name=audit.spec, root=root)
    return audit.add(facts=(*facts, *_layers(audit, outcome.result.get("configuration"))))


def _layers(audit: Audit, configuration: object) -> list[Fact]:
    """The layers of a Keras model that was made in Python."""
    known = any(isinstance(fact, Node) and fact.domain == "keras" for fact in audit.facts)
    if known or not isinstance(configuration, dict):
        return []
    facts = read_config(configuration, audit.spec, "keras", "", "source")
    return [fact for fact in facts if not isinstance(fact, Model)]


def has_operators(audit: Audit) -> bool:
    """Whether the graph of the source is known."""
    nodes = (fact for fact in audit.facts if isinstance(fact, Node) and fact.side in ("source", "both"))
    return any(node.domain.partition(".")[0] in OPERATORS for node in nodes)
