"""Time and memory of comparing two large float32 tensors, as ratios to numpy.allclose within one run.

    python bench/compare_tensors.py [MEBIBYTES] [ROUNDS]

Rounds alternate between the contestants, so that a busy machine slows all of them alike; the ratio of each round and
the median of the ratios are printed. Extra memory is what tracemalloc sees above the two tensors.
"""

from __future__ import annotations

import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from tensoraudit.equivalence.comparison import compare_arrays
from tensoraudit.equivalence.metrics import measure


def main() -> None:
    mebibytes = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    rng = np.random.default_rng(0)
    a = rng.standard_normal((mebibytes << 8, 1024), dtype=np.float32)
    b = a + np.float32(1e-7) * rng.standard_normal(a.shape, dtype=np.float32)
    contestants: dict[str, Callable[[], object]] = {
        "all cheap metrics (measure)": lambda: measure(a, b),
        "with verdict (compare_arrays)": lambda: compare_arrays({"y": a}, {"y": b}),
    }
    print(f"two float32 tensors of {mebibytes} MiB, {rounds} rounds")
    ratios: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        baseline = _seconds(lambda: np.allclose(a, b))
        for name, run in contestants.items():
            ratios[name].append(_seconds(run) / baseline)
    for name, values in ratios.items():
        spread = ", ".join(f"{value:.2f}" for value in values)
        print(f"  {name}: {statistics.median(values):.2f} x numpy.allclose (limit 2; rounds {spread})")
    for name, run in contestants.items():
        print(f"  {name}: {_extra_memory(run) / 2**20:.2f} MiB extra (limit 64)")
    print(f"  numpy.allclose: {_extra_memory(lambda: np.allclose(a, b)) / 2**20:.2f} MiB extra")


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _extra_memory(run: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


if __name__ == "__main__":
    main()
