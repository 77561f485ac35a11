"""Choose the noise limit of each dtype from right and wrong migrations, and publish what it costs.

    python bench/calibration/calibrate.py                        all dtypes, 8 seeds; rewrites the table and the page
    python bench/calibration/calibrate.py --dtype float32 --seeds 2 --only 'lstm|resize' --json -    measure only

Writes src/tensoraudit/equivalence/calibration.json (what the comparator reads) and docs/calibration.md (what people
read).

How a limit is chosen. Every case and seed gives one error ratio. A limit has a false-alarm rate, the share of right
runs above it, and a miss rate, the share of wrong runs at or below it. The limit with the smallest sum of the two
wins. Among equals the smallest that is at least twice the largest right ratio is taken, or else the middle one.
Limits under 2 are not considered: two right computations may each be one floor away from the truth, on opposite sides.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from cases import RIGHT, WRONG, NoFaultError
from measure import Measured, run

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "src/tensoraudit/equivalence/calibration.json"
PAGE = ROOT / "docs/calibration.md"
DTYPES = ("float16", "float32", "float64")
LIMITS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64, 128, 256, 512, 1024, 4096)
_HEAD = """\
# Calibration of the noise limit

<!-- written by bench/calibration/calibrate.py; do not edit -->

How many noise floors may an error reach before it is a real loss? Right and wrong migrations were run from PyTorch to
ONNX Runtime on a CPU, {seeds} seeds each ({versions}).
A *false alarm* is a right run above the limit, a *miss* a wrong run at or below it. The limit with the smallest sum is
used; how equals are broken stands in `bench/calibration/calibrate.py`, the cases in `bench/calibration/cases.py`.

Not every wrong case can be seen in its output: one weight that is off by a thousandth, or a float16 model with another
epsilon, may move the result by less than one rounding does. Such misses are counted all the same. Not every right case
is a clean one either: ONNX Runtime adds up long reductions less carefully than PyTorch does, and that is a loss.

