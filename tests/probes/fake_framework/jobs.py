"""Jobs that answer, refuse, or misbehave in one way each."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from tensoraudit.probes.protocol import Job, JobFailed, JobUnsupported, Session

Params = dict[str, Any]


def echo(params: Params, session: Session) -> dict[str, Any]:
    session.cache["calls"] = session.cache.get("calls", 0) + 1
    return {"params": params, "pid": os.getpid(), "calls": session.cache["calls"]}


def double(params: Params, session: Session) -> dict[str, Any]:
    return {"doubled": session.put(session.get(params["x"]) * 2)}


def surroundings(params: Params, session: Session) -> dict[str, Any]:
    return {
        "cwd": str(Path.cwd()),
        "listing": sorted(path.name for path in Path().iterdir()),
        "environment": dict(os.environ),
        "path": sys.path,
        "argv": sys.argv,
        "session": os.getsid(0),
        "core": list(resource.getrlimit(resource.RLIMIT_CORE)),
        "package": sys.modules["tensoraudit"].__file__,
        "interrupt_ignored": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
    }


def network(params: Params, session: Session) -> dict[str, Any]:
    """Whether a socket reaches its own loopback, and which interfaces there are."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname(), timeout=5):
        return {"interfaces": [name for _, name in socket.if_nameindex()]}


def progress(params: Params, session: Session) -> dict[str, Any]:
    for text in params["texts"]:
        session.progress(text)
    return {}


def wander(params: Params, session: Session) -> dict[str, Any]:
    os.chdir("/")
    return {}


def refuse(params: Params, session: Session) -> dict[str, Any]:
    raise JobUnsupported("no int4 here", dtype="int4")


def fail(params: Params, session: Session) -> dict[str, Any]:
    session.put(np.zeros(4))
    raise JobFailed("operator foo has no symbolic", stage="export", operator="foo")


def put_strings(params: Params, session: Session) -> dict[str, Any]:
    return {"x": session.put(np.array(["a"]))}


class DeepError(BaseException):
    def __str__(self) -> str:
        return "derived from BaseException"


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def _explained() -> JobFailed:
    problem = JobFailed("a package is missing")
    problem.__cause__ = ImportError("No module named 'tensoraudit.x'", name="tensoraudit.x")
    return problem


RAISED = {
    "exit": lambda: SystemExit(3),
    "interrupt": KeyboardInterrupt,
    "base": DeepError,
    "unreadable": UnreadableError,
    "memory": MemoryError,
    "ours": lambda: ImportError("No module named 'tensoraudit.x'", name="tensoraudit.x"),
    "ours, explained": _explained,
    "device": lambda: RuntimeError("CUDA error: device-side assert triggered"),
    "surrogate": lambda: ValueError("\udcff\x1b[31m"),
}


def throw(params: Params, session: Session) -> dict[str, Any]:
    print("about to throw", file=sys.stderr)
    raise RAISED[params["what"]]()


def recurse(params: Params, session: Session) -> dict[str, Any]:
    return recurse(params, session)


def no_json(params: Params, session: Session) -> dict[str, Any]:
    return {"value": object()}


def no_dict(params: Params, session: Session) -> Any:
    return None


def segfault(params: Params, session: Session) -> dict[str, Any]:
    ctypes.string_at(0)
    return {}


def abort(params: Params, session: Session) -> dict[str, Any]:
    os.abort()


def leave(params: Params, session: Session) -> dict[str, Any]:
    session.put(np.zeros(4))
    os._exit(3)


def be_killed(params: Params, session: Session) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def hang(params: Params, session: Session) -> dict[str, Any]:
    Path(params["started"]).touch()
    time.sleep(60)
    return {}


def hang_in_native_code(params: Params, session: Session) -> dict[str, Any]:
    """Hold the interpreter, so that no other thread of the worker can run."""
    Path(params["started"]).touch()
    ctypes.PyDLL(None).sleep(60)
    return {}


def print_garbage(params: Params, session: Session) -> dict[str, Any]:
    print('{"id": 1, "result": {"forged": true}}')
    os.write(1, b"\xff\x00 garbage\n")
    return {"fine": sys.stdin.read() == ""}


