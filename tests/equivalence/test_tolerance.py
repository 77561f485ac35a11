from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tensoraudit.equivalence import tolerance
from tensoraudit.equivalence.floor import EPS
from tensoraudit.equivalence.tolerance import Tolerance, presets, tolerance_for


def test_the_preset_that_users_ask_for_is_the_default_of_float32() -> None:
    assert tolerance_for("float32") is presets()["linf-1e-5"]
    assert tolerance_for("float32").linf == 1e-5


def test_every_dtype_that_has_a_floor_has_a_preset() -> None:
    for dtype in EPS:
        found = tolerance_for(dtype)
        assert presets()[found.name] is found
        assert found.linf >= EPS[dtype], "a tolerance finer than the dtype would call every rounding a difference"


def test_noise_limits_come_from_the_calibration_in_the_repository() -> None:
    path = Path(tolerance.__file__).with_name("calibration.json")
    limits = json.loads(path.read_text(encoding="utf-8"))["limits"]
    assert set(limits) == {"float16", "float32", "float64"}
    for dtype, limit in limits.items():
        found = tolerance_for(dtype)
        assert (found.noise_limit, found.noise_limit_without_oracle) == (limit["with_oracle"], limit["without_oracle"])
        assert found.noise_limit >= 2


def test_a_number_replaces_the_absolute_limit_only() -> None:
    found = tolerance_for("float64", 1e-3)
    assert (found.linf, found.noise_limit) == (1e-3, tolerance_for("float64").noise_limit)
    assert found.guard == math.inf


def test_a_tolerance_replaces_everything() -> None:
    mine = Tolerance(1.0, 2.0, 3.0)
    assert tolerance_for("float16", mine) is mine


@pytest.mark.parametrize("bad", [0.0, -1e-5, math.nan, math.inf, 0, -1])
def test_a_tolerance_must_be_positive_and_finite(bad: float) -> None:
    with pytest.raises(ValueError, match="positive finite number"):
        tolerance_for("float32", bad)
    with pytest.raises(ValueError, match="positive finite number"):
        Tolerance(bad, 4.0, 4.0)


@pytest.mark.parametrize("bad", [True, "1e-5", [1e-5], 1e-5j])
def test_a_tolerance_must_be_a_number(bad: object) -> None:
    with pytest.raises(TypeError, match="must be a number"):
        tolerance_for("float32", bad)  # type: ignore[arg-type]


def test_an_unknown_dtype_is_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"float4.*tolerance=1e-5"):
        tolerance_for("float4")
