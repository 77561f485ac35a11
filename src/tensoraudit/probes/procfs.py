"""Read about processes from /proc. On a system without it every answer is empty or zero.

Processes come and go while one reads; what cannot be read any more is as good as gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
_PRIVATE = (b"RssAnon:", b"RssShmem:", b"VmSwap:")


def machine_memory() -> int:
    """Return the bytes of memory that this machine has available without swapping, 0 if unknown."""
    return _kilobytes("meminfo", (b"MemAvailable:",))


def private_memory(pid: int) -> int:
    """Return the bytes that a process holds and the kernel cannot just drop: not mapped files, but swapped pages."""
    return _kilobytes(f"{pid}/status", _PRIVATE)


def session_members(session: int) -> list[int]:
    """Return the ids of all processes in a session."""
    return [pid for pid, fields in _processes() if int(fields[3]) == session]


def started(pid: int) -> int:
    """Return when a process started, in clock ticks since the machine did; 0 if unknown."""
    fields = _fields(pid)
    return int(fields[19]) if fields else 0


def is_zombie(pid: int) -> bool:
    """Tell whether a process has ended and is not reaped. Its other threads may still be ending, and until they have
    nobody can wait for it."""
    return _fields(pid)[:1] == [b"Z"]


def marked(marker: str, since: int) -> list[int]:
    """Return the ids of the processes started at or after `since` that carry `marker` in their first environment.

    A child inherits it however it detaches itself. Only young processes are asked, since reading another process's
    environment waits for a lock that a stuck one may hold.
    """
    young = (pid for pid, fields in _processes() if int(fields[19]) >= since)
    return [pid for pid in young if marker.encode() in _read(f"{pid}/environ")]


def _processes() -> Iterator[tuple[int, list[bytes]]]:
    for folder in _PROC.glob("[0-9]*"):
        if fields := _fields(int(folder.name)):
            yield int(folder.name), fields


def _fields(pid: int) -> list[bytes]:
    """Return the fields of stat(5) from the third on; the second, the name, may hold anything and is cut off."""
    return _read(f"{pid}/stat").rpartition(b")")[2].split()


def _kilobytes(path: str, names: tuple[bytes, ...]) -> int:
    return sum(int(line.split()[1]) * 1024 for line in _read(path).splitlines() if line.startswith(names))


def _read(path: str) -> bytes:
    try:
        return (_PROC / path).read_bytes()
    except OSError:
        return b""
