from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tensoraudit.probes.onnxruntime.tensors import MismatchError, element_of, feed, narrow_bfloat16, widen_bfloat16


def test_all_bfloat16_values_agree_with_ml_dtypes_both_ways():
    bits = np.arange(1 << 16, dtype=np.uint16)
    wide = widen_bfloat16(bits)
    assert wide.dtype == np.float32
    expected = bits.view(ml_dtypes.bfloat16).astype(np.float32)
    finite = ~np.isnan(expected)
    assert np.array_equal(wide.view(np.uint32)[finite], expected.view(np.uint32)[finite])
    assert np.isnan(wide[~finite]).all()
    assert np.array_equal(narrow_bfloat16(wide), bits)


@pytest.mark.parametrize(
    ("text", "element"),
    [
        ("tensor(float)", "float32"),
        ("tensor(double)", "float64"),
        ("tensor(bfloat16)", "bfloat16"),
        ("tensor(int64)", "int64"),
        ("tensor(string)", None),
        ("tensor(float8e4m3fn)", None),
        ("tensor(int4)", None),
        ("seq(tensor(float))", None),
        ("optional(tensor(float))", None),
    ],
)
def test_element_types(text, element):
    assert element_of(text) == element


@pytest.mark.parametrize(
    ("wanted", "value", "fits"),
    [
        ("tensor(int64)", 3, True),
        ("tensor(int32)", 3, True),
        ("tensor(float)", 3, False),
        ("tensor(float)", 0.5, True),
        ("tensor(int64)", 0.5, False),
        ("tensor(bool)", True, True),
        ("tensor(int64)", True, False),
        ("tensor(string)", "x", False),
    ],
)
def test_python_scalars_are_never_cast_to_another_kind(bench, wanted, value, fits):
    if fits:
        assert feed("k", wanted, {"value": value}, bench.session).numpy() == value
    else:
        with pytest.raises(MismatchError, match="'k'"):
            feed("k", wanted, {"value": value}, bench.session)
