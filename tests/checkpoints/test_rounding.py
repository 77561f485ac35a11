"""Rounding against torch's own casts: ties, truncation, NaN, infinities, zeros, subnormal numbers, in both orders."""

import numpy as np
import pytest

from tensoraudit.checkpoints.element_types import element_type
from tensoraudit.checkpoints.rounding import Rounding
from tensoraudit.checkpoints.workspace import STEP, Workspace

torch = pytest.importorskip("torch")
NARROW = {"bfloat16": torch.bfloat16, "float16": torch.float16}
EVERY_WORD = np.arange(1 << 16, dtype=np.uint16)


def rounded_by_torch(values, name):
    words = torch.from_numpy(values.copy()).to(NARROW[name]).view(torch.int16).numpy()
    return words.view(element_type(name).word)


def holds(wide, found, name, *, narrow_first=False):
    """What the whole way says, and whether the fast one was enough."""
    types, words = [element_type("float32"), element_type(name)], [wide, found]
    if narrow_first:
        types, words = types[::-1], words[::-1]
    rounding = Rounding(tuple(types), Workspace(2))
    values = [kind.widen(each).astype(np.float32) for kind, each in zip(types, words, strict=True)]
    is_fast = rounding._nearest.explains(values[narrow_first], values[not narrow_first])
    return rounding.holds(tuple(words), tuple(values)), is_fast


def values_near(name):
    """Every number of the narrow type, the middles between neighbours, and what is next to both."""
    with np.errstate(invalid="ignore"):
        numbers = element_type(name).widen(EVERY_WORD.view(element_type(name).word)).astype(np.float32)
        numbers = np.sort(numbers[np.isfinite(numbers)])
        middles = ((numbers[1:].astype(np.float64) + numbers[:-1]) / 2).astype(np.float32)
        middles = np.concatenate([numbers, middles])
        around = [np.nextafter(middles, np.float32(sign * np.inf)) for sign in (1, -1)]
    values = np.concatenate([middles, *around])
    return values[np.isfinite(values)]


@pytest.mark.parametrize("narrow_first", [False, True])
@pytest.mark.parametrize("name", NARROW)
def test_what_torch_rounds_is_rounded_and_one_word_beside_is_not(name, narrow_first):
    values = values_near(name)
    for start in range(0, values.size, STEP):
        part = values[start : start + STEP]
        words = rounded_by_torch(part, name)
        assert holds(part, words, name, narrow_first=narrow_first)[0]
    for number in np.random.default_rng(0).integers(0, values.size, 300):
        one = values[number : number + 1]
        word = rounded_by_torch(one, name).view(np.uint16)
        for other in (word + np.uint16(1), word - np.uint16(1)):
            same = element_type(name).widen(other.view(element_type(name).word)) == element_type(name).widen(
                word.view(element_type(name).word)
            )
            assert holds(one, other.view(element_type(name).word), name, narrow_first=narrow_first)[0] == same.all()


@pytest.mark.parametrize("name", NARROW)
def test_numbers_of_models_are_settled_the_fast_way(name):
    """Ties, zeros of both signs and numbers that are subnormal in float16 are."""
    values = np.random.default_rng(1).standard_normal(STEP).astype(np.float32) * np.float32(1e-3)
    values[:6] = 0.0, -0.0, 1.0 + 2.0**-8, 1.0 + 3 * 2.0**-8, 1.0 + 2.0**-11, 1.0 + 3 * 2.0**-11
    assert holds(values, rounded_by_torch(values, name), name) == (True, True)
    values = -values  # and where the narrow side has the other zero
    words = rounded_by_torch(values, name)
    words[:2] = words[1::-1]
    assert holds(values, words, name) == (True, True)


@pytest.mark.parametrize("name", NARROW)
def test_one_truncated_word_in_a_part_is_seen(name):
    values = np.random.default_rng(2).standard_normal(STEP).astype(np.float32)
    words = rounded_by_torch(values, name)
    up = np.flatnonzero(np.abs(element_type(name).widen(words).astype(np.float32)) > np.abs(values))
    for number in (up[0], up[-1]):
        cut = words.copy()
        cut.view(np.uint16)[number] -= 1
        assert holds(values, cut, name) == (False, False)


@pytest.mark.parametrize("name", NARROW)
def test_a_tie_that_goes_to_the_odd_word_is_no_rounding(name):
    digits = {"bfloat16": 8, "float16": 11}[name]
    ties = np.array([1 + 2.0**-digits, -1 - 2.0**-digits, 1 + 3 * 2.0**-digits], np.float32)
    words = rounded_by_torch(ties, name)
    assert holds(ties, words, name) == (True, True)
    for number, step in enumerate((1, 1, -1)):
        odd = words.copy()
        odd.view(np.int16)[number] += step
        assert holds(ties, odd, name) == (False, False)


