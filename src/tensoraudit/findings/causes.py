"""Join measured divergences with the findings that may explain them. Knows places and edges, no rule.

A divergence that was localised is explained by findings at its node, at its source line, and at most two nodes above
(one operation of the source is several nodes). One that was not localised may come from anything above the output.
What was measured of a port's layers (`port.cause`, `port.suspected`) explains every divergence of that port.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from tensoraudit.facts import Fact, Node
from tensoraudit.facts.store import FactStore
from tensoraudit.findings.finding import Finding
from tensoraudit.findings.places import on_line, parse_source_line
from tensoraudit.findings.result import Equivalence, FirstDivergence
from tensoraudit.findings.severity import is_open, order_key

DIVERGENCE: Final = "EQV-"
"""Prefix of the rules that report a measured divergence."""

PORT: Final = "port."
"""Prefix of the metrics that name the layer of a port and what it does otherwise."""

NEAR: Final = 2
"""Nodes above a localised divergence that still count as the same place."""


def add_causes(findings: Iterable[Finding], equivalence: Iterable[Equivalence], store: FactStore) -> list[Finding]:
    """Return the findings with `causes` filled for each open divergence: rule ids, the nearest first."""
    listed, rows = list(findings), list(equivalence)
    suspects = [each for each in listed if is_open(each) and (not each.rule.startswith(DIVERGENCE) or _of_port(each))]
    return [_explain(each, suspects, rows, store) if _diverges(each) else each for each in listed]


def _diverges(finding: Finding) -> bool:
    return finding.rule.startswith(DIVERGENCE) and is_open(finding) and not _of_port(finding)


def _of_port(finding: Finding) -> bool:
    """Whether a finding speaks of a layer of a hand-written port: a cause itself."""
    return any(row.metric.startswith(PORT) for row in finding.evidence)


def _explain(
    finding: Finding, suspects: Sequence[Finding], rows: Sequence[Equivalence], store: FactStore
) -> Finding:  # fmt: skip
    suspects = [each for each in suspects if each.target in {"", finding.target}]
    divergences = list(_divergences(finding, rows))
    causes = {each.rule: None for each in sorted(suspects, key=order_key) if _of_port(each)}
    for divergence in divergences:
        causes |= dict.fromkeys(_near(divergence, suspects, store))
    if not divergences:
        above = nodes_above(store, finding.where.node or finding.where.tensor or "")
        causes |= dict.fromkeys(_at_nodes(above, suspects))
    return replace(finding, causes=tuple(causes)) if causes else finding


def _divergences(finding: Finding, rows: Iterable[Equivalence]) -> Iterator[FirstDivergence]:
    for row in rows:
        about = finding.where.tensor in {None, row.tensor} and finding.target in {"", row.target}
        if about and row.first_divergence is not None:
            yield row.first_divergence


def _near(divergence: FirstDivergence, suspects: Sequence[Finding], store: FactStore) -> Iterator[str]:
    nodes = nodes_above(store, divergence.candidate_node, NEAR)
    yield from _at_nodes([divergence.candidate_node, *nodes], suspects)
    line = parse_source_line(divergence.source_line)
    if line is not None:
        yield from (each.rule for each in sorted(suspects, key=order_key) if on_line(each.where, *line))


def _at_nodes(nodes: Iterable[str], suspects: Sequence[Finding]) -> Iterator[str]:
    by_node: dict[str, list[Finding]] = {}
    for each in sorted(suspects, key=order_key):
        if each.where.node:
            by_node.setdefault(each.where.node, []).append(each)
    for node in nodes:
        yield from (each.rule for each in by_node.get(node, ()))


def nodes_above(store: FactStore, name: str, hops: int | None = None) -> list[str]:
    """Return the nodes at or above a node or value, nearest first, at most `hops` edges up (all when None)."""
    level = [node for node in _named(store, name) if isinstance(node, Node)]
    seen: dict[int, Node] = {id(node): node for node in level}
    while level and hops != 0:
        hops = None if hops is None else hops - 1
        above = [store.graphs.producer(node, value) for node in level for value in node.inputs if value]
        level = list({id(node): node for node in above if node is not None and id(node) not in seen}.values())
        seen.update({id(node): node for node in level})
    return [node.name or next(iter(node.outputs), node.op) for node in seen.values()]


def _named(store: FactStore, name: str) -> list[Fact]:
    """The nodes called so, or else those that make a value called so."""
    if not name:
        return []
    return [*(store.keyed("node", "name").get(name) or store.keyed("node", "outputs").get(name) or ())]