def write_control(params: Params, session: Session) -> dict[str, Any]:
    """Find the control channel among the open files and write to it."""
    for descriptor in _pipes():
        try:
            os.write(descriptor, params["text"].encode() * params.get("times", 1))
        except OSError:
            continue
    time.sleep(60)
    return {}


def close_control(params: Params, session: Session) -> dict[str, Any]:
    for descriptor in _pipes():
        os.close(descriptor)
    time.sleep(60)
    return {}


def _pipes() -> list[int]:
    links = {int(path.name): str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    return [number for number, link in links.items() if number > 2 and link.startswith("pipe:")]


def flood(params: Params, session: Session) -> dict[str, Any]:
    line = b"x" * 1023 + b"\n"
    for _ in range(params["kilobytes"]):
        os.write(2, line)
    os.write(2, b"the last line\n")
    return {}


def allocate_at_once(params: Params, session: Session) -> dict[str, Any]:
    return {"size": np.ones(params["bytes"], dtype=np.uint8).size}


def grow(params: Params, session: Session) -> dict[str, Any]:
    """Take memory step by step, of the shared kind that no limit on allocations counts."""
    kept = []
    while True:
        kept.append(mmap.mmap(-1, 4 << 20))
        kept[-1].write(b"x" * (4 << 20))
        time.sleep(0.005)


def allocate_in_child(params: Params, session: Session) -> dict[str, Any]:
    code = (
        "import mmap, time; m = mmap.mmap(-1, 200 << 20); [m.write(b'x' * 4096) for _ in range(51200)]; time.sleep(60)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    return {}


def use_memory(params: Params, session: Session) -> dict[str, Any]:
    return {"sum": int(np.ones(params["bytes"], dtype=np.uint8)[:10].sum())}


def leave_children(params: Params, session: Session) -> dict[str, Any]:
    """Start a child in the group, and a grandchild that detached itself from session, group and parent."""
    child = subprocess.Popen(["sleep", "60"])
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            Path(params["pids"]).write_text(f"{child.pid} {os.getpid()}")
            time.sleep(60)
        os._exit(0)
    while not Path(params["pids"]).exists() or not Path(params["pids"]).read_text():
        time.sleep(0.01)
    if params["crash"]:
        os._exit(1)
    return {}


def fork_and_return(params: Params, session: Session) -> dict[str, Any]:
    """Let a fork of the worker come back into the worker's own code."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return {"child": child}


def leave_a_thread(params: Params, session: Session) -> dict[str, Any]:
    threading.Thread(target=time.sleep, args=(60,)).start()
    return {}


def leave_files(params: Params, session: Session) -> dict[str, Any]:
    """Leave a temporary file, and a folder that does not let itself be emptied."""
    _, name = tempfile.mkstemp()
    locked = Path(tempfile.mkdtemp())
    (locked / "file").touch()
    locked.chmod(0o500)
    return {"file": name}


def overfill(params: Params, session: Session) -> dict[str, Any]:
    """Write a tensor larger than the system lets a file become, which fails as a full disk does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        return {"x": session.put(np.ones(1 << 20, dtype=np.uint8))}
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def answer_too_much(params: Params, session: Session) -> dict[str, Any]:
    return {"text": "x" * (65 << 20)}


def abort_for_memory(params: Params, session: Session) -> dict[str, Any]:
    """End as C++ does when an allocation fails where nobody catches it."""
    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
    os.abort()


def lie(params: Params, session: Session) -> dict[str, Any]:
    """Answer with the reference that the test asks for."""
    Path(session.folder, "link.bin").symlink_to("/etc/passwd")
    os.mkfifo(session.folder / "pipe.bin")
    Path(session.folder, "short.bin").write_bytes(b"1234")
    return {"x": params["reference"]}


JOBS: dict[str, Job] = {
    f"fake.{job.__name__}": job
    for job in (
        *(echo, double, surroundings, network, progress, wander, refuse, fail, put_strings, throw, recurse, no_json),
        *(no_dict, segfault, abort, leave, be_killed, hang, hang_in_native_code, print_garbage, write_control),
        *(close_control, flood, allocate_at_once, grow, allocate_in_child, use_memory, leave_children),
        *(fork_and_return, leave_a_thread, leave_files, overfill, answer_too_much, abort_for_memory, lie),
    )
}
