"""Pairs of tensors proposed by their values alone."""

import math

import numpy as np
import pytest

from tensoraudit.equivalence.value_alignment import MAX_PARTNERS, Print, Value, distance, propose, read_print


def print_of(array):
    x = np.asarray(array, np.float64)
    return Print(x.size, x.size, float(x.sum()), float((x**2).sum()), float(x.min()), float(x.max()))


def value(name, array, dtype="float32"):
    return Value(name, "op", print=print_of(array), dtype=dtype, shape=np.shape(array), inputs=("x",))


def draw(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape or (4, 5))


def test_a_permuted_copy_is_at_no_distance_and_another_tensor_far():
    a = draw(0)
    assert distance(print_of(a), print_of(a.T)) < 1e-12
    assert distance(print_of(a), print_of(draw(1))) > 0.05
    assert distance(print_of(a), print_of(a.reshape(-1)[:-1])) == math.inf


def test_distance_is_relative_to_the_size_of_the_values():
    a = draw(0)
    assert distance(print_of(1e-6 * a), print_of(1e-6 * a * 1.01)) == pytest.approx(
        distance(print_of(1e6 * a), print_of(1e6 * a * 1.01))
    )


def test_small_noise_still_proposes_and_one_per_cent_does_not():
    a = draw(0, 50, 50)
    noisy, wrong = a + 1e-5 * draw(1, 50, 50), 1.01 * a
    found = propose([value("r", a)], [value("noisy", noisy), value("wrong", wrong)])
    assert found.reference == {"r": ("noisy",)}
    assert found.candidate == {"noisy": ("r",)}


def test_narrow_floats_are_proposed_within_their_own_width():
    a = draw(0, 50, 50)
    moved = value("c", a * (1 + 5e-3), "bfloat16")
    assert propose([value("r", a)], [moved]).reference == {"r": ("c",)}
    assert not propose([value("r", a)], [value("c", a * (1 + 5e-3))]).reference


def test_repeated_tensors_pair_in_the_order_of_execution():
    a, b = draw(0), draw(1)
    ours = [value("a1", a), value("b", b), value("a2", a.T)]
    theirs = [value("p", a.T), value("q", b.reshape(-1)), value("r", a)]
    found = propose(ours, theirs)
    assert [found.reference[name][0] for name in ("a1", "b", "a2")] == ["p", "q", "r"]
    assert set(found.reference["a1"]) == {"p", "r"}, "the other copy is kept behind the chain"


def test_branches_in_another_order_are_proposed_too():
    a, b, end = draw(0), draw(1), draw(2)
    ours, theirs = {"a": a, "b": b, "e": end}, {"B": b, "A": a, "E": end}
    found = propose([value(*each) for each in ours.items()], [value(*each) for each in theirs.items()])
    assert {name: others[0] for name, others in found.reference.items()} == {"a": "A", "b": "B", "e": "E"}


def test_constants_single_numbers_and_integers_propose_nothing():
    zeros, one, integers = np.zeros((4, 5)), np.array([3.0]), np.arange(20.0)
    ours = [value("z", zeros), value("n", one), value("i", integers, "int64")]
    assert not propose(ours, [value("Z", zeros), value("N", one), value("I", integers, "int64")]).reference


def test_no_value_has_more_than_a_few_partners():
    a = draw(0)
    found = propose([value("r", a)], [value(f"c{i}", a) for i in range(50)])
    assert len(found.reference["r"]) == MAX_PARTNERS


def test_the_chain_of_many_values_is_found_in_a_moment():
    arrays = [draw(seed, 3, 7) for seed in range(600)]
    found = propose(*([value(f"{side}{i}", a) for i, a in enumerate(arrays)] for side in "rc"))
    assert all(found.reference[f"r{i}"][0] == f"c{i}" for i in range(600))


def test_a_print_needs_all_its_numbers():
    assert read_print(None) is None
    assert read_print({"shape": [2]}) is None
    plain = {"count": 2, "finite": 2, "sum": 3.0, "squares": 5.0, "min": 1.0, "max": 2.0}
    assert read_print(plain) == Print(2, 2, 3.0, 5.0, 1.0, 2.0)
