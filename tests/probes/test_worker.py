"""What a worker and its watch make of code that behaves badly: every case has its reason, and the audit goes on."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensoraudit.probes.limits import Limits
from tensoraudit.probes.outcome import Outcome
from tensoraudit.probes.pool import Pool

RunJob = Callable[..., Outcome]
MIDDLE = "in the middle of job fake."


def stderr(outcome: Outcome) -> str:
    assert outcome.error is not None
    return str(outcome.error["stderr"])


def still_works(job: RunJob) -> bool:
    outcome = job("echo")
    assert outcome.status == "ok", outcome  # with the reason, should it ever not be
    return True


def test_a_job_answers_and_its_worker_stays_warm(job: RunJob) -> None:
    first, second = job("echo", a=[1, None, "ü"]), job("echo")
    assert (first.status, first.reason, first.error) == ("ok", "", None)
    assert first.result is not None
    assert second.result is not None
    assert first.result["params"] == {"a": [1, None, "ü"]}
    assert second.result["pid"] == first.result["pid"]
    assert second.result["calls"] == 2


def test_tensors_go_there_and_back(pool: Pool, job: RunJob) -> None:
    outcome = job("double", x=pool.put(np.arange(6, dtype=">f4").reshape(2, 3).T))
    assert outcome.result is not None
    assert pool.get(outcome.result["doubled"]).tolist() == [[0.0, 6.0], [2.0, 8.0], [4.0, 10.0]]


def test_progress_is_told_while_the_job_runs(pool: Pool) -> None:
    told: list[str] = []
    pool.run("fake", "fake.progress", {"texts": ["loading", "exporting\x1b[2J"]}, on_progress=told.append)
    assert told == ["loading", "exporting\ufffd[2J"]


# Refusals and exceptions are answers: the same worker goes on.


def test_a_refusal_is_unsupported_with_details(job: RunJob) -> None:
    outcome = job("refuse")
    assert (outcome.status, outcome.reason, outcome.result) == ("unsupported", "no int4 here", None)
    assert outcome.error is not None
    assert outcome.error["details"] == {"dtype": "int4"}


def test_a_planned_failure_keeps_reason_details_and_traceback_and_leaves_no_tensor(pool: Pool, job: RunJob) -> None:
    outcome = job("fail")
    assert (outcome.status, outcome.reason) == ("failed", "operator foo has no symbolic")
    assert outcome.error is not None
    assert outcome.error["type"] == "JobFailed"
    assert outcome.error["details"] == {"stage": "export", "operator": "foo"}
    assert "jobs.py" in outcome.error["traceback"]
    assert not list(pool.folder.glob("*.bin"))


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("exit", "SystemExit: called sys.exit(3)"),
        ("interrupt", "KeyboardInterrupt"),
        ("base", "DeepError: derived from BaseException"),
        ("unreadable", "UnreadableError: its message cannot be read"),
        ("memory", "MemoryError (memory limit 1 GiB)"),
        ("surrogate", "ValueError: \ufffd\ufffd[31m"),
    ],
)
def test_whatever_is_raised_fails_the_job_only(pool: Pool, job: RunJob, what: str, reason: str) -> None:
    before = job("echo").result
    outcome = job("throw", what=what)
    assert (outcome.status, outcome.reason) == ("failed", reason)
    assert stderr(outcome) == "about to throw\n"
    after = job("echo").result
    assert before is not None
    assert after is not None
    assert after["pid"] == before["pid"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("recurse", "RecursionError: maximum recursion depth exceeded"),
        ("no_json", "TypeError: object is not plain JSON"),
        ("no_dict", "TypeError: job fake.no_dict returned NoneType, not a dict"),
        ("overfill", "Cannot write 1048576 bytes of tensor data to"),
        ("answer_too_much", "OverflowError: The answer takes"),
    ],
)
def test_a_wrong_answer_fails_the_job_only(pool: Pool, job: RunJob, name: str, reason: str) -> None:
    outcome = job(name)
    assert outcome.status == "failed"
    assert outcome.reason.startswith(reason)
    assert still_works(job)
    assert pool.restarts("fake") == 0


def test_strings_and_unknown_jobs_are_unsupported(job: RunJob) -> None:
    assert job("put_strings").status == "unsupported"
    unknown = job("no_such_job")
    assert (unknown.status, unknown.reason) == ("unsupported", "This worker has no job fake.no_such_job")


def test_a_worker_that_lost_its_device_is_replaced(pool: Pool, job: RunJob) -> None:
    outcome = job("throw", what="device")
    assert (outcome.status, outcome.reason) == ("failed", "RuntimeError: CUDA error: device-side assert triggered")
    assert still_works(job)
    assert pool.restarts("fake") == 1


# Deaths: each is told, and the next job gets a new worker.


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("segfault", f"segmentation fault (signal 11) {MIDDLE}segfault"),
        ("abort", f"aborted itself (signal 6) {MIDDLE}abort"),
        ("leave", f"exited with code 3 {MIDDLE}leave"),
        ("be_killed", f"killed (signal 9) {MIDDLE}be_killed, most likely for memory (limit 1 GiB)"),
        (
            "abort_for_memory",
            f"aborted itself (signal 6) {MIDDLE}abort_for_memory, most likely for memory (limit 1 GiB)",
        ),
        ("close_control", f"closed its control channel {MIDDLE}close_control"),
    ],
)
def test_a_death_has_its_reason_and_the_next_job_a_new_worker(pool: Pool, job: RunJob, name: str, reason: str) -> None:
    outcome = job(name)
    assert (outcome.status, outcome.reason, outcome.result) == ("crashed", reason, None)
    assert not list(pool.folder.glob("*.bin"))
    assert still_works(job)
    assert pool.restarts("fake") == 1


def test_a_segfault_leaves_the_python_lines_that_led_to_it(job: RunJob) -> None:
    assert "in segfault" in stderr(job("segfault"))


@pytest.mark.parametrize("name", ["hang", "hang_in_native_code"])
def test_a_hang_is_stopped_and_says_where(pool: Pool, job: RunJob, tmp_path: Path, name: str) -> None:
    still_works(job)
    outcome = job(name, timeout=1.0, started=str(tmp_path / "started"))
    assert outcome.status == "timeout"
    assert outcome.reason == f"was stopped after 1 s (the limit) {MIDDLE}{name}"
    assert 1.0 <= outcome.seconds < 20
    assert f"in {name}" in stderr(outcome)
    assert still_works(job)


# The control channel: user code cannot disturb it by accident, and on purpose only gets itself stopped.


def test_prints_go_to_stderr_and_stdin_is_empty(job: RunJob) -> None:
    outcome = job("print_garbage")
    assert outcome.result == {"fine": True}


@pytest.mark.parametrize(
    "text",
    ["hi\n", "[1]\n", '{"id": 99, "result": {}}\n', '{"result": {}}\n', '{"id": 1}\n', '{"id": 1, "result": 3}\n'],
)
def test_garbage_on_the_control_channel_ends_the_worker(job: RunJob, text: str) -> None:
    outcome = job("write_control", text=text)
    assert outcome.status == "crashed"
    assert outcome.reason.startswith("sent something that is not the protocol (")
    assert outcome.reason.endswith(f"{MIDDLE}write_control")
    assert still_works(job)


def test_a_line_without_end_is_cut_off(job: RunJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensoraudit.probes.channel.MAX_LINE", 1 << 20)
    outcome = job("write_control", text="x" * 1000, times=2000)
    assert outcome.status == "crashed"
    assert "a line of more than 1048576 bytes" in outcome.reason


@pytest.mark.parametrize(
    "reference",
    [
        {"file": "link.bin", "dtype": "uint8", "shape": [1]},
        {"file": "pipe.bin", "dtype": "uint8", "shape": [0]},
        {"file": "../../etc/passwd", "dtype": "uint8", "shape": [1]},
        {"file": "short.bin", "dtype": "float32", "shape": [2]},
        {"file": "absent.bin", "dtype": "float32", "shape": [2]},
    ],
)
def test_a_reference_that_leads_elsewhere_is_not_followed(job: RunJob, reference: dict[str, Any]) -> None:
    outcome = job("lie", reference=reference)
    assert outcome.status == "crashed"
    assert outcome.reason.startswith("sent something that is not the protocol (")


def test_a_fork_that_comes_back_does_not_answer_twice(job: RunJob) -> None:
    assert job("fork_and_return").status == "ok"
    assert still_works(job)


def test_a_flood_on_stderr_neither_blocks_nor_fills(job: RunJob) -> None:
    flooded = job("flood", kilobytes=50_000)
    assert flooded.status == "ok"
    crashed = job("throw", what="base")
    assert len(stderr(crashed)) < 100


# Memory.


def test_one_huge_allocation_fails_with_its_size(job: RunJob) -> None:
    outcome = job("allocate_at_once", bytes=10 << 30)
    assert outcome.status == "failed"
    assert "Unable to allocate 10.0 GiB" in outcome.reason
    assert outcome.reason.endswith("(memory limit 1 GiB)")


def test_memory_that_grows_step_by_step_is_stopped_at_the_limit(make_pool: Callable[..., Pool]) -> None:
    pool = make_pool(limits=Limits(timeout=60, memory=128 << 20))
    outcome = pool.run("fake", "fake.grow", {})
    assert outcome.status == "crashed"
    assert outcome.reason.startswith("was stopped at 0.1")
    assert "GiB (limit 0.12 GiB) in the middle of job" in outcome.reason
    assert outcome.peak_memory is not None
    assert outcome.peak_memory >= 128 << 20


def test_the_memory_of_children_counts(make_pool: Callable[..., Pool]) -> None:
    pool = make_pool(limits=Limits(timeout=60, memory=150 << 20))
    outcome = pool.run("fake", "fake.allocate_in_child", {})
    assert outcome.status == "crashed"
    assert "(limit 0.15 GiB)" in outcome.reason


def test_the_peak_of_one_job_is_not_the_next_ones(job: RunJob) -> None:
    large, small = job("use_memory", bytes=200 << 20), job("use_memory", bytes=1 << 20)
    assert large.peak_memory is not None
    assert small.peak_memory is not None
    assert 200 << 20 <= large.peak_memory < 400 << 20
    assert small.peak_memory < 150 << 20


# Surroundings.


def test_the_worker_lives_apart(pool: Pool, job: RunJob) -> None:
    hello = pool.hello("fake").result
    there = job("surroundings").result
    assert hello is not None
    assert there is not None
    assert there["session"] == hello["pid"] != os.getsid(0)
    assert Path(there["cwd"]).parent == pool.folder
    assert there["listing"] == ["tmp"]
    assert there["core"] == [0, 0]
    assert there["interrupt_ignored"]
    assert there["argv"] == ["-c"]
    assert there["environment"]["HF_HUB_OFFLINE"] == there["environment"]["TRANSFORMERS_OFFLINE"] == "1"
    assert there["environment"]["TMPDIR"].startswith(str(pool.folder))
    assert there["environment"]["TENSORAUDIT_THREADS"] == os.environ.get(
        "TENSORAUDIT_THREADS", str(len(os.sched_getaffinity(0)))
    )


def test_the_users_path_comes_after_the_standard_library_and_before_packages(job: RunJob) -> None:
    there = job("surroundings").result
    assert there is not None
    here = str(Path(__file__).parent)
    library = next(at for at, entry in enumerate(there["path"]) if entry.endswith("lib-dynload"))
    packages = next(at for at, entry in enumerate(there["path"]) if entry.endswith("site-packages"))
    assert "" not in there["path"]
    assert library < there["path"].index(here) < packages
    assert "PYTHONPATH" not in there["environment"]


def test_a_job_that_moves_does_not_move_the_next(job: RunJob) -> None:
    job("wander")
    there = job("surroundings").result
    assert there is not None
    assert there["listing"] == ["tmp"]


def test_an_isolated_worker_sees_its_own_loopback_only(pool: Pool, job: RunJob) -> None:
    hello = pool.hello("fake").result
    assert hello is not None
    if hello["network"] != "isolated":
        pytest.skip("this system lets no process leave the network")
    assert job("network").result == {"interfaces": ["lo"]}


# Starting.

FAULT = "a fault of tensoraudit itself, please report it"


def test_a_name_that_a_module_of_ours_lacks_is_no_advice_to_install_it(make_pool: Callable[..., Pool]) -> None:
    outcome = make_pool({"FAKE_HELLO": "ours in part"}).hello("fake")
    assert outcome.status == "crashed"
    assert outcome.reason.startswith(f"{FAULT}: cannot import name 'no_such_name'")


def test_a_job_that_lacks_a_module_of_ours_refuses_nothing(job: RunJob) -> None:
    for what in ("ours", "ours, explained"):
        outcome = job("throw", what=what)
        assert outcome.status == "crashed"
        assert outcome.reason.startswith(FAULT)


@pytest.mark.parametrize(
    ("trouble", "status", "reason"),
    [
        ("missing", "missing", "No module named 'no_such_framework'"),
        ("broken", "missing", "cannot be loaded: OSError: libfake.so.1: cannot open shared object file"),
        ("ours", "crashed", f"{FAULT}: No module named 'tensoraudit.no_such_module'"),
        ("segfault", "crashed", "segmentation fault (signal 11) while it started"),
        ("leave", "crashed", "exited with code 7 while it started"),
        ("hang", "timeout", "was stopped after 0.5 s (the limit) while it started"),
    ],
)
def test_a_framework_that_does_not_load(make_pool: Callable[..., Pool], trouble: str, status: str, reason: str) -> None:
    start = 0.5 if trouble == "hang" else 60.0
    pool = make_pool({"FAKE_HELLO": trouble}, limits=Limits(memory=1 << 30, start=start))
    for outcome in (pool.hello("fake"), pool.run("fake", "fake.echo", {})):
        assert (outcome.status, outcome.reason, outcome.result) == (status, reason, None)


def test_it_is_tried_twice_and_no_more(make_pool: Callable[..., Pool]) -> None:
    pool = make_pool({"FAKE_HELLO": "leave"})
    assert [pool.run("fake", "fake.echo", {}).status for _ in range(4)] == ["crashed"] * 4
    assert pool.restarts("fake") == 1
    pool = make_pool({"FAKE_HELLO": "missing"})
    assert [pool.run("fake", "fake.echo", {}).status for _ in range(3)] == ["missing"] * 3
    assert pool.restarts("fake") == 0


def test_a_framework_that_prints_cannot_forge_a_hello(make_pool: Callable[..., Pool]) -> None:
    hello = make_pool({"FAKE_HELLO": "print"}).hello("fake")
    assert hello.result is not None
    assert hello.result["framework"] == "fake"
    assert hello.result["python"] == ".".join(map(str, sys.version_info[:3]))


# Nothing stays behind.


@pytest.mark.parametrize("crash", [True, False])
def test_children_and_detached_grandchildren_go_with_the_worker(
    pool: Pool, job: RunJob, tmp_path: Path, gone: Callable[[int], bool], crash: bool
) -> None:
    outcome = job("leave_children", pids=str(tmp_path / "pids"), crash=crash)
    assert outcome.status == ("crashed" if crash else "ok")
    if not crash:
        pool.close()
    assert all(gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_temporary_files_go_with_the_worker(pool: Pool, job: RunJob) -> None:
    left = job("leave_files").result
    assert left is not None
    home = Path(left["file"]).parent.parent
    assert home.parent == pool.folder
    job("leave")
    assert not home.exists()


def test_a_thread_that_never_ends_does_not_delay_the_end(pool: Pool, job: RunJob) -> None:
    job("leave_a_thread")
    started = time.monotonic()
    pool.close()
    assert time.monotonic() - started < 10


def test_the_worker_killed_between_two_jobs_is_replaced(pool: Pool, job: RunJob, gone: Callable[[int], bool]) -> None:
    first = job("echo").result
    assert first is not None
    os.kill(first["pid"], signal.SIGKILL)
    assert gone(first["pid"])
    assert still_works(job)
