"""What main process and worker agree on: messages, jobs, the session a job works in, and how a job refuses.

Control messages are JSON, one a line:

    request  {"id": 3, "job": "pytorch.run", "params": {...}}
    hello    {"hello": {"framework", "version", "python", "pid", "devices", "network", "packages"}} or {"missing": why},
             or {"fault": why} when a module of tensoraudit itself cannot be imported
    reply    {"id": 3, "progress": "exporting"}*, then {"id": 3, "result": {...}, "peak_memory": bytes}
             or {"id": 3, "error": {"status", "type", "message", "traceback", "details"}, "peak_memory": bytes}
                with status "failed", "unsupported", or "crashed" where a module of ours cannot be imported

Tensors travel as references (see `tensors`). Both sides use this module, so it runs on Python 3.9 and imports numpy
only; it must not know pools, processes or frameworks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tensoraudit.probes.tensors import StorageError, TensorFolder, TensorReferenceError, UnsupportedArrayError

__all__ = [
    "MAX_LINE",
    "Job",
    "JobFailed",
    "JobUnsupported",
    "LocalSession",
    "ProtocolError",
    "Session",
    "TensorReferenceError",
    "decode",
    "encode",
    "remedy_of",
]

MAX_LINE = 64 << 20  # bytes; the description of a 100,000-node graph takes about 30 MB
MAX_PROGRESS = 500  # characters


class ProtocolError(ValueError):
    """A line on the control channel that no well-behaved side would send."""


class JobError(Exception):
    """A job ends on purpose without a result; `details` is plain JSON for the report."""

    status = "failed"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message, self.details = message, details


class JobFailed(JobError):  # noqa: N818 - a report's status, not a fault
    """What the job was asked to do does not work; the message is the cause in one sentence."""


class JobUnsupported(JobError):  # noqa: N818
    """The job cannot do this kind of thing here (a dtype, a device, a version)."""

    status = "unsupported"


def remedy_of(problem: BaseException) -> dict[str, str]:
    """Return {"remedy": what to do} where one of our own exceptions knows it, else nothing."""
    found = problem.details.get("remedy") if isinstance(problem, JobError) else None
    return {"remedy": str(found)} if found else {}


class Session:
    """What a worker offers to its jobs, for as long as the worker lives.

    `folder` is the run folder, shared with the main process. `cache` keeps what the next job may reuse (loaded
    models), keyed by what it was made from; it starts empty after a restart, so no job may depend on it. A job's
    working directory and temporary files (TMPDIR) go with the worker: a file for others belongs where the main process
    asked for it.
    """

    def __init__(self, folder: Path, report: Callable[[str], None], prefix: str = "t") -> None:
        self.folder = folder
        self.cache: dict[str, Any] = {}
        self._tensors = TensorFolder(folder, prefix)
        self._report = report

    def begin(self, prefix: str) -> None:
        """Write the tensors of the next job under a prefix of their own."""
        self._tensors = TensorFolder(self.folder, prefix)

    def pack(self) -> None:
        """Put all tensors of this job into one file, for jobs that write many; they can only be discarded together."""
        self._tensors.pack()

    def put(self, array: Any, logical: str | None = None) -> dict[str, Any]:
        """Write an array to the run folder and return its reference.

        `logical` is the framework's dtype when `array` holds a widened copy. Raises JobUnsupported for strings and
        objects, JobFailed when the disk is full.
        """
        try:
            return self._tensors.put(array, logical)
        except UnsupportedArrayError as problem:
            raise JobUnsupported(str(problem)) from problem
        except StorageError as problem:
            raise JobFailed(f"{problem.strerror}. Free some space or set TMPDIR to a larger disk") from problem

    def get(self, reference: dict[str, Any]) -> np.ndarray[Any, Any]:
        """Map the array of a reference, read-only, in its file's dtype. Raises TensorReferenceError."""
        return self._tensors.get(reference)

    def discard(self, value: Any) -> None:
        """Delete the files of all references in `value`, which is any plain JSON data."""
        self._tensors.discard(value)

    def progress(self, text: str) -> None:
        """Tell the main process in a few words what the job is doing now."""
        self._report(text[:MAX_PROGRESS])


class LocalSession(Session):
    """A session without a worker, to call a job as a plain function; `messages` collects its progress."""

    def __init__(self, folder: Path) -> None:
        self.messages: list[str] = []
        super().__init__(folder, self.messages.append)


Job = Callable[[dict[str, Any], Session], dict[str, Any]]


def encode(message: dict[str, Any]) -> bytes:
    """Return a message as one line. Raises TypeError for what is not plain JSON; numpy scalars count as plain."""
    return json.dumps(message, default=_plain, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Read one line. Raises ProtocolError when it is no JSON object."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise ProtocolError(f"{line[:80]!r}") from problem
    if not isinstance(message, dict):
        raise ProtocolError(f"{line[:80]!r}")
    return message


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not plain JSON")
