"""Layouts of parameters. What is found is held against what numpy makes of the same words."""

import numpy as np
import pytest

from tensoraudit.equivalence.steps import (
    apply,
    describe,
    difference,
    find_steps,
    flattenings,
    only_permutation,
    same,
    swap_rows,
)


def draw(*shape, seed=3):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


KERNEL = draw(3, 5, 7, 11)
GATES = draw(7, 33)


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (KERNEL, KERNEL.transpose(3, 2, 0, 1)),
        (draw(7, 7), draw(7, 7).T),
        (KERNEL, KERNEL[::-1, ::-1].transpose(3, 2, 0, 1)),
        (GATES, np.concatenate([GATES[:, 11:22], GATES[:, :11], GATES[:, 22:]], axis=1)),
        (GATES, np.concatenate([GATES[:, 11:22], GATES[:, :11], GATES[:, 22:]], axis=1).T),
        (GATES.T, np.concatenate([GATES[:, 22:], GATES[:, 11:22], GATES[:, :11]], axis=1)),
        (draw(44), np.concatenate([draw(44)[:11], draw(44)[33:], draw(44)[11:33]])),
        (draw(1, 1, 5, 7), draw(1, 1, 5, 7)[0, 0].T),
        (draw(5, 7), draw(5, 7).T[:, :, None, None]),
        (draw(6, 5), draw(6, 5).reshape(30)),
    ],
)
def test_the_steps_that_are_found_make_the_candidate(reference, candidate):
    steps = find_steps(reference, candidate)
    assert steps is not None
    np.testing.assert_array_equal(apply(steps, reference), candidate)


def test_rows_of_another_flattening_are_found():
    kernel = draw(3 * 5 * 7, 11)
    permuted = kernel.reshape(3, 5, 7, 11).transpose(2, 0, 1, 3).reshape(-1, 11)
    steps = find_steps(kernel, permuted.T)
    assert {"reshape": [15, 7, 11]} in steps
    np.testing.assert_array_equal(apply(steps, kernel), permuted.T)


def test_other_values_have_no_steps():
    shuffled = np.random.default_rng(0).permutation(KERNEL.reshape(-1)).reshape(KERNEL.shape)
    assert find_steps(KERNEL, shuffled) is None
    assert find_steps(KERNEL, KERNEL[..., :5]) is None
    assert find_steps(draw(6), draw(6, seed=4)) is None


def test_every_step_does_what_it_says():
    x = draw(2, 9)
    np.testing.assert_array_equal(apply([{"take": 1}], x), x[1])
    gates = {"gates": {"axis": 1, "of": 3, "order": [2, 0]}}
    np.testing.assert_array_equal(apply([gates], x), np.hstack([x[:, 6:], x[:, :3]]))
    np.testing.assert_array_equal(apply([{"reverse": [1]}, {"transpose": [1, 0]}], x), x[:, ::-1].T)
    placed = apply([{"place": {"axis": 0, "of": 3, "at": 1}}], x)
    np.testing.assert_array_equal(placed, np.vstack([0 * x, x, 0 * x]))
    assert not apply([{"zero": True}], x).any()


MISFITS = (
    {"transpose": [0, 1, 2]},
    {"reshape": [5]},
    {"gates": {"axis": 1, "of": 4, "order": [0]}},
    {"turn": 1},
    {"take": 9},
)


@pytest.mark.parametrize("step", MISFITS)
def test_a_step_that_does_not_fit_is_named(step):
    with pytest.raises(ValueError, match=next(iter(step))):
        apply([step], draw(2, 9))


def test_words():
    assert describe([]) == "as it is"
    steps = [{"gates": {"axis": 1, "of": 3, "order": [1, 0, 2]}}, {"transpose": [1, 0]}]
    assert describe(steps) == "blocks [1, 0, 2] of 3 along axis 1, then transpose [1, 0]"


def test_same_allows_for_a_rounding_and_no_more():
    x = draw(100)
    assert same(x, (x.astype(np.float64) * (1 + 1e-7)).astype(np.float32))
    assert not same(x, x * np.float32(1 + 1e-4))
    assert not same(x, x[:50])


def test_difference_is_the_relative_norm():
    assert difference(np.array([3.0, 4.0]), np.array([3.0, 4.5])) == pytest.approx(0.1)
    assert difference(np.zeros(3), np.zeros(3)) == 0.0
    assert difference(np.zeros(3), np.ones(3)) == np.inf
    assert difference(np.ones(3), np.ones(2)) == np.inf


def test_only_shapes_that_leave_no_choice_give_a_permutation():
    assert only_permutation((3, 5, 7, 11), (11, 7, 3, 5)) == ({"transpose": [3, 2, 0, 1]},)
    assert only_permutation((3, 5), (3, 5)) == ()
    assert only_permutation((5, 5), (5, 5)) is None
    assert only_permutation((3, 5), (5, 5)) is None


def test_columns_are_swapped_like_rows():
    x = draw(4, 15)
    swapped = apply(swap_rows(x.shape, 1, 3), x)
    np.testing.assert_array_equal(swapped, x.reshape(4, 3, 5).transpose(0, 2, 1).reshape(4, 15))
    assert flattenings(15) == [3, 5]
    assert flattenings(7) == []


def test_the_imaginary_part_counts():
    kernel = draw(5, 7) + 1j * draw(5, 7, seed=4)
    other = kernel.real + 1j * draw(5, 7, seed=5)
    assert find_steps(kernel, kernel.T) == ({"transpose": [1, 0]},)
    assert find_steps(kernel, other.T) is None
    assert same(kernel, kernel.astype(np.complex128) * (1 + 1e-7)) and not same(kernel, other)
    assert difference(np.array([3 + 4j]), np.array([3 + 4.5j])) == pytest.approx(0.1)
    assert difference(np.array([3 + 4j]), np.array([3.0])) == pytest.approx(0.8)


def test_the_last_digit_of_an_integer_counts():
    one, other = np.array([2**53 + 1, 7]), np.array([2**53, 7])
    assert same(one, one) and not same(one, other) and not same(one, other.astype(np.float64))


def test_numbers_too_large_to_square_make_no_warning():
    assert difference(np.array([1e300]), np.array([2e300])) != 0.0
