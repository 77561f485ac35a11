from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.errors import InputError
from tensoraudit.probes.outcome import Outcome
from tensoraudit.probes.pool import Pool, termination_raises
from tensoraudit.probes.tensors import TensorReferenceError

MakePool = Callable[..., Pool]
HERE = Path(__file__).parent


def test_start_only_begins_and_two_roles_start_beside_each_other(make_pool: MakePool) -> None:
    pool = make_pool({"FAKE_HELLO": "slow"})
    started = time.monotonic()
    for role in ("fake", "fake:target"):
        pool.start(role)
    assert time.monotonic() - started < 4
    first, second = pool.hello("fake"), pool.hello("fake:target")
    assert first.result is not None
    assert second.result is not None
    assert first.result["pid"] != second.result["pid"]
    assert pool.restarts("fake") == pool.restarts("fake:target") == 0


def test_a_retired_worker_is_followed_by_one_that_has_run_nothing(pool: Pool, job: Callable[..., Outcome]) -> None:
    first, second = job("echo"), job("echo")
    pool.retire("fake")
    third = job("echo")
    assert first.result is not None and second.result is not None and third.result is not None
    assert first.result["pid"] == second.result["pid"] != third.result["pid"]
    assert [each.result["calls"] for each in (first, second, third)] == [1, 2, 1]


def test_two_roles_work_at_the_same_time(
    pool: Pool, tmp_path: Path, until: Callable[[Callable[[], bool]], bool]
) -> None:
    marks = [tmp_path / "first", tmp_path / "second"]
    futures = [
        pool.submit(role, "fake.hang", {"started": str(mark)})
        for role, mark in zip(("fake", "fake:target"), marks, strict=True)
    ]
    assert until(lambda: all(mark.exists() for mark in marks))
    pool.close()
    assert [future.result().status for future in futures] == ["crashed", "crashed"]


def test_one_role_does_one_job_at_a_time_in_order(pool: Pool) -> None:
    futures = [pool.submit("fake", "fake.echo", {"number": number}) for number in range(20)]
    results = [future.result().result for future in futures]
    assert [result["params"]["number"] for result in results if result] == list(range(20))
    assert [result["calls"] for result in results if result] == list(range(1, 21))


def test_a_framework_without_worker_is_missing(pool: Pool) -> None:
    outcome = pool.run("tensorflow", "tensorflow.run", {})
    assert (outcome.status, outcome.reason) == ("missing", "there is no worker for tensorflow")


def test_close_ends_the_running_job_cancels_the_rest_and_refuses_more(
    pool: Pool, tmp_path: Path, until: Callable[[Callable[[], bool]], bool]
) -> None:
    mark = tmp_path / "started"
    running = pool.submit("fake", "fake.hang_in_native_code", {"started": str(mark)})
    waiting = pool.submit("fake", "fake.echo", {})
    assert until(mark.exists)
    pool.close()
    pool.close()
    outcome = running.result()
    assert outcome.status == "crashed"
    assert outcome.reason.startswith("was stopped because the audit ended")
    with pytest.raises(CancelledError):
        waiting.result()
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit("fake", "fake.echo", {})
    assert not pool.folder.exists()


def test_params_that_are_no_json_are_the_callers_fault(pool: Pool) -> None:
    with pytest.raises(TypeError, match="not plain JSON"):
        pool.run("fake", "fake.echo", {"x": object()})
    assert pool.run("fake", "fake.echo", {}).status == "ok"


def test_a_callback_that_raises_is_the_callers_fault(pool: Pool) -> None:
    def callback(text: str) -> None:
        raise ZeroDivisionError(text)

    with pytest.raises(ZeroDivisionError):
        pool.run("fake", "fake.progress", {"texts": ["a", "b"]}, on_progress=callback)
    assert pool.run("fake", "fake.echo", {}).status == "ok"


def test_tensors_are_put_got_and_discarded(pool: Pool) -> None:
    reference = pool.put(np.eye(2, dtype=np.float32), logical="bfloat16")
    assert pool.get(reference).tolist() == [[1, 0], [0, 1]]
    pool.discard({"outputs": [reference]})
    with pytest.raises(TensorReferenceError):
        pool.get(reference)


def test_a_full_disk_is_one_sentence_with_a_remedy(pool: Pool) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(InputError) as problem:
            pool.put(np.zeros(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "Cannot write 8000 bytes of tensor data to" in problem.value.message
    assert "TMPDIR" in problem.value.remedy


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # from 3.12 on, about forking beside threads
def test_a_fork_of_the_program_does_not_clean_up_for_the_original(pool: Pool) -> None:
    child = os.fork()
    if child == 0:
        pool.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert pool.folder.exists()
    assert pool.run("fake", "fake.echo", {}).status == "ok"


# The program itself ends, in every way there is.

PROGRAM = """
import os, sys, time
from tensoraudit.probes.outcome import Outcome
from tensoraudit.probes.pool import Pool, termination_raises
with termination_raises():
    pool = Pool(frameworks={"fake": "fake_framework"})
    print(pool.hello("fake").result["pid"], flush=True)
    WAY
"""
HANG = 'pool.run("fake", "fake.hang_in_native_code", {"started": os.environ["STARTED"]})'


class Program:
    """A program of its own with a pool, run as from a terminal."""

    def __init__(self, folder: Path, way: str) -> None:
        self.runs, self.mark = folder / "runs", folder / "started"
        self.runs.mkdir()
        own = {"TMPDIR": str(self.runs), "STARTED": str(self.mark), "PYTHONPATH": f"{HERE}:{HERE.parents[1] / 'src'}"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.replace("WAY", way)],
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        with self.process.stdout:
            self.worker = int(self.process.stdout.readline())


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGHUP, 129)]
)
def test_a_signal_leaves_no_process_and_no_file(
    tmp_path: Path,
    gone: Callable[[int], bool],
    until: Callable[[Callable[[], bool]], bool],
    number: signal.Signals,
    code: int,
) -> None:
    program = Program(tmp_path, HANG)
    assert until(program.mark.exists)
    os.killpg(program.process.pid, number)
    assert program.process.wait(30) == code
    assert gone(program.worker)
    assert not list(program.runs.iterdir())


def test_a_killed_program_takes_its_workers_along(
    tmp_path: Path, gone: Callable[[int], bool], until: Callable[[Callable[[], bool]], bool]
) -> None:
    program = Program(tmp_path, HANG)
    assert until(program.mark.exists)
    program.process.kill()
    program.process.wait()
    assert gone(program.worker)


@pytest.mark.parametrize("way", ["pass", "raise ValueError", "sys.exit(3)", "pool.close()"])
def test_a_pool_that_nobody_closed_is_closed_at_the_end(tmp_path: Path, gone: Callable[[int], bool], way: str) -> None:
    program = Program(tmp_path, way)
    program.process.wait(30)
    assert gone(program.worker)
    assert not list(program.runs.iterdir())


def test_termination_raises_only_inside() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as leaving, termination_raises():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
    assert leaving.value.code == 143
    assert signal.getsignal(signal.SIGTERM) == before


def test_no_thread_is_left(make_pool: MakePool, until: Callable[[Callable[[], bool]], bool]) -> None:
    before = set(threading.enumerate())  # other modules' pools live on in this process
    pool = make_pool()
    pool.hello("fake")
    assert set(threading.enumerate()) - before
    pool.close()
    assert until(lambda: not set(threading.enumerate()) - before)
