"""The worker's first steps: cut off the network, die with the parent, leave no core dump, bound the memory.

Runs in the worker before anything else is imported, so it uses the standard library only (Python 3.9). Every step is
best effort: a system that refuses one (a container, another operating system) gets the rest. What this guards against
is a model's code by accident or curiosity; it is no wall against an attacker who is root.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
# Drivers of these devices reserve many times the card's memory as address space, which RLIMIT_DATA would count.
_GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")


def close_network() -> str:
    """Move this process into a network namespace with nothing but loopback.

    Returns "isolated", or "open" where the system does not allow it. Must run before the first thread starts.
    """
    if not hasattr(ctypes.CDLL(None), "unshare"):
        return "open"
    # The way without privileges changes who the process seems to be, and a half-done change cannot be undone: rehearse.
    if not _unshare(_CLONE_NEWNET) and not (_rehearse(_unshare_as_user) and _unshare_as_user()):
        return "open"
    _raise_loopback()
    return "isolated"


def _unshare(flags: int) -> bool:
    return bool(ctypes.CDLL(None, use_errno=True).unshare(flags) == 0)


def _unshare_as_user() -> bool:
    user, group = os.geteuid(), os.getegid()
    if not _unshare(_CLONE_NEWUSER | _CLONE_NEWNET):
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError:
        return False
    return True


def _rehearse(step: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        os._exit(0 if step() else 1)
    return os.waitpid(child, 0)[1] == 0


def _raise_loopback() -> None:
    """Bring `lo` up, which servers of multiprocessing and torch.distributed listen on."""
    import fcntl

    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            request = fcntl.ioctl(probe, _SIOCGIFFLAGS, struct.pack("16sh22x", b"lo", 0))
            flags = struct.unpack("16sh22x", request)[1]
            fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | _IFF_UP))
    except OSError:
        pass  # a namespace without loopback is isolated all the same


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends.

    Must come after `close_network`, which resets the request. It works while native code holds the interpreter, which
    a thread that waits for the end of the control channel does not.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def expect_trouble() -> None:
    """Leave no core dump, and let the kernel end this process first when memory runs out."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):  # not Linux, or a container that forbids it
        Path("/proc/self/oom_score_adj").write_text("1000")


def limit_data(memory: int) -> None:
    """Let allocations beyond `memory` bytes more than now fail, so that a job can say which one did.

    The main process watches what is really used; this only turns one huge request into an exception instead of a kill.
    """
    if any(map(os.path.exists, _GPU_DEVICES)):
        return
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    wanted = _status("VmData") + memory
    if hard == resource.RLIM_INFINITY or wanted < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def restart_peak() -> None:
    """Let `peak` count from now on, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """Return the most resident bytes of this process since `restart_peak`, mapped files included."""
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _status(field: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":")), 0)
