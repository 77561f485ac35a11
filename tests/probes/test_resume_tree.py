"""Copies of plain values, and what differs between two."""

from collections import OrderedDict, deque, namedtuple

import numpy as np
import pytest

from tensoraudit.probes.resume_tree import LARGE, TABLE, copied, differences, digest, is_value, put_in_place

Moments = namedtuple("Moments", "mu nu")


def array(value):
    return value if isinstance(value, np.ndarray) else None


def clone(value):
    return value.copy() if isinstance(value, np.ndarray) else None


def told(a, b):
    return list(differences(a, b, array))


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.0, "x", None, b"y"], 3: (True,)},
        Moments(np.ones(3), {"b": np.zeros((2, 2))}),
        deque([1, 2], maxlen=5),
        OrderedDict(a={1, 2}),
        float("nan"),
        np.float32(3),
    ],
)
def test_a_copy_is_equal_and_shares_nothing(value):
    other = copied(value, clone)
    assert is_value(value, array)
    assert told(value, other) == []
    assert digest(value, array) == digest(other, array)
    assert type(other) is type(value)
    if isinstance(value, Moments):
        other.mu[0] = 7
        assert value.mu[0] == 1 and told(value, other) == ["0: 1 of 3 elements differ"]
    if isinstance(value, deque):
        assert other.maxlen == 5


@pytest.mark.parametrize(
    ("before", "after", "clauses"),
    [
        ({"a": 1}, {"a": 2}, ["a: 1, then 2"]),
        ({"a": {"b": [0.5, 1]}}, {"a": {"b": [0.5, 3]}}, ["a.b.1: 1, then 3"]),
        ({"a": 1}, {"b": 1}, ["a is missing", "b is new"]),
        ({0: 1}, {"0": 1}, ["0 is missing", "0 is new"]),
        ([1, 2], [1], ["value: 2 entries, then 1"]),
        (np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.5, 3.5]), ["value: 2 of 3 elements differ"]),
        (np.zeros(2, np.float32), np.zeros(2), ["value: float32[2], then float64[2]"]),
        (np.zeros(1), np.array([-0.0]), ["value: 0.0, then -0.0"]),
        (np.array(3.0), 3, []),
        (3, np.int64(3), []),
        (np.array([np.nan]), np.array([np.nan]), []),
        (float("nan"), float("nan"), []),
        ((1, 2), [1, 2], []),
        ("a" * 100, "b", [f"value: '{'a' * 56}..., then 'b'"]),
    ],
)
def test_differences_name_the_leaf(before, after, clauses):
    assert told(before, after) == clauses
    if not isinstance(before, (int, np.ndarray)) and clauses and not isinstance(before, tuple):
        assert digest(before, array) != digest(after, array)


def test_what_cannot_be_compared_differs():
    class Odd:
        def __eq__(self, other):
            raise RuntimeError

        __hash__ = None

    assert len(told(Odd(), Odd())) == 1


def test_long_tables_and_large_arrays_are_data():
    assert not is_value(list(range(TABLE + 1)), array)
    assert not is_value(np.broadcast_to(np.float64(0), (LARGE // 8 + 1,)), array)
    assert not is_value({"a": object()}, array)
    deep = []
    for _ in range(40):
        deep = [deep]
    assert not is_value(deep, array)


def test_containers_are_given_back_in_place():
    for old, new in (
        ({"a": 1}, {"b": 2}),
        ([1], [2, 3]),
        (deque([1]), deque([2])),
        ({1}, {2}),
        (np.zeros(2), np.ones(2)),
    ):
        assert put_in_place(old, new)
        assert told(old, new) == [] or old == new
    assert not put_in_place(np.zeros(2), np.zeros(3))
    assert not put_in_place((1,), (2,))
    assert not put_in_place(1, 2)
