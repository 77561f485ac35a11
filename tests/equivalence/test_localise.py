from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tensoraudit.equivalence.alignment import Pair
from tensoraudit.equivalence.localise import Tap, first_divergence
from tensoraudit.equivalence.verdict import Verdict

RNG = np.random.default_rng(0)
VALUES = [RNG.standard_normal((3, 4)).astype(np.float32) for _ in range(5)]


def pair(index: int, *feeds: int) -> Pair:
    return Pair(
        index, 0, f"v{index}", "node", "aten", "Op", "m", "net.py", index + 1, (3, 4), tuple(f"v{i}" for i in feeds)
    )


def tap(index: int, error: float = 0.0, feeds: tuple[int, ...] = (), fetched: list[str] | None = None) -> Tap:
    def fetch(what: str, array: np.ndarray) -> Callable[[], np.ndarray]:
        def get() -> np.ndarray:
            if fetched is not None:
                fetched.append(f"{what}{index}")
            return array

        return get

    exact = VALUES[index].astype(np.float64)
    return Tap(
        pair(index, *feeds),
        reference=fetch("a", VALUES[index]),
        candidate=fetch("b", VALUES[index] + np.float32(error)),
        oracle=fetch("r", exact),
        perturbed=[fetch("p", np.nextafter(VALUES[index], np.float32(9)))],
    )


def test_nothing_diverges() -> None:
    assert first_divergence([tap(k) for k in range(5)]) is None
    assert first_divergence([]) is None


def test_the_first_pair_that_fails_is_returned_with_its_numbers() -> None:
    found = first_divergence([tap(0), tap(1, 1e-8), tap(2, 1e-3), tap(3, 1e-2)])
    assert found is not None
    assert (found.pair.event, found.agreed, found.comparison.verdict) == (2, 2, Verdict.DRIFT)
    assert found.previous is not None
    assert found.previous.event == 1
    assert found.cumulative_error is not None
    assert abs(found.cumulative_error - 1e-3) < 1e-6
    assert found.local_error is None


def test_arrays_are_fetched_once_and_no_further_than_needed() -> None:
    fetched: list[str] = []
    first_divergence([tap(0, fetched=fetched), tap(1, 1e-3, fetched=fetched), tap(2, fetched=fetched)])
    # The first pair agrees whatever its floor is: neither its oracle nor its perturbed run is needed.
    assert sorted(fetched) == sorted(["a0", "b0", *(f"{what}1" for what in "abrp")])


def test_an_inherited_error_is_not_blamed_on_the_operation_that_inherits_it() -> None:
    right_alone = {1: VALUES[1], 2: VALUES[2] + np.float32(1e-3), 3: VALUES[3]}
    taps = [tap(0), tap(1, 1e-3), tap(2, 1e-3), tap(3, 1e-3)]
    found = first_divergence(taps, local=lambda p: right_alone[p.event])
    assert found is not None
    assert found.pair.event == 2
    assert found.local_error is not None
    assert abs(found.local_error - 1e-3) < 1e-6


def test_when_all_inherit_the_first_is_returned_with_its_local_error() -> None:
    found = first_divergence([tap(0), tap(1, 1e-3), tap(2, 1e-2)], local=lambda p: VALUES[p.event])
    assert found is not None
    assert (found.pair.event, found.local_error) == (1, 0.0)


def test_an_operation_that_cannot_run_alone_is_returned() -> None:
    found = first_divergence([tap(0), tap(1, 1e-3)], local=lambda _: None)
    assert found is not None
    assert (found.pair.event, found.local_error) == (1, None)


def test_a_local_value_of_another_shape_has_no_local_error() -> None:
    found = first_divergence([tap(0, 1e-3)], local=lambda p: VALUES[p.event].T)
    assert found is not None
    assert found.local_error is None


def test_two_tensors_that_are_no_pair_give_themselves_away_by_what_they_feed() -> None:
    taps = [tap(0, 50.0, feeds=(1, 2)), tap(1), tap(2), tap(3, 1e-3), tap(4, 1e-2)]
    found = first_divergence(taps)
    assert found is not None
    assert found.pair.event == 3


def test_a_break_that_goes_on_downstream_is_the_culprit() -> None:
    found = first_divergence([tap(0, 50.0, feeds=(1, 2)), tap(1), tap(2, 1e-3), tap(3, 1e-3)])
    assert found is not None
    assert found.pair.event == 0


def test_a_break_whose_readers_were_never_compared_is_the_last_resort() -> None:
    found = first_divergence([tap(0, 50.0, feeds=(7,)), tap(1)])
    assert found is not None
    assert found.pair.event == 0
    assert first_divergence([tap(0, 50.0, feeds=(1,)), tap(1)]) is None


def test_a_pair_that_cannot_be_judged_neither_agrees_nor_diverges() -> None:
    nan = np.full((3, 4), np.nan, np.float32)
    broken = replace(tap(1), reference=lambda: nan, candidate=lambda: nan, oracle=None, perturbed=())
    found = first_divergence([tap(0), broken, tap(2, 1e-3)])
    assert found is not None
    assert (found.pair.event, found.agreed) == (2, 1)
