"""All workers of one run: one process per role, kept warm, started again when it died; nothing left at the end.

    with Pool(limits=Limits(timeout=60), interpreters={"onnxruntime": "/opt/ort/bin/python"}) as pool:
        pool.start("onnxruntime")                                  # its import runs while something else is done
        reference = pool.put(array)
        outcome = pool.run("pytorch", "pytorch.run", {"inputs": [...]})
        if outcome.status == "ok":
            values = pool.get(outcome.result["runs"][0]["outputs"]["output"])

A role is a framework, or a framework and a side ("pytorch:target") for a process and interpreter of its own. The pool
knows no job and no framework's name but `FRAMEWORKS`.
"""

from __future__ import annotations

import atexit
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any

import numpy as np

from tensoraudit.errors import InputError
from tensoraudit.probes.launch import LaunchError
from tensoraudit.probes.limits import Limits
from tensoraudit.probes.outcome import Outcome
from tensoraudit.probes.process import Progress, WorkerProcess
from tensoraudit.probes.run_folder import RunFolder, remove_abandoned
from tensoraudit.probes.tensors import StorageError, TensorFolder

FRAMEWORKS: Mapping[str, str] = {
    "pytorch": "tensoraudit.probes.pytorch",
    "tensorflow": "tensoraudit.probes.tensorflow",
    "jax": "tensoraudit.probes.jax",
    "onnxruntime": "tensoraudit.probes.onnxruntime",
    "litert": "tensoraudit.probes.litert",
}
_FAILED_STARTS = 2  # a worker that crashed this often before its hello is not tried again
_CLOSING = 15.0  # seconds for all workers to be gone

Start = Callable[[str], WorkerProcess]
Task = Callable[["Lane"], Outcome]


