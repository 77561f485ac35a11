"""One audit of a small CNN to ONNX, TensorFlow and JAX against the slowest of the three chains that it has to run.

    python bench/four_frameworks.py

The other frameworks run in the interpreter that TENSORAUDIT_TF_PYTHON names, by default that of `make test`.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = os.environ.get("TENSORAUDIT_TF_PYTHON") or str(ROOT / ".venv-frameworks/bin/python")
TARGETS = ("onnx", "tensorflow", "jax")


def seconds(command, folder):
    """Wall time of a command. What it cannot do ends the benchmark."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    clock = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} in {folder}:\n{done.stderr[-2000:]}")
    return time.perf_counter() - clock


def main():
    with tempfile.TemporaryDirectory() as folder:
        chains = {}
        for target in TARGETS:
            chains[target] = seconds([PYTHON, ROOT / "bench/chains.py", target, folder], folder)
            print(f"  chain to {target:24s} {chains[target]:6.2f} s", flush=True)
        others = [f"--python={framework}={PYTHON}" for framework in ("tensorflow", "jax")]
        command = [sys.executable, "-m", "tensoraudit", "scan", "bench/cnn.py:make_model", "--quiet", *others]
        audit = seconds([*command, "--target", ",".join(TARGETS), "--report", f"json={folder}/report.json"], folder)
    slowest, together = max(chains.values()), sum(chains.values())
    print(f"  one audit of all                  {audit:6.2f} s   {audit / slowest:.2f}x the slowest chain (limit 1.3x)")
    print(f"  the chains one after the other    {together:6.2f} s   {audit / together:.2f}x; {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
