from __future__ import annotations

import pytest

from tensoraudit.equivalence.sizes import is_batch, other_sizes, size_plan


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, n))


@pytest.mark.parametrize(
    ("name", "axis", "expected"),
    [
        ("batch", None, True),
        ("batch_size", 0, True),
        ("N", 0, True),
        ("s0_batch", None, True),
        ("?", 0, True),
        ("?", 1, False),
        ("length", 0, False),
        ("sequence", None, False),
    ],
)
def test_is_batch(name: str, axis: int | None, expected: bool) -> None:
    assert is_batch(name, axis) is expected


def test_a_plan_has_batch_one_two_and_an_odd_one_and_two_lengths_of_everything_else() -> None:
    plan = size_plan(["batch", "height", "width"])
    assert [sizes["batch"] for sizes in plan] == [2, 1, 5]
    for dim in ("height", "width"):
        assert len({sizes[dim] for sizes in plan}) == 2


def test_lengths_are_distinct_primes_that_no_fixed_size_has() -> None:
    plan = size_plan(["batch", "height", "width", "depth"], taken=[7, 13, 224])
    lengths = [sizes[dim] for sizes in plan[:2] for dim in ("height", "width", "depth")]
    assert len(set(lengths)) == 6
    assert all(_is_prime(length) for length in lengths)
    assert not set(lengths) & {7, 13}


@pytest.mark.parametrize(("dims", "count"), [([], 1), (["batch"], 3), (["length"], 2)])
def test_a_plan_without_one_of_the_kinds(dims: list[str], count: int) -> None:
    plan = size_plan(dims)
    assert len(plan) == count
    assert all(set(sizes) == set(dims) for sizes in plan)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 224])
def test_other_sizes_start_with_primes_and_leave_the_size_itself_out(size: int) -> None:
    others = other_sizes(size)
    assert size not in others
    assert all(other > 0 for other in others)
    assert len(set(others)) == len(others)
    assert _is_prime(others[0])
    assert others[0] > size


def test_other_sizes_of_an_image() -> None:
    assert other_sizes(224) == (227, 223, 256, 448, 112)
