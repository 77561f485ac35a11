"""Fuzz one reader: `run.py TARGET [options of libFuzzer]`. Ends with 0 when nothing was found.

Seeds are written to a folder of this run; a finding is written to the current folder as `crash-...` or `timeout-...`.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parent))
with atheris.instrument_imports(include=["tensoraudit"]):
    import targets
from seeds import seeds  # the frameworks that write them are not instrumented

DEFAULTS = ("-timeout=20", "-rss_limit_mb=2048", "-max_len=16384")


def main() -> None:
    """Run libFuzzer until it ends by itself or by its options."""
    name, options = sys.argv[1], sys.argv[2:]
    target = targets.TARGETS[name]
    with tempfile.TemporaryDirectory() as corpus, tempfile.TemporaryDirectory() as place:
        for number, content in enumerate(seeds(name)):
            (Path(corpus) / f"seed-{number}").write_bytes(content)
        folder = Path(place)

        def one(data: bytes) -> None:
            with contextlib.suppress(*targets.REFUSALS):
                target(data, folder)

        atheris.Setup([sys.argv[0], *DEFAULTS, *options, corpus], one)
        atheris.Fuzz()


main()
