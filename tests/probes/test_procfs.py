from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tensoraudit.probes import procfs

MEMORY = """
import os, sys
import numpy as np
from tensoraudit.probes import procfs

size = 64 << 20  # beyond what the allocator may take from memory that it freed before (32 MiB at most)
before = procfs.private_memory(os.getpid())
mapped = np.memmap(sys.argv[1], dtype=np.uint8, mode="r")
assert int(mapped.sum()) == 0
between = procfs.private_memory(os.getpid())
own = np.ones(size, dtype=np.uint8)
print(between - before, procfs.private_memory(os.getpid()) - between, own.size == mapped.size)
"""


def test_private_memory_leaves_mapped_files_out(tmp_path: Path) -> None:
    """In a process of its own: one that has run other tests for an hour has memory to give out again."""
    size = 64 << 20
    (tmp_path / "weights").write_bytes(bytes(size))
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "weights")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    mapped, own, _ = done.stdout.split()
    assert int(mapped) < size // 4 and int(own) > size * 3 // 4


def test_processes_are_found_by_session_and_by_mark(until: Callable[[Callable[[], bool]], bool]) -> None:
    own = procfs.started(os.getpid())
    environment = {**os.environ, "TENSORAUDIT_TEST_MARK": "mark-4711."}
    with subprocess.Popen(["sleep", "60"], env=environment, start_new_session=True) as process:
        try:
            assert own > 0
            assert until(lambda: procfs.marked("mark-4711.", own) == [process.pid])
            assert procfs.session_members(process.pid) == [process.pid]
            assert procfs.started(process.pid) >= own
            assert procfs.marked("mark-4711.", procfs.started(process.pid) + 1) == []
        finally:
            process.kill()


def test_the_dead_have_nothing() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert procfs.private_memory(process.pid) == 0
    assert procfs.started(process.pid) == 0
    assert procfs.session_members(process.pid) == []


def test_without_proc_nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(procfs, "_PROC", tmp_path / "absent")
    assert (procfs.machine_memory(), procfs.private_memory(1), procfs.started(1)) == (0, 0, 0)
    assert (procfs.session_members(1), procfs.marked("x", 0)) == ([], [])


def test_fields_are_read_behind_a_strange_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "12").mkdir()
    fields = "S 1 12 99 " + " ".join(map(str, range(5, 20))) + " 4242 0"
    (tmp_path / "12" / "stat").write_text(f"12 (a) R 7 7 (b) {fields}\n")
    monkeypatch.setattr(procfs, "_PROC", tmp_path)
    assert procfs.session_members(99) == [12]
    assert procfs.started(12) == 4242
