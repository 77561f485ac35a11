"""Run every benchmark, each in a process of its own, and print its figures."""

import subprocess
import sys
from pathlib import Path

BENCHMARKS = (
    "startup.py",
    "compare_tensors.py",
    "rules_engine.py",
    "rules_source.py",
    "localise.py",
    "localise_by_value.py",
    "lint.py",
    "scan.py",
    "checkpoint_headers.py",
    "checkpoint_values.py",
    "four_frameworks.py",
)

for name in BENCHMARKS:
    print(f"{name}", flush=True)
    subprocess.run([sys.executable, Path(__file__).parent / name], check=True)
