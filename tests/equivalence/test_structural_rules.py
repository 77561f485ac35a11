"""The ten structural rules: planted faults that must be caught, each with a clean twin that must not raise an alarm.

`FAULTS` is the whole list; the last test counts how many were caught and how many twins were accused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tensoraudit.equivalence.comparison import Comparison, compare_arrays, unverified
from tensoraudit.equivalence.verdict import Verdict

RNG = np.random.default_rng(7)
IMAGE = RNG.standard_normal((2, 3, 5, 7)).astype(np.float32)
LOGITS = RNG.standard_normal((11, 13)).astype(np.float32)
NOISE = (LOGITS * (1 + 1e-7 * RNG.standard_normal(LOGITS.shape))).astype(np.float32)
IDS = RNG.integers(0, 1000, (5, 7))
TIES = np.repeat(RNG.standard_normal((11, 5)).astype(np.float32), 2, axis=1)

Sides = dict[str, Any]


@dataclass(frozen=True)
class Planted:
    """`fault` and `clean` are the arguments of compare_arrays; `verdict` is what the fault must give."""

    rule: int
    name: str
    fault: Callable[[], Sides]
    clean: Callable[[], Sides]
    verdict: Verdict = Verdict.BREAK
    says: str = ""


def sides(reference: Any, candidate: Any, **known: Any) -> Callable[[], Sides]:
    def wrap(value: Any) -> Any:
        return value if isinstance(value, dict) else {"y": value}

    return lambda: {"reference": wrap(reference), "candidate": wrap(candidate), **known}


def with_value(array: np.ndarray, index: Any, value: float) -> np.ndarray:
    changed = array.copy()
    changed[index] = value
    return changed


NAN = with_value(LOGITS, (3, 4), np.nan)
INF = with_value(LOGITS, (3, 4), np.inf)
TOP1 = LOGITS.argmax(axis=1)
TOP3 = np.argsort(-LOGITS, axis=1, kind="stable")[:, :3]
TOP3_VALUES = np.take_along_axis(LOGITS, TOP3, axis=1)
TIED = TIES.argmax(axis=1)
TIED_TOP2 = np.argsort(-TIES, axis=1, kind="stable")[:, :2]
TIED_TOP3 = np.argsort(-TIES, axis=1, kind="stable")[:, :3]
TIED_VALUES = np.take_along_axis(TIES, TIED_TOP3, axis=1)
CLEAN = sides(LOGITS, NOISE)

FAULTS = (
    Planted(1, "NaN in the candidate only", sides(LOGITS, NAN), CLEAN, says="1 NaN"),
    Planted(1, "NaN in the reference only", sides(NAN, LOGITS), CLEAN, says="1 NaN"),
    Planted(1, "NaN at another place", sides(NAN, with_value(LOGITS, (3, 5), np.nan)), sides(NAN, NAN.copy())),
    Planted(1, "Inf in the candidate only", sides(LOGITS, INF), CLEAN, says="1 Inf"),
    Planted(1, "Inf of another sign", sides(INF, with_value(LOGITS, (3, 4), -np.inf)), sides(INF, INF.copy())),
    Planted(1, "NaN for Inf", sides(INF, NAN), sides(INF, INF.copy())),
    Planted(
        1,
        "one NaN in the last block",
        sides(np.ones(40_001), with_value(np.ones(40_001), -1, np.nan)),
        sides(np.ones(40_001), np.ones(40_001)),
    ),
    Planted(
        1,
        "all NaN on both sides",
        sides(np.full(3, np.nan), np.full(3, np.nan)),
        sides(NAN, NAN.copy()),
        Verdict.UNVERIFIED,
    ),
    Planted(2, "a missing axis that would broadcast", sides(LOGITS, LOGITS[:1]), CLEAN, says="shape"),
    Planted(2, "an axis of length 1 too many", sides(LOGITS, LOGITS[None]), CLEAN, says="reshape"),
    Planted(
        2, "a scalar for a vector of equal values", sides(np.ones(3), np.array(1.0)), sides(np.ones(3), np.ones(3))
    ),
    Planted(
        2,
        "empty against not empty",
        sides(np.empty((0, 3)), np.zeros((1, 3))),
        sides(np.empty((0, 3)), np.empty((0, 3))),
    ),
    Planted(
        2,
        "empty of another shape",
        sides(np.empty((0, 3)), np.empty((3, 0))),
        sides(np.empty((3, 0)), np.empty((3, 0))),
    ),
    Planted(3, "float64 for float32", sides(LOGITS, LOGITS.astype(np.float64)), CLEAN, says="dtype"),
    Planted(3, "float16 for float32", sides(LOGITS, LOGITS.astype(np.float16)), CLEAN, says="dtype"),
    Planted(3, "int32 for int64", sides(IDS, IDS.astype(np.int32)), sides(IDS, IDS.copy()), says="dtype"),
    Planted(3, "float for bool", sides(LOGITS > 0, (LOGITS > 0).astype(np.float32)), sides(LOGITS > 0, LOGITS > 0)),
    Planted(3, "unsigned for signed", sides(IDS, IDS.astype(np.uint64)), sides(IDS, IDS.copy())),
    Planted(
        3,
        "bfloat16, carried in float32, for float32",
        sides(LOGITS, LOGITS, candidate_dtypes={"y": "bfloat16"}),
        sides(LOGITS, LOGITS, reference_dtypes={"y": "bfloat16"}, candidate_dtypes={"y": "bfloat16"}),
    ),
    Planted(
        4,
        "a missing output",
        sides({"a": LOGITS, "b": IDS}, {"a": LOGITS}),
        sides({"a": LOGITS}, {"a": LOGITS}),
        says="missing",
    ),
    Planted(
        4,
        "an extra output",
        sides({"a": LOGITS}, {"a": LOGITS, "b": IDS}),
        sides({"a": LOGITS}, {"a": LOGITS}),
        says="extra",
    ),
    Planted(
        4,
        "two outputs swapped under the same names",
        sides({"a": LOGITS, "b": -LOGITS}, {"a": -LOGITS, "b": LOGITS}),
        sides({"a": LOGITS, "b": -LOGITS}, {"b": -LOGITS, "a": LOGITS}),
    ),
    Planted(
        4,
        "an unnamed output with other values",
        sides({"a": LOGITS}, {"0": LOGITS + 1}),
        sides({"a": LOGITS}, {"0": NOISE}),
    ),
    Planted(
        5,
        "uint8 that would wrap",
        sides(np.array([0, 1], np.uint8), np.array([255, 1], np.uint8)),
        sides(np.array([255, 1], np.uint8), np.array([255, 1], np.uint8)),
        says="0 against 255",
    ),
    Planted(
        5,
        "int64 beyond the digits of float32",
        sides(np.array([2**24]), np.array([2**24 + 1])),
        sides(np.array([2**24 + 1]), np.array([2**24 + 1])),
    ),
    Planted(
        5,
        "int64 beyond the digits of float64",
        sides(np.array([2**53]), np.array([2**53 + 1])),
        sides(np.array([2**53 + 1]), np.array([2**53 + 1])),
    ),
    Planted(
        5,
        "one bool",
        sides(LOGITS > 0, with_value(LOGITS > 0, (0, 0), not LOGITS[0, 0] > 0)),
        sides(LOGITS > 0, LOGITS > 0),
    ),
    Planted(
        5,
        "an integer off by one under a wide tolerance",
        sides(IDS, IDS + 1, tolerance=10.0),
        sides(IDS, IDS.copy(), tolerance=10.0),
    ),
    Planted(
        6,
        "channels last for channels first",
        sides(IMAGE, IMAGE.transpose(0, 2, 3, 1)),
        sides(IMAGE, IMAGE.copy()),
        says="matches after transpose (0, 3, 1, 2)",
    ),
    Planted(
        6,
        "a transposed square",
        sides(LOGITS[:11, :11], LOGITS[:11, :11].T),
        sides(LOGITS[:11, :11], NOISE[:11, :11]),
        says="matches after transpose (1, 0)",
    ),
    Planted(6, "transposed integers", sides(IDS[:5, :5], IDS[:5, :5].T), sides(IDS, IDS.copy()), says="transpose"),
    Planted(
        6,
        "the same values in another order",
        sides(np.arange(9.0), np.arange(9.0)[::-1].copy()),
        sides(np.arange(9.0), np.arange(9.0)),
    ),
    Planted(6, "two rows swapped", sides(LOGITS, LOGITS[[1, 0, *range(2, 11)]]), CLEAN),
    Planted(
        7,
        "a value where the reference is zero",
        sides(np.zeros(5, np.float32), np.full(5, 1e-3, np.float32)),
        sides(np.zeros(5, np.float32), np.full(5, 1e-7, np.float32)),
    ),
    Planted(
        7,
        "a value beside a zero oracle",
        sides(np.zeros(5, np.float32), np.full(5, 1e-3, np.float32), oracle={"y": np.zeros(5)}),
        sides(np.zeros(5, np.float32), np.full(5, 1e-7, np.float32), oracle={"y": np.zeros(5)}),
    ),
    Planted(
        7,
        "one zero among values",
        sides(np.array([0.0, 1.0], np.float32), np.array([2e-2, 1.0], np.float32), oracle={"y": np.array([0.0, 1.0])}),
        sides(np.array([0.0, 1.0], np.float32), np.array([1e-7, 1.0], np.float32), oracle={"y": np.array([0.0, 1.0])}),
        Verdict.DRIFT,
    ),
    Planted(
        7,
        "subnormal numbers flushed to zero, and more",
        sides(np.full(5, 1e-40, np.float32), np.full(5, 1e-3, np.float32), oracle={"y": np.full(5, 1e-40)}),
        sides(np.full(5, 1e-40, np.float32), np.zeros(5, np.float32), oracle={"y": np.full(5, 1e-40)}),
    ),
    Planted(
        8,
        "a reference that differs from itself",
        sides(LOGITS, LOGITS, reference_repeat={"y": LOGITS + 1}),
        sides(LOGITS, LOGITS, reference_repeat={"y": LOGITS.copy()}),
        Verdict.UNVERIFIED,
        "not deterministic",
    ),
    Planted(
        8,
        "a candidate that differs from itself in one bit",
        sides(LOGITS, LOGITS, candidate_repeat={"y": NOISE}),
        sides(NAN, NAN, candidate_repeat={"y": NAN.copy()}),
        Verdict.UNVERIFIED,
        "not deterministic",
    ),
    Planted(
        8,
        "a second run of another shape",
        sides(LOGITS, LOGITS, candidate_repeat={"y": LOGITS[:3]}),
        sides(LOGITS, LOGITS, candidate_repeat={"y": LOGITS.copy()}),
        Verdict.UNVERIFIED,
    ),
    Planted(9, "no outputs at all", sides({}, {}), sides(LOGITS, LOGITS), Verdict.UNVERIFIED),
    Planted(
        10,
        "an argmax that differs",
        sides({"s": LOGITS, "i": TOP1}, {"s": LOGITS, "i": (TOP1 + 1) % 13}),
        sides({"s": TIES, "i": TIED}, {"s": TIES, "i": TIED + 1}),
        says="do not tie",
    ),
    Planted(
        10,
        "an argmax out of range",
        sides({"s": TIES, "i": TIED}, {"s": TIES, "i": TIED - 50}),
        sides({"s": TIES, "i": TIED}, {"s": TIES, "i": TIED + 1}),
    ),
    Planted(
        10,
        "a top-k that differs",
        sides({"s": LOGITS, "i": TOP3}, {"s": LOGITS, "i": (TOP3 + 1) % 13}),
        sides({"s": TIES, "i": TIED_TOP2}, {"s": TIES, "i": TIED_TOP2[:, ::-1].copy()}),
    ),
    Planted(
        10,
        "one index twice in a top-k",
        sides({"s": TIES, "i": TIED_TOP2}, {"s": TIES, "i": TIED_TOP2[:, [0, 0]]}),
        sides({"s": TIES, "i": TIED_TOP2}, {"s": TIES, "i": TIED_TOP2[:, ::-1].copy()}),
    ),
    Planted(
        10,
        "top-k indices off by one beside right values",
        sides({"v": TOP3_VALUES, "i": TOP3}, {"v": TOP3_VALUES, "i": TOP3 + 1}),
        sides({"v": TIED_VALUES, "i": TIED_TOP3}, {"v": TIED_VALUES, "i": TIED_TOP3[:, [1, 0, 2]]}),
    ),
    Planted(
        10,
        "an index without any scores",
        sides({"i": TOP1}, {"i": (TOP1 + 1) % 13}),
        sides({"i": TIED}, {"i": TIED + 1}, index_scores={"i": TIES}),
        says="no scores",
    ),
)

PASSES = {Verdict.IDENTICAL, Verdict.EQUIVALENT, Verdict.NOISE}


def run(arguments: Callable[[], Sides]) -> Comparison:
    return compare_arrays(**arguments())


def caught(planted: Planted) -> bool:
    found = run(planted.fault)
    worst = found.worst
    return found.verdict == planted.verdict and (worst is None or planted.says in worst.reason)


def accused(planted: Planted) -> bool:
    return run(planted.clean).verdict not in PASSES


@pytest.mark.parametrize("planted", FAULTS, ids=lambda p: f"rule {p.rule}: {p.name}")
def test_a_planted_fault_is_caught_and_its_clean_twin_is_not_accused(planted: Planted) -> None:
    found = run(planted.fault)
    assert found.verdict == planted.verdict, found.outputs
    assert found.worst is None or planted.says in found.worst.reason
    assert not accused(planted), run(planted.clean).outputs


def test_all_planted_faults_are_caught_and_no_clean_pair_raises_an_alarm(record_property: Any) -> None:
    caught_count, alarms = sum(map(caught, FAULTS)), sum(map(accused, FAULTS))
    record_property("planted_faults_caught", f"{caught_count} of {len(FAULTS)}")
    record_property("clean_pairs_accused", f"{alarms} of {len(FAULTS)}")
    print(f"caught {caught_count} of {len(FAULTS)} planted faults; accused {alarms} of {len(FAULTS)} clean pairs")
    assert {planted.rule for planted in FAULTS} == set(range(1, 11))
    assert (caught_count, alarms) == (len(FAULTS), 0)


def _kinds(comparison: Comparison) -> set[str]:
    return {note.kind for output in comparison.outputs for note in output.notes}


def test_nan_on_both_sides_is_never_silent() -> None:
    assert "nan-on-both-sides" in _kinds(compare_arrays({"y": NAN}, {"y": NAN.copy()}))
    assert "nan-on-both-sides" in _kinds(compare_arrays({"y": NAN}, {"y": with_value(NOISE, (3, 4), np.nan)}))
    assert "inf-on-both-sides" in _kinds(compare_arrays({"y": INF}, {"y": INF.copy()}))


def test_a_changed_dtype_is_reported_with_how_far_the_values_are_apart() -> None:
    (output,) = compare_arrays({"y": LOGITS}, {"y": LOGITS.astype(np.float64)}).outputs
    assert output.notes[0].kind == "dtype-changed"
    assert "from float32 to float64" in output.reason
    assert "at most 0" in output.reason


def test_the_frameworks_own_layout_is_aligned_without_a_finding_and_named() -> None:
    last = np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1))
    found = compare_arrays({"y": IMAGE}, {"y": last}, layouts={"y": (0, 3, 1, 2)}, candidate_repeat={"y": last})
    assert found.verdict == Verdict.IDENTICAL
    assert _kinds(found) == {"layout-convention"}


@pytest.mark.parametrize("order", [(0, 1, 3, 2), (1, 0, 2, 3), (0, 3, 1)])
def test_any_other_permutation_is_refused_as_a_convention(order: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="not channels last against channels first"):
        compare_arrays({"y": IMAGE}, {"y": IMAGE}, layouts={"y": order})


@pytest.mark.parametrize("reason", ["crashed with SIGSEGV", "timed out after 600 s", "No module named 'torch'"])
def test_a_side_that_did_not_run_is_unverified_and_says_why(reason: str) -> None:
    found = unverified(["a", "b"], reason)
    assert [output.verdict for output in found.outputs] == [Verdict.UNVERIFIED] * 2
    assert {output.reason for output in found.outputs} == {reason}
    assert unverified([], reason).verdict == Verdict.UNVERIFIED
    assert not unverified([], reason).verdict.passes
