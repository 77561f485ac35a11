"""What a cast lost, in float32 and block by block, against float64 over the whole."""

import numpy as np
import pytest

from tensoraudit.checkpoints.verdicts import Tally
from tensoraudit.checkpoints.workspace import STEP

SIZE = 2 * STEP + 77


def weights(scale):
    values = np.random.default_rng(5).standard_normal(SIZE).astype(np.float32) * np.float32(scale)
    values[::1_000] = 0.0
    return values


@pytest.mark.parametrize("scale", [3e-9, 1e-4, 0.02, 1.0, 300.0])
@pytest.mark.parametrize("narrow_first", [False, True])
def test_loss_is_that_of_double_precision(scale, narrow_first):
    values = weights(scale)
    sides = values, values.astype(np.float16).astype(np.float32)
    a, b = sides[::-1] if narrow_first else sides
    tally = Tally(("float32", "float16"), loss=True)
    tally.add(a, b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    kept = (x != 0) & (y != 0)
    assert tally.distance().linf == np.abs(x - y).max()  # what rounding takes off is exact in float32
    assert tally.distance().largest == np.abs(x).max()
    assert tally.loss.relative == pytest.approx((np.abs(x - y)[kept] / np.abs(x[kept])).max(initial=0.0), rel=2.0**-23)
    assert (tally.loss.to_zero, tally.loss.to_inf) == (np.count_nonzero((x != 0) & (y == 0)), 0)


def test_what_is_not_finite_is_counted_apart():
    a, b = np.full(STEP + 5, 2.0, np.float32), np.full(STEP + 5, 2.5, np.float32)
    a[:4], b[:4] = (np.nan, np.nan, 1e38, np.inf), (np.nan, 1.0, np.inf, np.inf)
    tally = Tally(("float32", "float16"), loss=True)
    tally.add(a, b)
    found = tally.distance()
    assert found.reason == (
        "1 of 131,077 values are NaN on one side alone and 1 infinite on one side alone, the others differ by up to 0.5"
    )
    assert (tally.loss.to_inf, tally.loss.relative, found.linf, found.apart) == (1, 0.25, 0.5, None)


def judged(a, b, *, loss=False):
    a, b = np.asarray(a), np.asarray(b)
    tally = Tally((a.dtype.name, b.dtype.name), loss=loss)
    tally.add(a, b)
    return tally.distance(), tally.loss


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ([1.0, 2.0], [1.0, np.nan], "1 of 2 values are NaN on one side alone, the others are equal"),
        ([np.inf, 2.0], [1.0, 2.0], "1 of 2 values are infinite on one side alone"),
        ([np.inf, 2.0], [-np.inf, 2.0], "1 of 2 values are not finite on either side and not the same"),
        ([complex(np.nan, 1), 2j], [complex(np.nan, 2), 2j], "1 of 2 values are not finite on either side"),
        ([complex(1, np.inf), 2j], [complex(1, 2), 2j], "1 of 2 values are infinite on one side alone"),
        ([1, 2], [1.0, np.nan], "1 of 2 values are NaN on one side alone"),
    ],
)
def test_a_break_by_what_is_not_finite_has_words_and_no_number(a, b, words):
    found, _ = judged(a, b)
    assert (found.verdict, found.apart) == ("break", None) and words in found.reason


def test_the_same_infinities_and_nan_are_no_difference():
    values = [complex(np.nan, 1), complex(np.inf, -np.inf), 1j]
    found, _ = judged(np.array(values, np.complex64), np.array(values, np.complex128))
    assert (found.verdict, found.linf, found.largest) == ("equivalent", 0.0, 1.0)


@pytest.mark.parametrize(
    "kinds", [("complex64", "complex64"), ("complex128", "complex64"), ("complex64", "complex128")]
)
def test_complex_numbers_are_apart_by_the_magnitude_of_their_difference(kinds):
    a, b = np.array([3 + 4j, 1, 2j], kinds[0]), np.array([6 + 8j, 1, 0], kinds[1])
    found, loss = judged(a, b, loss=True)
    assert (found.linf, found.largest) == (5.0, 5.0)  # 3, 4 and 5
    assert (loss.relative, loss.to_zero, loss.to_inf, loss.changed) == (1.0, 1, 0, 0)


def test_a_complex_element_became_zero_only_where_all_of_it_did():
    found, loss = judged(np.array([2 - 2j, 1j]), np.array([2, 1j], np.complex64), loss=True)
    assert (found.linf, loss.to_zero) == (2.0, 0)


