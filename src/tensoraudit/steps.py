"""How the steps of a command are run, and the shortest road: `lint`.

Apart from the other roads (`pipeline`), so that `lint` imports neither numpy nor what speaks with workers: that would
take a quarter of a second, and the threads that numpy starts would keep a large project on one processor (`halves`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tensoraudit.audit.begin import choose_rules, identify_sources
from tensoraudit.audit.conclude import conclude, match_and_settle
from tensoraudit.audit.observe import collect_facts
from tensoraudit.audit.state import Audit, Progress
from tensoraudit.findings.result import Result
from tensoraudit.options import Options

Step = Callable[[Audit], Audit]

LINT: tuple[Step, ...] = (identify_sources, choose_rules, collect_facts, match_and_settle, conclude)


def run_steps(steps: tuple[Step, ...], audit: Audit) -> Result:
    """The steps alone, for an audit that already has what it needs."""
    for step in steps:
        started = time.perf_counter()
        audit = step(audit)
        audit = audit.add(timings={step.__name__: time.perf_counter() - started})
    assert audit.result is not None
    return audit.result


def source_audit(options: Options) -> Audit:
    """An audit of the source files in `options.code`, without workers."""
    return Audit(options=options, progress=lambda text: None, spec=" ".join(options.code))


def new_audit(options: Options, spec: str, against: str = "", progress: Progress = lambda text: None) -> Audit:
    """An audit that knows only what the user typed."""
    return Audit(options=options, progress=progress, spec=spec, against=against)
