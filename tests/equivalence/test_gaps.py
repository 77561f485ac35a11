"""How far two numbers are apart, against fractions of whole numbers, which know no rounding."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tensoraudit.equivalence.gaps import agree, gaps, magnitudes

NEAR = [sign * 2**power + step for power in (24, 53, 60, 62, 63) for step in range(-3, 4) for sign in (1, -1)]


def integers(name: str) -> np.ndarray:
    span = np.iinfo(name)
    return np.array([each for each in (*NEAR, 0, 1, -1, span.min, span.max) if span.min <= each <= span.max], name)


def numbers(name: str) -> np.ndarray:
    if "int" in name:
        return integers(name)
    close = -1 - 2.0 ** -np.arange(0, 52, 7)
    return np.concatenate([integers("int64").astype(name), integers("uint64").astype(name), close.astype(name)])


@pytest.mark.parametrize("one", ["int64", "uint64", "int32", "int8"])
@pytest.mark.parametrize("other", ["int64", "uint64", "int8", "float32", "float64"])
def test_integers_are_exact_beside_any_number(one: str, other: str) -> None:
    x, y = (side.reshape(-1) for side in np.meshgrid(integers(one), numbers(other)))
    for a, b, found in zip(x, y, gaps(x, y), strict=True):
        exact = abs(Fraction(a.item()) - Fraction(b.item()))
        assert (found == 0) == (exact == 0)
        assert abs(Fraction(float(found)) - exact) <= exact * Fraction(1, 2**52)


def test_complex_numbers_are_apart_by_a_magnitude() -> None:
    x = np.array([3 + 4j, 2**53 + 2j, 1], np.complex128)
    assert gaps(x, np.array([0, 2**53 + 1, 1])).tolist() == [5.0, pytest.approx(5**0.5), 0.0]
    assert magnitudes(x.astype(np.complex64)).tolist()[::2] == [5.0, 1.0]
    assert gaps(np.array([1e308 + 1e308j]), np.zeros(1)).tolist() == [np.hypot(1e308, 1e308)]


def test_what_is_not_finite_agrees_with_itself_alone() -> None:
    values = np.array([np.inf, -np.inf, np.nan, 1.0])
    assert agree(values, values, 0.0).all()
    assert agree(values[:, None], values[None, :], 0.0).sum() == 4
    mixed = np.array([complex(np.nan, 1), complex(np.inf, 1), complex(1, np.nan)])
    assert agree(mixed, mixed, 0.0).all()
    assert not agree(mixed, np.array([complex(np.nan, 2), complex(-np.inf, 1), complex(np.nan, 1)]), 0.5).any()


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "c8", "c16", "i8", "u8"])
def test_no_bits_make_a_warning(kind: str) -> None:
    draw = np.random.default_rng(8)
    x, y = (draw.integers(0, 256, 1 << 12, np.uint8).view(kind) for _ in range(2))
    for other in (y, np.zeros(x.shape), np.zeros(x.shape, np.int64)):
        assert gaps(x, other).shape == agree(x, other, 1.0).shape == magnitudes(x).shape