def special(*bits):
    return np.array(bits, np.uint32).view(np.float32)


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize(
    "values",
    [
        special(0x7F800000, 0xFF800000),  # infinities
        special(0x7FC00000, 0xFFC00001, 0x7F800001),  # NaN, one next to infinity
        special(0x7F7FFFFF, 0xFF7FFFFF),  # the largest number overflows
        special(0x477FEFFF, 0x477FF000, 0xC77FF000),  # 65519.996 is the last that float16 holds, 65520 the first not
        special(0x00000001, 0x80000001, 0x00008000, 0x00018000, 0x007FFFFF),  # subnormal in float32
        special(0x33000000, 0x33000001, 0x33C00000, 0x387FDFFF, 0x387FF000),  # around the least of float16
    ],
)
def test_special_numbers(name, values):
    words = rounded_by_torch(values, name)
    assert holds(values, words, name)[0]
    assert holds(values, words, name, narrow_first=True)[0]


@pytest.mark.parametrize(("name", "inf"), [("bfloat16", 0x7F80), ("float16", 0x7C00)])
def test_special_numbers_are_not_mixed_up(name, inf):
    words = np.array([inf], np.uint16).view(element_type(name).word)
    nan = np.array([inf + 0x40], np.uint16).view(element_type(name).word)
    for bits in (0x7F800001, 0x7FC00000, 0xFF800000, 0x477FEFFF, 0x3F800000):
        assert not holds(special(bits), words, name)[0]
    for bits in (0x7F800000, 0x3F800000, 0x47800000):
        assert not holds(special(bits), nan, name)[0]
    one = rounded_by_torch(np.ones(1, np.float32), name)
    assert not holds(-np.ones(1, np.float32), one, name)[0]


def test_types_that_nothing_is_rounded_to_here_are_left_to_the_end():
    types = element_type("float32"), element_type("float8_e5m2")
    rounding = Rounding(types, Workspace(2))
    words = np.ones(3, np.float32), np.zeros(3, np.uint8)
    assert rounding.holds(words, words) and not rounding.is_known
    assert Rounding((types[0], element_type("bfloat16")), Workspace(2)).is_known


@pytest.mark.parametrize("narrow_first", [False, True])
@pytest.mark.parametrize(("name", "place"), [("float16", -11), ("bfloat16", -8)])
def test_float64_is_rounded_at_once_or_by_way_of_float32(name, place, narrow_first):
    """A little more than the middle of two numbers, which float32 takes for the middle: up at once, down in two."""
    wide = np.array([1 + 2.0**place + 2.0**-40, 0.1, np.nan])
    twice = rounded_by_torch(wide, name)
    numbers = element_type(name).widen
    assert numbers(twice)[0] == 1.0
    up = twice.view(np.uint16).copy()
    up[0] += 1
    beside = up.copy()
    beside[0] += 1
    rounding = Rounding(sides("float64", name, narrow_first), Workspace(2))
    found = [
        rounding.holds(sides(wide, words.view(twice.dtype), narrow_first), sides(wide, numbers(words), narrow_first))
        for words in (twice, up, beside)
    ]
    assert found == [True, name == "float16", False]


def sides(one, other, turned):
    one, other = (element_type(each) if isinstance(each, str) else each for each in (one, other))
    return (other, one) if turned else (one, other)


def of(first, second):
    """Whether one of two arrays is the other one, rounded."""
    types = element_type(first.dtype.name), element_type(second.dtype.name)
    return Rounding(types, Workspace(2)).holds((first, second), (first, second))


@pytest.mark.parametrize("real", ["float32", "float64", "float16", "int8"])
@pytest.mark.parametrize("kind", ["complex64", "complex128"])
def test_a_complex_side_is_rounded_to_a_real_one_where_it_has_no_imaginary_part(kind, real):
    numbers = np.array([1, 2, 3], real)
    for imaginary, expected in ((0j, True), (-0j, True), (1e-30j, False), (complex(0, np.nan), False)):
        other = numbers.astype(kind)
        other[2] += imaginary
        assert of(other, numbers) == expected and of(numbers, other) == expected


def test_complex_numbers_are_rounded_part_by_part():
    wide = np.array([0.1 + 0.3j, complex(np.nan, 0.1)])
    assert of(wide, wide.astype(np.complex64)) and of(wide.astype(np.complex64), wide)
    assert of(wide[:1].real, wide[:1].real.astype(np.complex64)) and of(
        wide[:1].real.astype(np.complex64), wide[:1].real
    )
    beside = wide.astype(np.complex64)
    beside[0] = complex(beside[0].real, np.nextafter(beside[0].imag, np.float32(1)))
    assert not of(wide, beside)
    beside = wide.astype(np.complex64)
    beside[1] = complex(np.nan, 0.2)
    assert not of(wide, beside)
