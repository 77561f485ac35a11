"""The limits that a comparison is held to, by dtype. Holds numbers and their sources; compares nothing.

Two limits stand side by side. `linf` is the fixed, absolute tolerance that users ask for by name. `noise_limit` is how
many noise floors (see `floor`) an error may reach before it counts as a real loss; it comes from the calibration in
bench/calibration, whose result is kept in calibration.json and described in docs/calibration.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

_CALIBRATION = Path(__file__).with_name("calibration.json")

# What torch.testing.assert_close allows at values around 1 (PyTorch documentation, table of default rtol and atol),
# which is what most users have seen: float16 rtol 1e-3, bfloat16 rtol 1.6e-2, float32 atol 1e-5, float64 atol 1e-7.
# The 8-bit floats have no default there: one unit in the last place at 1.0 (3 and 2 bits of fraction).
_LINF = {
    "float16": 1e-3,
    "bfloat16": 1.6e-2,
    "float32": 1e-5,
    "float64": 1e-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
}

# Dtypes that no runtime computes on a CPU cannot be calibrated here. Two right results may each be one floor away
# from the truth, on opposite sides; twice that is allowed.
_UNCALIBRATED = {"with_oracle": 4.0, "without_oracle": 4.0}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Limits for floating-point tensors.

    `linf` is the largest |a - b| that is within tolerance. `noise_limit` bounds `error_ratio` where the floor was
    measured against a double-precision oracle, `noise_limit_without_oracle` where only perturbed runs or the dtype
    are known. `guard` matters only where no floor was measured: a difference above this share of the tensor's largest
    value is a loss even within `linf`, which is absolute and blind to tensors of tiny values.
    """

    linf: float
    noise_limit: float
    noise_limit_without_oracle: float
    name: str = ""
    guard: float = 0.01

    def __post_init__(self) -> None:
        for field in ("linf", "noise_limit", "noise_limit_without_oracle", "guard"):
            _require_positive(field, getattr(self, field), finite=field != "guard")


def _require_positive(field: str, value: object, *, finite: bool = True) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{field} must be a number, not {type(value).__name__}")
    if not value > 0 or (finite and not math.isfinite(value)):
        raise ValueError(f"{field} must be a positive finite number, not {value!r}")


def tolerance_for(dtype: str, asked: float | Tolerance | None = None) -> Tolerance:
    """Return the limits for a float dtype by its logical name ("float32", "bfloat16", ...).

    A number replaces the L-infinity limit and keeps the calibrated noise limit; a `Tolerance` replaces both. Raises
    ValueError for a number that is not positive and finite, or a dtype without preset, TypeError for anything else.
    """
    if isinstance(asked, Tolerance):
        return asked
    if asked is None:
        if dtype not in _PRESET_NAMES:
            raise ValueError(f"no tolerance is known for dtype {dtype}; give one, for example tolerance=1e-5")
        return presets()[_PRESET_NAMES[dtype]]
    _require_positive("tolerance", asked)
    base = presets()[_PRESET_NAMES.get(dtype, _PRESET_NAMES["float32"])]
    return replace(base, linf=float(asked), name=f"linf-{asked:g}", guard=math.inf)


_PRESET_NAMES = {
    "float16": "linf-1e-3",
    "bfloat16": "linf-1.6e-2",
    "float32": "linf-1e-5",
    "float64": "linf-1e-7",
    "float8_e4m3fn": "linf-e4m3-ulp",
    "float8_e5m2": "linf-e5m2-ulp",
}


@cache
def presets() -> Mapping[str, Tolerance]:
    """Return the named presets; `linf-1e-5` is the one for float32."""
    limits = json.loads(_CALIBRATION.read_text(encoding="utf-8"))["limits"]
    table = {}
    for dtype, name in _PRESET_NAMES.items():
        limit = limits.get(dtype, _UNCALIBRATED)
        table[name] = Tolerance(_LINF[dtype], limit["with_oracle"], limit["without_oracle"], name)
    return table
