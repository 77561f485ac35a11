"""What the values of pairs of any two types say: complex beside real numbers, integers beside floats, hostile bits."""

from itertools import product

import numpy as np
import pytest

from tensoraudit.checkpoints.diff import diff_checkpoints
from tensoraudit.checkpoints.schema import Entry, Part, StoredCheckpoint

TYPES = [
    *("complex64", "complex128", "bool", "int8", "uint8", "int32", "int64", "uint16", "uint64", "float16", "bfloat16"),
    *("float32", "float64", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"),
]


@pytest.fixture
def settled(tmp_path):
    def settle(one, other, names=None, mapping=None):
        sides = []
        for number, array in enumerate((one, other)):
            file = tmp_path / str(number)
            file.write_bytes(np.ascontiguousarray(array).tobytes())
            name = names[number] if names else array.dtype.name
            entry = Entry("w", name, array.shape, (Part(file.name, 0, array.nbytes),))
            sides.append(StoredCheckpoint(file, tmp_path, "raw", "numpy", (file.name,), (entry,)))
        return diff_checkpoints(*sides, values=True, mapping=mapping).pairs[0]

    return settle


C = np.array([1 + 1j, 2 - 2j, 3], np.complex64)


@pytest.mark.parametrize("real", ["float16", "float32", "float64", "int8", "int64", "uint64"])
@pytest.mark.parametrize("kind", ["complex64", "complex128"])
def test_an_imaginary_part_that_is_gone_is_a_difference(settled, kind, real):
    numbers = C.astype(kind)
    for sides in ((numbers, numbers.real.astype(real)), (numbers.real.astype(real), numbers)):
        pair = settled(*sides)
        assert (pair.status, pair.verdict, pair.linf) == ("different", "drift", 2.0)
    plain = numbers.real.astype(real)
    for sides in ((plain.astype(kind), plain), (plain, plain.astype(kind))):
        pair = settled(*sides)
        assert (pair.status, pair.linf, pair.loss["to_zero"]) == ("cast", 0.0, 0)


def test_a_small_imaginary_part_is_not_lost_in_a_cast(settled):
    pair = settled(np.array([1 + 1e-7j, 2]), np.array([1.0, 2.0]))
    assert (pair.status, pair.linf) == ("different", 1e-7)


def test_one_part_that_became_zero_is_no_element_that_did(settled):
    pair = settled(C, np.array([1 + 1j, 2, 3], np.complex128))
    assert (pair.status, pair.linf, pair.loss["to_zero"]) == ("different", 2.0, 0)


def test_real_parts_that_are_turned_are_no_turned_tensor(settled):
    draw = np.random.default_rng(1)
    real, one, other = (draw.standard_normal((3, 4)).astype(np.float32) for _ in range(3))
    mixed = (real + 1j * one).astype(np.complex64)
    pair = settled(mixed, (real + 1j * other).astype(np.complex64).T)
    assert (pair.status, pair.linf) == ("different", None)
    pair = settled(mixed, mixed.T)
    assert (pair.status, pair.permutation, pair.linf) == ("permuted", (1, 0), 0.0)
    pair = settled(mixed.astype(np.complex128) / 3, (mixed.T.astype(np.complex128) / 3).astype(np.complex64))
    assert (pair.status, pair.permutation, pair.verdict) == ("permuted", (1, 0), "equivalent")


def test_flipped_complex_kernels_are_found(settled):
    kernel = np.arange(24).reshape(2, 3, 4) * (1 + 2j)
    assert "the same after reverse" in settled(kernel, kernel[::-1]).note
    assert settled(kernel, kernel[::-1].conj()).status == "different"


@pytest.mark.parametrize(("value", "words"), [(np.nan, "NaN"), (np.inf, "infinite"), (-np.inf, "infinite")])
def test_what_is_planted_on_one_side_is_named(settled, value, words):
    weights = np.arange(4, dtype=np.float32)
    planted = weights.copy()
    planted[1] = value
    for sides in ((weights, planted), (planted, weights)):
        pair = settled(*sides)
        assert (pair.status, pair.verdict, pair.linf) == ("different", "break", None)
        assert pair.note == f"1 of 4 values are {words} on one side alone, the others are equal"


def test_what_overflows_in_a_cast_is_a_loss_with_a_number(settled):
    values = np.array([1e5, 2049.0, 1.0], np.float32)
    with np.errstate(over="ignore"):
        pair = settled(values, values.astype(np.float16))
    assert (pair.status, pair.linf, pair.loss["to_inf"]) == ("cast", 1.0, 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [("int64", "float64"), ("uint64", "float64"), ("int64", "float32"), ("int32", "float32"), ("uint32", "float32")],
)
def test_an_integer_that_is_rounded_lost_its_value(settled, one, other):
    digits = 24 if other == "float32" else 53
    ids = np.array([2**digits + 1, 7], one)
    for sides in ((ids, ids.astype(other)), (ids.astype(other), ids)):
        pair = settled(*sides)
        assert (pair.status, pair.linf, pair.loss["changed"]) == ("cast", 1.0, 1)
    pair = settled(ids[1:], ids[1:].astype(other))
    assert (pair.status, pair.linf) == ("cast", 0.0) and "changed" not in pair.loss


def test_integers_of_two_kinds_are_compared_as_integers(settled):
    ids = np.array([2**63 - 1, 7])
    assert settled(ids, ids.astype(np.uint64)).status == "cast"
    pair = settled(ids, ids.astype(np.uint64) + np.array([1, 0], np.uint64))
    assert (pair.status, pair.verdict, pair.linf) == ("different", "break", 1.0)


def test_turned_integers_that_are_rounded_lost_their_values(settled):
    ids = np.arange(12).reshape(3, 4) + 2**53
    pair = settled(ids, ids.T.astype(np.float64))
    assert (pair.status, pair.permutation, pair.linf, pair.loss["changed"]) == ("permuted", (1, 0), 1.0, 6)
    pair = settled(ids.reshape(2, 3, 2), ids.reshape(2, 3, 2)[::-1].astype(np.float64))
    assert (pair.status, pair.verdict, pair.linf) == ("different", "drift", 7.0)
    moved = (ids + 4).astype(np.float64)
    assert (settled(ids, moved).status, settled(ids, moved).verdict) == ("different", "drift")


@pytest.mark.parametrize("seed", range(3))
def test_no_bits_of_any_two_types_make_a_warning_or_a_break_by_zero(settled, seed):
    draw = np.random.default_rng(seed)
    for one, other in product(TYPES, TYPES):
        sizes = [np.dtype(name).itemsize if "float8" not in name and name != "bfloat16" else 0 for name in (one, other)]
        kinds = [
            f"V{size}" if size else ("u1" if "8" in name else "u2")
            for size, name in zip(sizes, (one, other), strict=True)
        ]
        arrays = [draw.integers(0, 256, 12 * np.dtype(kind).itemsize, np.uint8).view(kind) for kind in kinds]
        for shape in ((3, 4), (4, 3), (12,)):
            pair = settled(arrays[0].reshape(3, 4), arrays[1].reshape(shape), (one, other))
            assert pair.status != "unread"
            assert not (pair.verdict == "break" and pair.linf == 0.0)
