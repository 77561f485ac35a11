"""One live worker process, seen from the main process: start it, give it a job, say how it ended, leave nothing of it.

Belongs to one thread, which must live as long as the worker: the kernel ends a worker with the thread that started it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tensoraudit.probes import procfs
from tensoraudit.probes.channel import Channel, ChannelClosedError, Tail, printable
from tensoraudit.probes.launch import launch
from tensoraudit.probes.limits import Limits, StoppedError, Watch, gibibytes
from tensoraudit.probes.outcome import Outcome, Status, lacks_memory
from tensoraudit.probes.protocol import ProtocolError, encode
from tensoraudit.probes.run_folder import remove_tree
from tensoraudit.probes.tensors import TensorFolder, TensorReferenceError, references_in

Progress = Callable[[str], None]

_PATIENCE = 5.0  # seconds for the kernel to end what was killed
_SIGNALS: dict[int, str] = {
    signal.SIGSEGV: "segmentation fault (signal 11)",
    signal.SIGABRT: "aborted itself (signal 6)",
    signal.SIGBUS: "bus error (signal 7)",
    signal.SIGFPE: "arithmetic fault (signal 8)",
    signal.SIGILL: "illegal instruction (signal 4)",
    signal.SIGKILL: "killed (signal 9)",
}
# How the frameworks we know say that there was no memory: Python, torch, ONNX Runtime, the C++ and the C library.
# After these every later call to the device fails in the same process, whatever it computes.
_LOST_DEVICE = re.compile(r"CUDA (error|failure)|device-side assert|illegal memory access|HIP error", re.IGNORECASE)
_FAULT = "a fault of tensoraudit itself, please report it"
_REFUSALS: Mapping[str, Status] = {"unsupported": "unsupported", "crashed": "crashed"}
_LAST_FAULT = 400  # characters of stderr quoted when an interpreter cannot even start


class WorkerProcess:
    """A worker for one framework's module. Raises LaunchError when its interpreter cannot be started."""

    def __init__(
        self,
        interpreter: str,
        module: str,
        home: Path,
        *,
        marker: str,
        limits: Limits,
        environment: Mapping[str, str],
        stop: Callable[[], bool],
    ) -> None:
        self._interpreter, self._marker, self._limits, self._stop = interpreter, marker, limits, stop
        self._home, self._tensors = home, TensorFolder(home.parent)
        started = launch(
            interpreter, module, home.parent, home, marker=marker, memory=limits.memory, environment=environment
        )
        self._process = started.process
        self._born = procfs.started(self._process.pid)
        self._channel = Channel(started.requests, started.replies)
        self._stderr = Tail(started.stderr)
        self.alive = True

    def still_alive(self) -> bool:
        """Look whether the worker is there for another job, and clear away one that died since the last."""
        if self.alive and (self._has_exited() or procfs.is_zombie(self._process.pid)):
            self.end()
        return self.alive

    def greet(self) -> Outcome:
        """Wait for the worker's hello: "ok" with the hello as result, or why there is none."""
        watch = self._watch(self._limits.start)
        is_python = False
        try:
            for message in self._channel.messages(self._checked(watch)):
                is_python = is_python or "python" in message
                if "missing" in message:
                    return self._absent("missing", str(message["missing"]), watch, message.get("traceback"))
                if "fault" in message:
                    return self._absent("crashed", f"{_FAULT}: {message['fault']}", watch, message.get("traceback"))
                if isinstance(message.get("hello"), dict):
                    return Outcome("ok", message["hello"], "", watch.seconds, watch.peak)
        except (StoppedError, ChannelClosedError, ProtocolError) as problem:
            outcome = self._died(problem, "while it started", watch, 0)
            if is_python or outcome.status == "timeout":
                return outcome
            text = (outcome.error or {}).get("stderr", "").strip()[-_LAST_FAULT:]
            reason = f"{self._interpreter} does not start as a Python interpreter: {outcome.reason}"
            return Outcome("missing", None, f"{reason}: {text}" if text else reason, watch.seconds, None, outcome.error)
        raise AssertionError("the channel ends by raising")

    def call(self, number: int, job: str, params: Any, timeout: float | None, on_progress: Progress) -> Outcome:
        """Run one job to its end. The worker is dead afterwards unless it answered and has not lost its device."""
        request = encode({"id": number, "job": job, "params": params})
        watch = self._watch(self._limits.timeout if timeout is None else timeout)
        seen = self._stderr.total()
        try:
            outcome = self._converse(number, request, watch, seen, on_progress)
        except (StoppedError, ChannelClosedError, ProtocolError, TensorReferenceError) as problem:
            outcome = self._died(problem, f"in the middle of job {job}", watch, seen)
        if outcome.status != "ok":
            self._tensors.discard_prefix(f"j{number}")
        return outcome

    def _converse(self, number: int, request: bytes, watch: Watch, seen: int, on_progress: Progress) -> Outcome:
        check = self._checked(watch)
        self._channel.send(request, check)
        for message in self._channel.messages(check):
            if message.get("id") != number:
                raise ProtocolError("an answer to something else")
            if "progress" in message:
                on_progress(printable(str(message["progress"])))
            elif isinstance(message.get("result"), dict):
                for reference in references_in(message["result"]):
                    self._tensors.check(reference)
                return Outcome("ok", message["result"], "", watch.seconds, _peak(message, watch))
            elif isinstance(message.get("error"), dict):
                return self._refused(message, watch, seen)
            else:
                raise ProtocolError("neither result nor error")
        raise AssertionError("the channel ends by raising")

    def _refused(self, message: dict[str, Any], watch: Watch, seen: int) -> Outcome:
        error = dict(message["error"])
        kind, text = printable(str(error.get("type", "")))[:200], printable(str(error.get("message", "")))
        reason = text if error.pop("planned", False) else f"{kind}: {text}".rstrip(": ")
        if lacks_memory(f"{kind}: {text}"):
            reason += f" (memory limit {gibibytes(self._limits.memory)})"
        error |= {"type": kind, "message": text, "traceback": printable(str(error.get("traceback", "")))}
        error["details"] = error["details"] if isinstance(error.get("details"), dict) else {}
        error["stderr"] = self._stderr.text(seen)
        if _LOST_DEVICE.search(text):
            self.end()
        status = _REFUSALS.get(str(error.pop("status", "")), "failed")
        reason = f"{_FAULT}: {reason}" if status == "crashed" else reason
        return Outcome(status, None, reason, watch.seconds, _peak(message, watch), error)

    def _absent(self, status: Status, reason: str, watch: Watch, traceback: Any) -> Outcome:
        self.end()
        error = {"traceback": printable(str(traceback or "")), "stderr": self._stderr.text()}
        return Outcome(status, None, printable(reason), watch.seconds, None, error)

    def _watch(self, seconds: float) -> Watch:
        return Watch(self._process.pid, seconds, self._limits.memory, self._stop)

    def _checked(self, watch: Watch) -> Callable[[], None]:
        """Return a check that also sees a death which leaves the channel open, because a child holds it."""
        last_breath = [0.0]

        def check() -> None:
            watch.check()
            if not self._has_exited():
                return
            # What it wrote before may still be in the pipe: give the reader one tick to find it.
            last_breath[0] = last_breath[0] or time.monotonic()
            if time.monotonic() - last_breath[0] > 0.2:
                raise ChannelClosedError

        return check

    def _has_exited(self) -> bool:
        """Look without reaping: until `end` has killed the group, its number must not be given to another."""
        if not hasattr(os, "waitid"):  # macOS before Python 3.13; there the number could be given away
            return self._process.poll() is not None
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, flags) is not None

    def _died(self, problem: Exception, when: str, watch: Watch, seen: int) -> Outcome:
        if isinstance(problem, StoppedError):
            status, reason = problem.status, problem.reason
            if status == "timeout":
                self._ask_where_it_hangs()
            self.end()
        elif isinstance(problem, ChannelClosedError):
            by_itself = self._wait_for_exit()
            self.end()
            status, reason = "crashed", "closed its control channel"
            if by_itself:
                reason, when = self._cause(), when + self._memory_hint(seen)
        else:
            self.end()
            status, reason = "crashed", f"sent something that is not the protocol ({printable(str(problem))[:200]})"
        error = {"stderr": self._stderr.text(seen)}
        return Outcome(status, None, f"{reason} {when}", watch.seconds, watch.peak or None, error)

    def _cause(self) -> str:
        code = self._process.returncode
        if code is None:
            return "does not end"
        return f"exited with code {code}" if code >= 0 else _SIGNALS.get(-code, f"killed (signal {-code})")

    def _memory_hint(self, seen: int) -> str:
        """Say so when memory is the likely cause: only the kernel kills with 9, and others write before they abort."""
        code = self._process.returncode or 0
        suspected = code == -signal.SIGKILL or (code < 0 and lacks_memory(self._stderr.text(seen)))
        return f", most likely for memory (limit {gibibytes(self._limits.memory)})" if suspected else ""

    def _wait_for_exit(self) -> bool:
        deadline = time.monotonic() + 1
        while not (gone := self._has_exited()) and time.monotonic() < deadline:
            time.sleep(0.005)
        return gone

    def _ask_where_it_hangs(self) -> None:
        """Let the worker write its stacks to stderr, for --verbose, before it is killed."""
        before = seen = self._stderr.total()
        os.kill(self._process.pid, signal.SIGUSR1)
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            time.sleep(0.03)
            now = self._stderr.total()
            if now == seen != before:
                return  # it wrote, and has finished
            seen = now

    def end(self) -> None:
        """Kill the worker, its process group, and every child that left the group, and delete its temporary files.

        Tensors stay: results of earlier jobs are still in use.
        """
        if not self.alive:
            return
        self.alive = False
        kill_group(self._process.pid)
        kill_marked(self._marker, self._born)
        self._channel.close()
        # Stuck in the kernel (a driver)? Nobody can end it then, and waiting longer would hang the audit too.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
        self._stderr.finish(_PATIENCE / 5)
        remove_tree(self._home)


def kill_group(leader: int) -> None:
    """Kill a process group whose leader has not been reaped yet."""
    with suppress(ProcessLookupError, PermissionError):  # gone already, or only a zombie is left
        os.killpg(leader, signal.SIGKILL)


def kill_marked(marker: str, since: int) -> None:
    """Kill the processes that carry a marker, again until none is left: they may be forking right now."""
    for _ in range(20):
        found = [pid for pid in procfs.marked(marker, since) if pid != os.getpid()]
        if not found:
            return
        for pid in found:
            with suppress(ProcessLookupError):  # ended by itself meanwhile
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _peak(message: dict[str, Any], watch: Watch) -> int | None:
    told = message.get("peak_memory")
    return max(told, watch.peak) if type(told) is int else watch.peak or None
