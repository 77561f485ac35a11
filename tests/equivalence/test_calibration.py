"""The table in the description of the comparator, measured again: PyTorch against ONNX Runtime on this machine.

Runs in a process of its own, because the frameworks are heavy and warn when they are imported.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tensoraudit.equivalence.tolerance import tolerance_for

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 3

# Case: the smallest and largest error ratio that may come out. Right ones were 0.4 .. 1.9 with other sizes and weights,
# wrong ones from 11.5 (LayerNorm) to 1e6; the bounds leave a factor of about two for other machines.
RIGHT = {
    "conv-bn-relu x 12": (0.1, 4.0),
    "transformer x 4": (0.1, 4.0),
    "lstm 2 layers, 50 steps": (0.3, 4.0),
    "bilinear resize to 300": (0.2, 4.0),
}
WRONG = {
    "batch norm eps 1e-3 for 1e-5": (700, 3e4),
    "gelu tanh for erf": (90, 700),
    "layer norm eps 1e-6 for 1e-5": (8.0, 40),
    "align_corners swapped": (2e5, 1e8),
    "weights through fp16, conv": (100, 3e3),
    "weights through fp16, transformer": (100, 3e3),
}


@pytest.fixture(scope="module")
def measured() -> dict[str, list[dict[str, Any]]]:
    names = "|".join(name.replace("(", r"\(") for name in (*RIGHT, *WRONG))
    command = [sys.executable, "bench/calibration/calibrate.py", "--dtype", "float32", "--seeds", str(SEEDS)]
    done = subprocess.run(
        [*command, "--only", f"^({names})$", "--json", "-"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    runs = json.loads(done.stdout)["float32"]
    return {name: [run for run in runs if run["case"] == name] for name in (*RIGHT, *WRONG)}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*RIGHT, *WRONG])
def test_the_ratio_separates_right_from_wrong(name: str, measured: dict[str, list[dict[str, Any]]]) -> None:
    limit = tolerance_for("float32").noise_limit
    low, high = (RIGHT | WRONG)[name]
    ratios = [run["ratio"] for run in measured[name]]
    assert len(ratios) == SEEDS
    assert low <= min(ratios)
    assert max(ratios) <= high
    assert all((ratio > limit) == (name in WRONG) for ratio in ratios)


@pytest.mark.slow
def test_a_fixed_tolerance_does_not(measured: dict[str, list[dict[str, Any]]]) -> None:
    """The right resize is over 1e-5, and the wrong LayerNorm hardly is: no fixed limit tells the two apart."""
    resize = [run["linf"] for run in measured["bilinear resize to 300"]]
    norm = [run["linf"] for run in measured["layer norm eps 1e-6 for 1e-5"]]
    assert min(resize) > 1e-5
    assert max(resize) > max(norm)


def test_the_page_shows_what_the_table_holds() -> None:
    page = (ROOT / "docs/calibration.md").read_text(encoding="utf-8")
    for dtype in ("float16", "float32", "float64"):
        found = tolerance_for(dtype)
        section = page.split(f"## {dtype}\n")[1].split("\n## ")[0]
        assert f"Limit **{found.noise_limit:g}** with an oracle" in section
        assert f"**{found.noise_limit_without_oracle:g}** without one" in section