REALS = ["bool", "int8", "uint8", "int32", "int64", "uint16", "uint64", "float16", "float32", "float64"]


@pytest.mark.parametrize("real", REALS)
def test_a_real_number_is_a_complex_one_without_imaginary_part(real):
    numbers = np.array([1, 0, 1], real)
    for kind in ("complex64", "complex128"):
        for sides in ((numbers, numbers.astype(kind)), (numbers.astype(kind), numbers)):
            assert judged(*sides)[0].linf == 0.0
        assert judged(numbers.astype(kind) + np.array([0, 0, 3j], kind), numbers)[0].linf == 3.0
        assert judged(numbers, numbers.astype(kind) + np.array([0, 0, 3j], kind))[0].linf == 3.0


def test_limits_of_complex_numbers_are_those_of_their_coarser_parts():
    a = np.full(3, 1 + 1j)
    assert judged(a, a + 3e-6)[0].verdict == "drift"
    assert judged(a, (a + 3e-6).astype(np.complex64))[0].verdict == "equivalent"
    assert judged(a.astype(np.complex64), a + 3e-6)[0].verdict == "equivalent"


@pytest.mark.parametrize(
    ("a", "b", "linf"),
    [
        (np.array([2**53 + 1, 7]), np.array([2.0**53, 7.0]), 1.0),
        (np.array([2.0**53, 7.0]), np.array([2**53 + 1, 7]), 1.0),
        (np.array([2**64 - 1, 7], np.uint64), np.array([2.0**64, 7.0]), 1.0),
        (np.array([2**63 - 1, 7]), np.array([2.0**63, 7.0], np.float32), 1.0),
        (np.array([-(2**62) - 300, 7]), np.array([-(2.0**62), 7.0], np.float32), 300.0),
        (np.array([2**24 + 1, 7], np.int32), np.array([2.0**24, 7.0], np.float32), 1.0),
        (np.array([2**53 + 1, 7]), np.array([2.0**53, 7.0], np.complex128), 1.0),
    ],
)
def test_integers_beside_floats_keep_their_last_digit(a, b, linf):
    found, loss = judged(a, b, loss=True)
    assert (found.linf, loss.changed) == (linf, 0 if b.dtype.kind == "c" else 1)
    assert judged(a[1:], b[1:], loss=True)[1].changed == 0


@pytest.mark.parametrize(
    ("a", "b", "linf"),
    [
        (np.array([2**63 + 5], np.uint64), np.array([2**63 - 1]), 6.0),
        (np.array([2**53 + 1], np.uint64), np.array([2**53]), 1.0),
        (np.array([-1], np.int8), np.array([2**64 - 1], np.uint64), 2.0**64),
    ],
)
def test_integers_of_two_kinds_are_exact(a, b, linf):
    for sides in ((a, b), (b, a)):
        assert (judged(*sides)[0].verdict, judged(*sides)[0].linf) == ("break", linf)
    same = np.array([2**62 + 1])
    assert judged(same, same.astype(np.uint64))[0].verdict == "identical"


def test_a_difference_that_its_type_cannot_hold_is_still_a_number():
    top = np.array([3e38, 1.0], np.float32)
    assert judged(top, -top, loss=True)[0].linf == 2 * float(top[0])


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "c8", "c16"])
def test_no_bits_make_a_warning(kind):
    draw = np.random.default_rng(7)
    sides = [draw.integers(0, 256, 1 << 12, np.uint8).view(kind) for _ in range(2)]
    for number in (*sides, np.arange(sides[0].size), np.arange(sides[0].size, dtype=np.uint64)):
        assert judged(sides[0], number, loss=True)[0].verdict


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool", "complex64"])
def test_two_tallies_together_are_one_of_all(dtype):
    generator = np.random.default_rng(6)
    a, b = (generator.integers(0, 9, 1_000).astype(dtype) for _ in range(2))
    if a.dtype.kind in "fc":
        a[7], b[900] = np.nan, np.inf
    whole, one, other, none = (Tally((dtype, "x"), loss=True) for _ in range(4))
    whole.add(a, b)
    one.add(a[:500], b[:500])
    other.add(a[500:], b[500:])
    none.take(one)
    none.take(other)
    one.take(other)
    assert none.distance() == one.distance() == whole.distance()
    assert none.loss == one.loss == whole.loss
