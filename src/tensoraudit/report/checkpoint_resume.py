"""A resume test on the console: the answer, the losses step by step, and what became of each part of the state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from tensoraudit.findings.result import Result
from tensoraudit.report import summary
from tensoraudit.report.clean import one_line

_ANSWERS: Final = {
    "equal": "A resumed run is the uninterrupted one, in every bit",
    "differs": "A resumed run is another run than the uninterrupted one",
    "unknown": "Cannot tell whether a resumed run is the uninterrupted one",
}
_STATES: Final = {
    "restored": "brought back, or the same in every process",
    "lost": "LOST: without it the run is another one",
    "not_restored": "not brought back; no effect was seen in these steps",
    "needed": "a save must hold it",
    "not_needed": "need not be saved for these steps",
    "untried": "not told: there are more parts than are tried one by one",
}
_RUNS: Final = ("uninterrupted", "resumed", "cold")


def verdict(result: Result) -> Iterator[RenderableType]:
    """Yield the answer, and what it rests on."""
    found = result.resume
    reason = f": {found['reason']}" if found["reason"] else "."
    yield Text(one_line(f"{_ANSWERS[found['status']]}{reason}"), style="bold")
    if "losses" in found:
        way = "saved and loaded by the program itself" if found["own_save"] else "carried over by tensoraudit"
        counts = f"{found['save_after']} steps, state {way}, {found['steps']} steps more"
        yield Text(one_line(f"{summary.artifact_name(result)}: {counts}."), style="dim")


def tables(found: Mapping[str, Any]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Yield title, columns and rows: losses after the save, then the parts of the state."""
    losses = found.get("losses", {})
    runs = [run for run in _RUNS if run in losses]
    if runs and any(loss is not None for loss in losses[runs[0]]):
        yield "Loss of the steps after the save", ["step", *runs], _losses(found, runs)
    if found.get("parts"):
        rows = [[name, part["kind"], _STATES[part["state"]]] for name, part in found["parts"].items()]
        opaque = [[name, "", "can be neither read nor given back"] for name in found["opaque"]]
        yield "State", ["part", "kind", "what became of it"], [*rows, *opaque]


def _losses(found: Mapping[str, Any], runs: list[str]) -> list[list[str]]:
    last = {run: found["losses"][run][-found["steps"] :] for run in runs}
    count = min(map(len, last.values()))
    first = int(found["save_after"]) + 1
    return [[str(first + at), *(_loss(last[run][at]) for run in runs)] for at in range(count)]


def _loss(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_loss(each)}" for name, each in value.items())
    return f"{value:.9g}" if isinstance(value, float) else "none"
