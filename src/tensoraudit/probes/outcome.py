"""How a job ended, as a value: never a bool, because a job that did not run must not read as a pass."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

_OUT_OF_MEMORY = re.compile(
    r"MemoryError|allocate memory|bad_alloc|bad allocation|out of memory|OOM when allocating|ResourceExhausted"
    r"|RESOURCE_EXHAUSTED",
    re.IGNORECASE,
)

Status = Literal["ok", "crashed", "timeout", "missing", "unsupported", "failed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one job.

    `result` is the job's answer when `status` is "ok", else None. `reason` says in a few words why it is not, to be
    read behind the job's name. `seconds` is wall clock; `peak_memory` in bytes, None when the job never ran. `error`
    holds what --verbose shows: "stderr" (what the worker wrote meanwhile), and when the job itself failed "type",
    "message", "traceback" and the job's own "details".
    """

    status: Status
    result: dict[str, Any] | None = None
    reason: str = ""
    seconds: float = 0.0
    peak_memory: int | None = None
    error: dict[str, Any] | None = None

    @property
    def of_the_model(self) -> Outcome:
        """The end as it speaks of the model: a refusal for lack of memory is this machine's, and counts as a crash."""
        lacking = self.status in {"failed", "unsupported"} and lacks_memory(self.reason)
        return replace(self, status="crashed") if lacking else self


def lacks_memory(text: str) -> bool:
    """Tell whether an error's text speaks of memory that this machine or the limit did not give."""
    return _OUT_OF_MEMORY.search(text) is not None
