"""`tensoraudit rules cost`: how each rule finds its candidates. The dearest rules come first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

from tensoraudit.facts.store import FactStore
from tensoraudit.language.cost import WAYS, Cost, cost
from tensoraudit.language.rule import Rule

COST_SCHEMA: Final = "tensoraudit-rules-cost/1"
COLUMNS: Final = ("id", "index", "searches", "candidates", "anchors")
_SHOWN: Final = 4
"""How many names of one anchor a row shows; some rules list dozens."""


def costs(rules: Iterable[Rule], store: FactStore | None) -> list[Cost]:
    """Return the costs, dearest first: rules that scan, then most candidates, then the dearest index."""
    found = [cost(rule, store) for rule in rules]
    return sorted(found, key=lambda each: (not each.scan, -(each.candidates or 0), -WAYS.index(each.way), each.rule))


def row(each: Cost) -> tuple[str, ...]:
    """Return one row of the table, in the order of `COLUMNS`."""
    searches = sum(anchor.searches for anchor in each.anchors)
    candidates = "" if each.candidates is None else str(each.candidates)
    anchors = "; ".join(f"{anchor.kind} by {anchor.by}: {_names(anchor.names)}" for anchor in each.anchors)
    return each.rule, "scan: true" if each.scan else each.way, str(searches), candidates, anchors


def cost_document(found: Iterable[Cost]) -> dict[str, Any]:
    """Return the same as JSON. `candidates` is null when no file was given."""
    return {
        "schema": COST_SCHEMA,
        "rules": [{**asdict(each), "index": each.way, "candidates": each.candidates} for each in found],
    }


def _names(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
