"""Real source through the rules, beside ruff and torchfix on the same files: lines of installed packages.

    python bench/rules_source.py [--lines 200000] [--torchfix PATH]

Processor seconds of the whole command, children included. torchfix (not needed here otherwise) is looked for on the
PATH; it reads a share of the lines, for it takes minutes, and all are compared by the time for a thousand lines.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from rules_engine import timed

from tensoraudit.extract.python_source import read_python
from tensoraudit.facts import Call
from tensoraudit.facts.store import FactStore
from tensoraudit.language.engine import match_rules
from tensoraudit.language.load import load_rules, rules_folder

PACKAGES = ("transformers", "torch", "onnxscript", "numpy", "networkx")
SHARE = 20
"""torchfix reads one line in twenty."""


def sources() -> Iterator[Path]:
    """Yield the files of the packages that are installed, in the order of their names."""
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            yield from sorted(Path(spec.origin).parent.rglob("*.py"))


def corpus(folder: Path, lines: int) -> tuple[Path, int]:
    """Copy files of at most 5,000 lines until there are `lines`. Returns the folder and how many there are."""
    found = 0
    for number, path in enumerate(sources()):
        size = path.read_bytes().count(b"\n")
        if found < lines and 50 < size < 5_000:
            target = folder / f"part{number % 100}" / f"{path.stem}_{number}.py"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            found += size
    return folder, found


def seconds_of(command: list[str | Path], folder: Path) -> float:
    """Return the processor seconds of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def told(name: str, seconds: float, lines: int, more: str = "") -> None:
    """Print one row."""
    print(
        f"  {name:32s} {seconds:7.2f} s   {1000 * seconds / lines * 1000:8.2f} ms a thousand lines   {more}", flush=True
    )


def ours(folder: Path, lines: int) -> None:
    """Read the source and ask every rule."""
    seconds, read = timed(lambda: read_python([folder], root=folder))
    calls = sum(isinstance(fact, Call) for fact in read.facts)
    told("tensoraudit: read", seconds, lines, f"{len(read.facts)} facts, {calls} calls")
    rules = load_rules([rules_folder()])
    seconds, found = timed(lambda: match_rules(rules, FactStore(read.facts), source="", target=""))
    told(f"tensoraudit: match {len(rules)} rules", seconds, lines, f"{len(found)} matches")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument(
        "--torchfix", default=shutil.which("torchfix"), help="the program; default: the one on the PATH"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as part:
        folder, lines = corpus(Path(whole), options.lines)
        few, some = corpus(Path(part), options.lines // SHARE)
        print(f"{lines} lines of {', '.join(name for name in PACKAGES if find_spec(name))}")
        ours(folder, lines)
        ruff: list[str | Path] = [Path(sys.executable).with_name("ruff"), "check", "--isolated", "--no-cache"]
        told("ruff: every stable rule", seconds_of([*ruff, "--select=ALL", "."], folder), lines)
        if options.torchfix is None:
            print("  torchfix                         not installed")
        else:
            command: list[str | Path] = [Path(options.torchfix).resolve(), "--select=ALL", "--jobs=1", "."]
            told("torchfix: all rules", seconds_of(command, few), some, f"{some} of the lines")
    print(f"  peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB (limit 500 MB)")


if __name__ == "__main__":
    main()
