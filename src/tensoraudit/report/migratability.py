"""What a target takes of a model, in the same words in every report for people: operators, control flow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tensoraudit.findings.result import Migratability, OperatorUse, Result
from tensoraudit.report.summary import place

_SHOWN: Final = 5


def lines(result: Result, target: str) -> Iterator[str]:
    """Yield short sentences on how much of the model the target's route takes; nothing where nobody looked."""
    for row in result.migratability:
        if row.target == target:
            yield from _row(row)


def _row(row: Migratability) -> Iterator[str]:
    tool = row.route.partition("+")[0]
    if not row.types_total:
        yield f"Operator coverage: unknown ({row.reason or 'nobody could look'})."
    else:
        types = f"{row.types_supported} of {row.types_total} operator types"
        nodes = f"{row.nodes_supported} of {row.nodes_total} nodes"
        yield f"Operator coverage: {tool} knows {types} ({_percent(row.types_supported, row.types_total)}), {nodes}."
    if row.unsupported:
        decided = "; it converted all the same, and what was measured decides" if row.converted else ""
        yield f"Not known to {tool}: {_listed(row.unsupported)}{decided}."
    if row.custom:
        yield f"Custom operators: {_listed(row.custom)}."
    yield f"Control flow: {row.control_flow}."


def _percent(part: int, whole: int) -> str:
    """Rounded down, so that 100 % means all."""
    return f"{100 * part // whole} %"


def _listed(uses: Sequence[OperatorUse]) -> str:
    shown = [_use(use) for use in uses[:_SHOWN]]
    more = len(uses) - len(shown)
    return ", ".join(shown) + (f" and {more} more in the JSON report" if more else "")


def _use(use: OperatorUse) -> str:
    where = place(use.at)
    times = f" x{use.count}" if use.count > 1 else ""
    return f"{use.op}{times}" + (f" ({where})" if where else "")
