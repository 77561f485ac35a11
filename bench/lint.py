"""`tensoraudit lint` of 200,000 lines of installed packages: cold, and again when nothing has changed.

Both are whole processes, start of Python included. Where there is a second processor a copy of the process reads half
of the files; on one processor everything is done by one. The files are copied, because installed packages are left
out of folders; `__init__.py` files are always copied, so that modules keep their names.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("torch", "transformers", "onnxscript", "numpy")
LINES = 200_000
ALL = os.sched_getaffinity(0)
RUNS: tuple[tuple[str, int, list[str]], ...] = (
    ("cold, one processor", 1, ["--no-cache"]),
    ("cold, not kept", 2, ["--no-cache"]),
    ("cold", 2, []),
    ("warm", 2, []),
    ("warm again", 2, []),
)
"""Label, processors, and options of each run."""


def modules() -> Iterator[tuple[Path, Path]]:
    """Yield the source files of the packages that are installed, with their paths below site-packages."""
    for name in PACKAGES:
        spec = find_spec(name)
        for folder in (Path(place) for place in (spec and spec.submodule_search_locations) or ()):
            yield from ((path, path.relative_to(folder.parent)) for path in sorted(folder.rglob("*.py")))


def copy_lines(folder: Path, wanted: int) -> tuple[int, int]:
    """Copy modules until `wanted` lines are there; return files and lines."""
    files = lines = 0
    for path, name in modules():
        count = path.read_bytes().count(b"\n")
        if lines + count > wanted or path.stat().st_size > 1 << 20:
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        files, lines = files + 1, lines + count
    return files, lines


def lint(folder: Path, *options: str) -> tuple[float, float, bytes]:
    """Run the command; return its wall time, its processor time in seconds, and its report."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "tensoraudit", "lint", "package", "--report", "markdown", "--fail-on", "never"]
    done = subprocess.run([*command, *options], cwd=folder, env=environment(folder), capture_output=True, check=True)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def environment(folder: Path) -> dict[str, str]:
    """The environment with a cache of this run's own, and compiled modules as an installed package has them."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "XDG_CACHE_HOME": str(folder / "cache")}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=LINES)
    wanted = parser.parse_args().lines
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files, lines = copy_lines(folder / "package", wanted)
        print(f"{files} files, {lines} lines; load {os.getloadavg()[0]:.1f}")
        reports = {}
        for label, processors, options in RUNS:
            os.sched_setaffinity(0, sorted(ALL)[:processors])
            wall, processor, reports[label] = lint(folder, *options)
            print(f"{label:24} {wall:6.2f} s wall, {processor:6.2f} s processor")
        kept = sum(path.stat().st_size for path in (folder / "cache").rglob("*.json"))
        same = len(set(reports.values())) == 1
        print(f"cache {kept / 1e6:.2f} MB; the reports are {'the same' if same else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