class Pool:
    """The workers of one run. `close` it, or use it as a context manager; the end of the program closes it too.

    `interpreters` is looked up by role, then by side, then by framework; the default is this interpreter. `frameworks`
    maps a framework to the package with its `hello` and `jobs`. `threads` is what jobs shall use: by default what the
    variable TENSORAUDIT_THREADS says, else one per processor. `environment` is added to every worker's. Raises
    InputError when there is no place for temporary files.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        interpreters: Mapping[str, str] | None = None,
        *,
        frameworks: Mapping[str, str] = FRAMEWORKS,
        threads: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        remove_abandoned()
        self._limits = limits or Limits()
        self._interpreters = dict(interpreters or {})
        self._frameworks = frameworks
        number = threads or os.environ.get("TENSORAUDIT_THREADS") or _processors()
        self._environment = {"TENSORAUDIT_THREADS": str(number), **(environment or {})}
        self._closing, self._lock = threading.Event(), threading.Lock()
        self._token = secrets.token_hex(8)
        self._numbers, self._homes = count(1), count(1)
        self._lanes: dict[str, Lane] = {}
        self._owner = os.getpid()
        self._run_folder = RunFolder()
        self._tensors = TensorFolder(self.folder)
        atexit.register(self.close)

    @property
    def folder(self) -> Path:
        """The run folder, for files that jobs write for each other; it is deleted by `close`."""
        return self._run_folder.path

    def start(self, role: str) -> None:
        """Begin to start a worker and return at once."""
        self._submit(role, lambda lane: lane.ready()[1])

    def hello(self, role: str) -> Outcome:
        """Wait for the worker and return its hello as the result, or why there is none."""
        return self._submit(role, lambda lane: lane.ready()[1]).result()

    def run(
        self,
        role: str,
        job: str,
        params: Mapping[str, Any],
        timeout: float | None = None,
        on_progress: Progress | None = None,
    ) -> Outcome:
        """Run a job and wait for its end; see `submit`."""
        return self.submit(role, job, params, timeout, on_progress).result()

    def submit(
        self,
        role: str,
        job: str,
        params: Mapping[str, Any],
        timeout: float | None = None,
        on_progress: Progress | None = None,
    ) -> Future[Outcome]:
        """Queue a job for a role's worker. Jobs of one role run one after the other, roles beside each other.

        `timeout` in seconds replaces the limit. `on_progress` is called with a few words, from another thread. The
        future raises only for what is wrong in the call (params that are no JSON) or after `close`.
        """

        def task(lane: Lane) -> Outcome:
            worker, outcome = lane.ready()
            if worker is None:
                return outcome
            return worker.call(next(self._numbers), job, dict(params), timeout, on_progress or _ignore)

        return self._submit(role, task)

    def retire(self, role: str) -> None:
        """End a role's worker when what is queued for it is done: the next job gets a process that has run nothing."""
        self._submit(role, lambda lane: lane.retire())

    def restarts(self, role: str) -> int:
        """How often the role's worker had to be started again."""
        return max(0, self._lanes[role].starts - 1) if role in self._lanes else 0

    def put(self, array: Any, logical: str | None = None) -> dict[str, Any]:
        """Write an array for a worker and return its reference. Raises InputError when the disk is full.

        Raises TypeError for strings and objects.
        """
        try:
            return self._tensors.put(array, logical)
        except StorageError as problem:
            raise InputError(
                problem.strerror or str(problem), remedy="Free some space, or set TMPDIR to a folder on a larger disk."
            ) from problem

    def get(self, reference: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        """Map the array of a reference, read-only, in its file's dtype. Raises TensorReferenceError.

        The references in the result of an "ok" outcome have been checked already. A mapped array stays valid after
        `discard` and `close`.
        """
        return self._tensors.get(reference)

    def discard(self, value: Any) -> None:
        """Delete the files of all references in `value` (a reference, a result, any JSON data)."""
        self._tensors.discard(value)

    def close(self) -> None:
        """Kill every worker and its children and delete the run folder; twice, or after an interrupt, does no harm."""
        if os.getpid() != self._owner:
            return  # a fork of the program inherited us; the original still needs what we would delete
        with self._lock:
            self._closing.set()
            for lane in self._lanes.values():
                lane.close()
        for lane in self._lanes.values():
            lane.thread.join(_CLOSING)
        self._run_folder.remove()
        atexit.unregister(self.close)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def _submit(self, role: str, task: Task) -> Future[Outcome]:
        with self._lock:  # so that nothing is queued behind the end of a lane
            if self._closing.is_set():
                raise RuntimeError("the pool is closed")
            if role not in self._lanes:
                self._lanes[role] = Lane(role, self._start, self._closing.is_set)
            return self._lanes[role].submit(task)

    def _start(self, role: str) -> WorkerProcess:
        framework, _, side = role.partition(":")
        if framework not in self._frameworks:
            raise LaunchError(f"there is no worker for {framework}")
        number = next(self._homes)
        names = (role, side, framework)
        return WorkerProcess(
            next((self._interpreters[name] for name in names if name in self._interpreters), sys.executable),
            self._frameworks[framework],
            self.folder / f"{framework}-{number}",
            marker=f"{self._token}-{number}.",
            limits=self._limits,
            environment=self._environment,
            stop=self._closing.is_set,
        )


class Lane:
    """One role's worker and the thread that owns it, for as long as the pool lives."""

    def __init__(self, role: str, start: Start, stop: Callable[[], bool]) -> None:
        self.starts = 0
        self._role, self._start, self._stop = role, start, stop
        self._tasks: SimpleQueue[tuple[Future[Outcome], Task] | None] = SimpleQueue()
        self._worker: WorkerProcess | None = None
        self._hello = Outcome("crashed", reason="was never started")
        self._failed_starts = 0
        self.thread = threading.Thread(target=self._serve, name=f"tensoraudit-{role}", daemon=True)
        self.thread.start()

    def submit(self, task: Task) -> Future[Outcome]:
        """Queue a task for the lane's thread."""
        future: Future[Outcome] = Future()
        self._tasks.put((future, task))
        return future

    def close(self) -> None:
        """Let the thread end its worker and itself; what waits is cancelled."""
        self._tasks.put(None)

    def retire(self) -> Outcome:
        """End the worker on purpose; what it wrote stays."""
        self._end()
        return Outcome("ok")

    def ready(self) -> tuple[WorkerProcess | None, Outcome]:
        """Return a living worker and its hello, starting one if need be; None and the reason when there is none."""
        if self._worker is not None and self._worker.still_alive():
            return self._worker, self._hello
        if self._hello.status == "missing" or self._failed_starts >= _FAILED_STARTS:
            return None, self._hello
        self.starts += 1
        try:
            worker = self._start(self._role)
        except (LaunchError, OSError) as problem:  # OSError: no room for its folder, no more descriptors
            self._hello = Outcome("missing", None, str(problem))
            return None, self._hello
        self._worker, self._hello = worker, worker.greet()
        self._failed_starts = 0 if self._hello.status == "ok" else self._failed_starts + 1
        return worker if worker.alive else None, self._hello

    def _serve(self) -> None:
        while (item := self._tasks.get()) is not None:
            future, task = item
            if self._stop():
                future.cancel()
            elif future.set_running_or_notify_cancel():
                self._fulfil(future, task)
        self._end()

    def _fulfil(self, future: Future[Outcome], task: Task) -> None:
        try:
            outcome = task(self)
        except BaseException as problem:  # a fault of the caller; it must reach the caller and not end this thread
            self._end()
            future.set_exception(problem)
        else:
            future.set_result(outcome)

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.end()


@contextmanager
def termination_raises() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into SystemExit in the main thread, so that pools close; for a command line's main."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _ignore(_: str) -> None:
    pass
