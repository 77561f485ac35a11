"""How a job ended, as a value: never a bool, because a job that did not run must not read as a pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

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