bfloat16 and the 8-bit floats cannot be calibrated on a CPU; they use a limit of 4."""
KINDS = {"with_oracle": "ratio", "without_oracle": "ratio_without_oracle"}


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(1)
    results = {dtype: measure_all(dtype, arguments.seeds, arguments.only) for dtype in arguments.dtype}
    if arguments.json:
        text = json.dumps({dtype: [asdict(m) for m in measured] for dtype, (measured, _) in results.items()}, indent=1)
        print(text) if arguments.json == "-" else Path(arguments.json).write_text(text + "\n", encoding="utf-8")
        return
    if set(arguments.dtype) != set(DTYPES) or arguments.only != ".":
        sys.exit("only a run over all dtypes and cases may rewrite the table; add --json - to look at a part")
    table = {dtype: summary(measured) for dtype, (measured, _) in results.items()}
    TABLE.write_text(json.dumps(calibration(table, arguments.seeds), indent=2) + "\n", encoding="utf-8")
    skipped = {dtype: skips for dtype, (_, skips) in results.items()}
    measured_by_dtype = {dtype: measured for dtype, (measured, _) in results.items()}
    PAGE.write_text(page(table, measured_by_dtype, skipped, arguments.seeds), encoding="utf-8")
    print(f"wrote {TABLE.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", nargs="+", default=list(DTYPES), choices=DTYPES)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--only", default=".", help="regular expression over case names")
    parser.add_argument("--json", default="", help="write the raw measurements to this file (- for standard output)")
    return parser.parse_args()


def measure_all(dtype: str, seeds: int, only: str) -> tuple[list[Measured], dict[str, str]]:
    """Return the measurements and, for cases that cannot run in this dtype, the reason."""
    measured: list[Measured] = []
    skipped: dict[str, str] = {}
    for case in (*RIGHT, *WRONG):
        if not re.search(only, case.name):
            continue
        try:
            measured += [run(case, dtype, seed) for seed in range(seeds)]
        except NoFaultError:
            skipped[case.name] = "the fault changes nothing in this dtype"
        except Exception as error:
            if "NOT_IMPLEMENTED" not in str(error) and "does not support double" not in str(error):
                raise
            operator = re.search(r"implementation for (\w+)|(\w+) operator does not", str(error))
            name = next(filter(None, operator.groups())) if operator else "an operator"
            skipped[case.name] = f"ONNX Runtime has no CPU kernel of {name} for it"
        print(f"{dtype} {case.name}", file=sys.stderr)
    return measured, skipped


def rates(measured: Sequence[Measured], kind: str, limit: float) -> tuple[float, float]:
    """Return the false-alarm rate and the miss rate that a limit gives."""
    right = [getattr(m, KINDS[kind]) for m in measured if m.right]
    wrong = [getattr(m, KINDS[kind]) for m in measured if not m.right]
    return sum(r > limit for r in right) / len(right), sum(r <= limit for r in wrong) / len(wrong)


def choose(measured: Sequence[Measured], kind: str) -> float:
    """Return the limit by the rule in the module's docstring."""
    costs = {limit: round(sum(rates(measured, kind, limit)), 9) for limit in LIMITS}
    best = [limit for limit in LIMITS if costs[limit] == min(costs.values())]
    largest = max(getattr(m, KINDS[kind]) for m in measured if m.right)
    return next((limit for limit in best if limit >= 2 * largest), best[len(best) // 2])


def summary(measured: Sequence[Measured]) -> dict[str, Any]:
    """Return, for each kind of floor, the chosen limit and the rates of every limit."""
    return {
        kind: {
            "limit": choose(measured, kind),
            "rates": {limit: rates(measured, kind, limit) for limit in LIMITS},
            "right": sum(m.right for m in measured),
            "wrong": sum(not m.right for m in measured),
        }
        for kind in KINDS
    }


def calibration(table: dict[str, Any], seeds: int) -> dict[str, Any]:
    """Return what the comparator reads: limits, with their rates and the versions that they were measured with."""
    return {
        "limits": {dtype: {kind: float(table[dtype][kind]["limit"]) for kind in KINDS} for dtype in table},
        "rates": {
            dtype: {
                kind: dict(
                    zip(
                        ("false_alarm", "miss"),
                        (round(rate, 4) for rate in table[dtype][kind]["rates"][table[dtype][kind]["limit"]]),
                        strict=True,
                    )
                )
                for kind in KINDS
            }
            for dtype in table
        },
        "measured_with": _versions() | {"seeds": seeds},
    }


def _versions() -> dict[str, Any]:
    return {
        "torch": torch.__version__,
        "onnxruntime": onnxruntime.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
    }


def page(
    table: dict[str, Any], measured: dict[str, list[Measured]], skipped: dict[str, dict[str, str]], seeds: int
) -> str:
    """Return docs/calibration.md."""
    versions = ", ".join(f"{name} {version}" for name, version in _versions().items())
    lines = [*_HEAD.format(seeds=seeds, versions=versions).splitlines(), ""]
    for dtype, summarised in table.items():
        lines += _dtype_section(dtype, summarised, measured[dtype], skipped[dtype])
    return "\n".join(lines)


def _dtype_section(
    dtype: str, table: dict[str, Any], measured: Sequence[Measured], skipped: dict[str, str]
) -> list[str]:
    chosen = {kind: table[kind]["limit"] for kind in KINDS}
    lines = [f"## {dtype}", ""]
    lines += [f"Limit **{chosen['with_oracle']}** with an oracle, **{chosen['without_oracle']}** without one.", ""]
    lines += [
        f"| limit | false alarms, oracle (of {table['with_oracle']['right']}) | misses, oracle (of "
        f"{table['with_oracle']['wrong']}) | false alarms, no oracle | misses, no oracle |",
        "| --- | --- | --- | --- | --- |",
    ]
    for limit in LIMITS:
        cells = [f"{rate:.1%}" for kind in KINDS for rate in table[kind]["rates"][limit]]
        lines.append(f"| {limit} | {' | '.join(cells)} |")
    lines += ["", "| case | L-infinity | ratio, oracle | ratio, no oracle |", "| --- | --- | --- | --- |"]
    for name in dict.fromkeys(m.case for m in measured):
        runs = [m for m in measured if m.case == name]
        kind = "right" if runs[0].right else "**wrong**"
        spans = [_span([getattr(m, field) for m in runs]) for field in ("linf", "ratio", "ratio_without_oracle")]
        lines.append(f"| {kind}: {name} | {' | '.join(spans)} |")
    for reason in dict.fromkeys(skipped.values()):
        names = "; ".join(name for name, why in skipped.items() if why == reason)
        lines += ["", f"Not run, because {reason}: {names}."]
    return [*lines, ""]


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.3g} .. {max(values):.3g}"


if __name__ == "__main__":
    main()
