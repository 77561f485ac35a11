from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.probes import procfs


def test_private_memory_leaves_mapped_files_out(tmp_path: Path) -> None:
    size = 64 << 20  # beyond what the allocator may take from memory that it freed before (32 MiB at most)
    (tmp_path / "weights").write_bytes(bytes(size))
    before = procfs.private_memory(os.getpid())
    mapped = np.memmap(tmp_path / "weights", dtype=np.uint8, mode="r")
    assert int(mapped.sum()) == 0
    assert procfs.private_memory(os.getpid()) - before < size // 4
    own = np.ones(size, dtype=np.uint8)
    assert procfs.private_memory(os.getpid()) - before > size * 3 // 4
    assert own.size == mapped.size


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
