"""Inputs in the dtypes that a reference really computes with."""

import numpy as np
import pytest

from tensoraudit.audit.narrowing import narrow
from tensoraudit.errors import InputError

DTYPES = {"int64": "int32", "uint64": "uint32", "float64": "float32"}


def test_wide_arrays_are_cast_and_said_once():
    samples = [{"ids": np.array([1, -2]), "x": np.ones(2, np.float32)}, {"ids": np.array([3]), "x": np.ones(1)}]
    cast, notes = narrow(samples, DTYPES)
    assert [each["ids"].dtype for each in cast] == [np.int32, np.int32]
    assert [each["x"].dtype for each in cast] == [np.float32, np.float32]
    assert cast[0]["ids"].tolist() == [1, -2]
    assert [note.split(",")[0] for note in notes] == ["ids is int64", "x is float64"]


def test_nothing_to_narrow_changes_nothing():
    sample = {"ids": np.array([2**40]), "n": {"value": 3}}
    cast, notes = narrow([sample], {})
    assert cast[0]["ids"] is sample["ids"] and cast[0]["n"] == {"value": 3} and notes == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.array([0, 2**31]), "holds 2147483648, which int32"),
        (np.array([-(2**31) - 1, 5]), "holds -2147483649, which int32"),
        (np.array([2**33], np.uint64), "holds 8589934592, which uint32"),
    ],
)
def test_a_number_that_does_not_fit_is_refused(values, said):
    with pytest.raises(InputError, match=said):
        narrow([{"ids": values}], DTYPES)


@pytest.mark.parametrize("values", [np.array([2**31 - 1, -(2**31)]), np.array([], np.int64)])
def test_the_limits_themselves_fit(values):
    cast, _ = narrow([{"ids": values}], DTYPES)
    assert np.array_equal(cast[0]["ids"], values)
