"""The facts of files that `rules explain` and `rules cost` look at, by the readers of `lint` and `scan`."""

from __future__ import annotations

from collections.abc import Iterable

from tensoraudit.artifacts.identify import identify
from tensoraudit.audit.observe import collect_facts
from tensoraudit.audit.state import Audit
from tensoraudit.errors import InputError
from tensoraudit.facts import Fact
from tensoraudit.facts.store import ENVIRONMENT_KINDS, KINDS
from tensoraudit.options import Options


def facts_in(files: Iterable[str], options: Options) -> tuple[list[Fact], list[str]]:
    """Return the facts of all files, those of the environment once, and notes on what could not be read.

    Raises InputError for a file of which nothing can be read.
    """
    facts: dict[bool, list[Fact]] = {True: [], False: []}
    notes: list[str] = []
    for file in files:
        audit = Audit(options=options, progress=lambda text: None, spec=file, artifact=identify(file))
        audit = collect_facts(audit)
        split = {which: [fact for fact in audit.facts if _of_environment(fact) is which] for which in (True, False)}
        if not split[False]:
            why = "; ".join(audit.notes) or "Rules look at source, notebooks, ONNX, TorchScript and exported programs"
            raise InputError("nothing in it can be read for rules", where=file, remedy=f"{why}.")
        facts[False] += split[False]
        facts[True] = facts[True] or split[True]
        notes += audit.notes
    return facts[True] + facts[False], notes


def _of_environment(fact: Fact) -> bool:
    return KINDS[type(fact)] in ENVIRONMENT_KINDS
