"""Start a worker process in some interpreter: which one, with what on its path, in what environment.

The worker loads our package from the folder it lies in, by its own path: neither our site-packages nor any folder of
the user's gets in front of what the other interpreter has installed.
"""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Must stay readable for every Python there is, so that an old one can say that it is too old.
BOOT = """
import json, os, sys
settings = json.loads(sys.argv.pop())
if sys.path[:1] == [""]:
    del sys.path[0]
os.write(settings["replies"], json.dumps({"python": sys.version.split()[0]}).encode("ascii") + b"\\n")
if sys.version_info < (3, 9):
    reason = "Python " + sys.version.split()[0] + " is too old for a worker, which needs 3.9"
    os.write(settings["replies"], json.dumps({"missing": reason}).encode("ascii") + b"\\n")
    sys.exit(0)
from importlib import util
spec = util.spec_from_file_location(
    "tensoraudit", settings["package"] + "/__init__.py", submodule_search_locations=[settings["package"]]
)
sys.modules["tensoraudit"] = util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["tensoraudit"])
from tensoraudit.probes.worker import main
main(settings)
"""

_PACKAGE = Path(__file__).absolute().parents[1]
MARKER = "TENSORAUDIT_WORKER"
_OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK")
# PYTHONPATH is handed over apart (see `_user_path`); the others would change the worker behind the report's back.
_REMOVED = ("PYTHONPATH", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONWARNINGS", "PYTHONEXECUTABLE", "__PYVENV_LAUNCHER__")
_FIXED = {
    **dict.fromkeys(_OFFLINE, "1"),
    "PYTHONHASHSEED": "0",  # exporters walk through sets of strings: same input, same graph
    "PYTHONIOENCODING": "utf-8:backslashreplace",
    "PYTHONUNBUFFERED": "1",  # what was printed before a crash must be in the tail
}


class LaunchError(Exception):
    """The interpreter cannot be started; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A started worker: its process and our ends of its pipes."""

    process: subprocess.Popen[bytes]
    requests: int
    replies: int
    stderr: int


def launch(
    interpreter: str, module: str, folder: Path, home: Path, *, marker: str, memory: int, environment: Mapping[str, str]
) -> Launched:
    """Start a worker for a framework's `module`; `home` becomes its working directory and holds its temporary files.

    The process leads a session and group of its own. Raises LaunchError.
    """
    executable = _executable(interpreter)
    (home / "tmp").mkdir(parents=True, exist_ok=True)
    theirs, requests = os.pipe()
    replies, theirs_too = os.pipe()
    stderr, noise = os.pipe()
    settings = {
        "package": str(_PACKAGE),
        "module": module,
        "path": _user_path(executable, environment),
        "requests": theirs,
        "replies": theirs_too,
        "folder": str(folder),
        "home": str(home),
        "memory": memory,
    }
    try:
        process = subprocess.Popen(
            [executable, "-c", BOOT, json.dumps(settings)],
            stdin=subprocess.DEVNULL,
            stdout=noise,
            stderr=noise,
            pass_fds=(theirs, theirs_too),
            cwd=home,
            env=_environment(executable, environment, {MARKER: marker, "TMPDIR": str(home / "tmp")}),
            start_new_session=True,
        )
    except OSError as problem:
        for descriptor in (requests, replies, stderr):
            os.close(descriptor)
        raise LaunchError(f"{interpreter} cannot be started: {problem.strerror}") from problem
    finally:
        for descriptor in (theirs, theirs_too, noise):
            os.close(descriptor)
    return Launched(process, requests, replies, stderr)


def _executable(interpreter: str) -> str:
    """Find the interpreter: a path, a name on PATH, or the folder of a virtual environment.

    Links are not followed: a virtual environment's python is a link, and the link is what makes it one.
    """
    path = Path(interpreter).expanduser()
    if path.is_dir():
        path /= "bin/python"
    found = shutil.which(path if path.parent != Path() else interpreter)
    if found is None:
        raise LaunchError(f"there is no Python interpreter at {interpreter}")
    return str(Path(found).absolute())


def _environment(executable: str, given: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    environment: dict[str, Any] = {**os.environ, **_FIXED, **given, **own}
    removed = _REMOVED if executable == sys.executable else (*_REMOVED, "PYTHONHOME")
    return {name: value for name, value in environment.items() if name not in removed}


def _user_path(executable: str, given: Mapping[str, str]) -> list[str]:
    """Return the user's PYTHONPATH, which their factories may need, as absolute paths.

    For another interpreter our own installed packages are left out, should PYTHONPATH be the way they are found.
    """
    entries = given.get("PYTHONPATH", os.environ.get("PYTHONPATH", "")).split(os.pathsep)
    folders = [str(Path(entry).absolute()) for entry in entries if entry]
    if executable == sys.executable:
        return folders
    ours = {str(Path(folder).absolute()) for folder in (*site.getsitepackages(), site.getusersitepackages())}
    return [folder for folder in folders if folder not in ours]
