"""The worker process: greet, then run one job at a time until the control channel ends.

Runs in any Python from 3.9 on that has numpy and one framework, so it imports nothing of ours but this folder. It
must not know any job, grade or report.

1. Cut off the network before the first thread starts; importing numpy starts threads.
2. Import the framework, say hello (or say what is missing, and end).
3. A thread reads requests and ends the process when the main process is gone; the main thread runs the jobs, because
   frameworks and signal handlers want the main thread.
4. Whatever user code raises, SystemExit and KeyboardInterrupt too, is the answer of its job and not the end of the
   worker.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import os
import platform
import signal
import sys
import threading
import traceback
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from tensoraudit.probes import isolation

if TYPE_CHECKING:
    from tensoraudit.probes.protocol import Job

MAX_TEXT = 1 << 16  # characters of a message from its start, of a traceback from its end


def main(settings: dict[str, Any]) -> None:
    """Run the worker; `settings` come from `launch`: file descriptors, folders, the framework's module, limits."""
    replies = settings["replies"]
    network = isolation.close_network()
    isolation.die_with_parent()
    isolation.expect_trouble()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)  # asked for before a worker that hangs is killed
    for descriptor in (settings["requests"], replies):
        os.set_inheritable(descriptor, False)
    _add_user_path(settings["path"])
    try:
        from tensoraudit.probes.protocol import encode

        hello = importlib.import_module(settings["module"] + ".hello").hello()
        jobs = importlib.import_module(settings["module"] + ".jobs").JOBS
    except Exception as problem:
        _write(replies, _no_hello(problem))
        return
    greeting = {**hello, "python": platform.python_version(), "pid": os.getpid(), "network": network}
    # The framework's own bytecode was worth keeping; what comes now is the user's code, whose folders stay as they are.
    sys.dont_write_bytecode = True
    worker = Worker(settings, jobs)
    isolation.limit_data(settings["memory"])
    _write(replies, encode({"hello": greeting}))
    worker.serve()


class Worker:
    """Run jobs for one control channel."""

    def __init__(self, settings: dict[str, Any], jobs: dict[str, Job]) -> None:
        from tensoraudit.probes.protocol import Session

        self._settings, self._jobs = settings, jobs
        self._session = Session(Path(settings["folder"]), self._progress)
        self._requests: SimpleQueue[bytes] = SimpleQueue()
        self._process = os.getpid()
        self._current: Any = None

    def serve(self) -> None:
        """Answer requests for ever; the reading thread ends the process."""
        threading.Thread(target=self._read, name="tensoraudit-requests", daemon=True).start()
        while True:
            self._answer(self._requests.get())

    def _read(self) -> None:
        with os.fdopen(self._settings["requests"], "rb") as channel:
            for line in channel:
                self._requests.put(line)
        os._exit(0)

    def _answer(self, line: bytes) -> None:
        from tensoraudit.probes.protocol import MAX_LINE, decode, encode

        request = decode(line)
        self._current = request["id"]
        isolation.restart_peak()
        try:
            result = self._run(request)
            reply = encode({"id": self._current, "result": result, "peak_memory": isolation.peak()})
            if len(reply) > MAX_LINE:
                raise OverflowError(f"The answer takes {len(reply)} bytes, more than the {MAX_LINE} allowed")
        except BaseException as problem:
            reply = encode({"id": self._current, "error": _error(problem), "peak_memory": isolation.peak()})
            failed = True
        else:
            failed = False
        self._send(reply)
        if failed:
            gc.collect()  # the traceback's frames held the model and its tensors

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        from tensoraudit.probes.protocol import JobUnsupported

        if request["job"] not in self._jobs:
            raise JobUnsupported(f"This worker has no job {request['job']}")
        self._session.begin(f"j{self._current}")
        home = Path(self._settings["home"])
        home.mkdir(exist_ok=True)  # the last job may have moved, or removed it
        os.chdir(home)
        result = self._jobs[request["job"]](request["params"], self._session)
        if not isinstance(result, dict):
            raise TypeError(f"job {request['job']} returned {type(result).__name__}, not a dict")
        return result

    def _progress(self, text: str) -> None:
        from tensoraudit.probes.protocol import encode

        self._send(encode({"id": self._current, "progress": text}))

    def _send(self, line: bytes) -> None:
        if os.getpid() != self._process:
            os._exit(1)  # user code forked and its child came back here: only one of the two may answer
        _write(self._settings["replies"], line)


def _write(descriptor: int, line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _no_hello(problem: Exception) -> bytes:
    import json  # not `encode`: numpy may be what is missing

    reason = _message(problem)
    if not isinstance(problem, ImportError):
        reason = f"cannot be loaded: {type(problem).__name__}: {reason}"
    kind = "fault" if _is_ours(problem) else "missing"
    return json.dumps({kind: reason, "traceback": _traceback(problem)}).encode() + b"\n"


def _is_ours(problem: BaseException) -> bool:
    """Whether a module of tensoraudit itself is what could not be imported: nothing that anybody could install."""
    chain = [problem]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    names = [each.name or "" for each in chain if isinstance(each, ImportError)]
    return any(f"{name}.".startswith("tensoraudit.") for name in names)


def _error(problem: BaseException) -> dict[str, Any]:
    from tensoraudit.probes.protocol import JobError

    planned = isinstance(problem, JobError)
    if _is_ours(problem):
        planned, status = False, "crashed"
    else:
        status = problem.status if isinstance(problem, JobError) else "failed"
    return {
        "status": status,
        "planned": planned,
        "type": type(problem).__name__,
        "message": _message(problem),
        "traceback": _traceback(problem),
        "details": _details(problem),
    }


def _details(problem: BaseException) -> dict[str, Any]:
    from tensoraudit.probes.protocol import JobError, encode

    details = problem.details if isinstance(problem, JobError) else {}
    try:
        encode(details)
    except (TypeError, ValueError, RecursionError):
        return {name: str(value) for name, value in details.items()}
    return details


def _message(problem: BaseException) -> str:
    if isinstance(problem, SystemExit):
        return f"called sys.exit({problem.code!r})"
    try:
        return str(problem)[:MAX_TEXT]
    except BaseException:  # anybody's __str__
        return "its message cannot be read"


def _traceback(problem: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(type(problem), problem, problem.__traceback__))[-MAX_TEXT:]
    except BaseException:  # anybody's __str__ or __repr__
        return "".join(traceback.format_tb(problem.__traceback__))[-MAX_TEXT:]


def _add_user_path(folders: list[str]) -> None:
    """Put the user's PYTHONPATH behind the standard library and before installed packages.

    Before it, a file like `json.py` in the user's folder would break the worker; after the installed packages, the
    copy that the user works on would lose to an installed one.
    """
    installed = ("site-packages", "dist-packages")
    place = next((at for at, folder in enumerate(sys.path) if folder.rstrip("/").endswith(installed)), len(sys.path))
    sys.path[place:place] = folders
