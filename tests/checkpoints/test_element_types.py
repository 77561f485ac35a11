"""Small floats against ml_dtypes by way of torch, code by code; rounding against torch's own casts."""

import numpy as np
import pytest

from tensoraudit.checkpoints.element_types import element_type, narrow
from tensoraudit.checkpoints.precision import narrower, narrows, widens

torch = pytest.importorskip("torch")
EVERY_BYTE = np.arange(256, dtype=np.uint8)


@pytest.mark.parametrize(
    "name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]
)
def test_every_code_of_a_small_float(name):
    expected = torch.from_numpy(EVERY_BYTE.copy()).view(getattr(torch, name)).to(torch.float32).numpy()
    found = element_type(name).widen(EVERY_BYTE)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.float32


def test_four_bit_float_has_the_numbers_of_the_standard():
    found = element_type("float4_e2m1fn").widen(np.arange(16, dtype=np.uint8))
    positive = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    np.testing.assert_array_equal(found, [*positive, *(-each for each in positive)])


def test_every_bfloat16_is_widened_exactly():
    words = np.arange(1 << 16, dtype=np.uint16)
    expected = torch.from_numpy(words.view(np.int16)).view(torch.bfloat16).to(torch.float32).numpy()
    np.testing.assert_array_equal(element_type("bfloat16").widen(words), expected)


@pytest.mark.parametrize("count", [0, 0x400, 0x7C00, 0x8000, 0xFC00, 1 << 16])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_widening_into_memory_of_the_caller_is_the_same(name, count):
    """With subnormal numbers alone, with infinities and NaN, and with none of them."""
    kind = element_type(name)
    words = np.arange(count, dtype=np.uint16).view(kind.word)
    into = np.full(count, 7.0, np.float32)
    found = kind.widen_into(words, into)
    assert found is into
    expected = kind.widen(words).astype(np.float32)
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


def test_rounding_to_bfloat16_is_torchs():
    bits = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16, dtype=np.uint32)
    ties = (bits & 0xFFFF0000) | 0x8000
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, 1e-40, 1e-45], np.float32)
    values = np.concatenate([bits.view(np.float32), ties.view(np.float32), special])
    expected = torch.from_numpy(values.copy()).to(torch.bfloat16)
    found = element_type("bfloat16").widen(narrow(values, "bfloat16"))
    np.testing.assert_array_equal(found, expected.to(torch.float32).numpy())


def test_rounding_to_float16_flushes_and_overflows():
    found = narrow(np.array([70000.0, 1e-9, 1.0005], np.float32), "float16")
    assert found.tolist() == [np.inf, 0.0, 1.0009765625] or found.tolist() == [np.inf, 0.0, 1.0]
    assert found[2] == torch.tensor(1.0005).half().item()


def test_what_is_not_rounded_to():
    assert narrow(np.ones(3, np.float32), "float8_e4m3fn") is None
    assert narrow(np.ones(3, np.float32), "int8") is None


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("float32", "bfloat16", True),
        ("bfloat16", "float32", False),
        ("bfloat16", "float16", True),
        ("float16", "bfloat16", True),
        ("float64", "float32", True),
        ("int64", "int32", True),
        ("int64", "float32", True),
        ("int8", "float32", False),
        ("uint8", "int8", True),
        ("int8", "uint8", True),
        ("bool", "uint8", False),
        ("float32", "float32", False),
        ("float32", "object", False),
        ("complex128", "complex64", True),
        ("complex64", "complex128", False),
        ("complex64", "float32", True),
        ("float32", "complex64", False),
        ("float64", "complex64", True),
    ],
)
def test_narrowing(a, b, expected):
    assert narrows(a, b) is expected


def test_widening():
    assert widens("float16", "float32") and widens("float32", "complex64") and widens("bool", "uint8")
    assert not widens("float32", "float16") and not widens("float16", "bfloat16") and not widens("float32", "float32")
    assert not widens("float32", "object") and not widens("object", "float32")


def test_the_narrower_type():
    assert narrower("float32", "bfloat16") == narrower("bfloat16", "float32") == "bfloat16"
    assert narrower("int64", "float32") == "int64"
