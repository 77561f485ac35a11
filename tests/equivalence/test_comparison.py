from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import tensoraudit
from tensoraudit.equivalence.comparison import Comparison, compare_arrays
from tensoraudit.equivalence.tensor import TensorComparison
from tensoraudit.equivalence.tolerance import Tolerance
from tensoraudit.equivalence.verdict import Verdict

RNG = np.random.default_rng(11)
LOGITS = RNG.standard_normal((7, 10)).astype(np.float32)
ORACLE = LOGITS.astype(np.float64) + 3e-7 * RNG.standard_normal(LOGITS.shape)


def one(candidate: np.ndarray, reference: np.ndarray = LOGITS, **known: object) -> TensorComparison:
    wrapped = {
        name: [{"y": draw} for draw in value] if name == "perturbed" else {"y": value}
        for name, value in known.items()
        if name != "tolerance"
    }
    if "tolerance" in known:
        wrapped["tolerance"] = known["tolerance"]  # type: ignore[assignment]
    (output,) = compare_arrays({"y": reference}, {"y": candidate}, **wrapped).outputs  # type: ignore[arg-type]
    return output


def test_it_is_public() -> None:
    assert tensoraudit.compare_arrays is compare_arrays
    assert tensoraudit.Comparison is Comparison


def test_equal_bits_are_identical() -> None:
    assert (one(LOGITS.copy()).verdict, one(LOGITS.copy()).top1_changes) == (Verdict.IDENTICAL, 0)


def test_noise_within_the_tolerance_is_equivalent() -> None:
    found = one(ORACLE.astype(np.float32), oracle=ORACLE)
    assert found.verdict == Verdict.EQUIVALENT
    assert found.error_ratio is not None
    assert found.error_ratio < 1
    assert found.notes == ()


def test_noise_of_large_values_is_noise_although_over_the_tolerance() -> None:
    large = LOGITS * np.float32(1e4)
    found = one(np.nextafter(large, np.float32(np.inf)), large, oracle=large.astype(np.float64))
    assert found.verdict == Verdict.NOISE
    assert found.metrics is not None
    assert found.metrics.linf > 1e-5


def test_a_real_loss_that_keeps_the_classes_is_drift() -> None:
    found = one(LOGITS * np.float32(1.001), oracle=ORACLE)
    assert (found.verdict, found.top1_changes) == (Verdict.DRIFT, 0)


def test_a_real_loss_within_the_tolerance_is_drift_all_the_same() -> None:
    found = one(LOGITS + np.float32(8e-6), oracle=ORACLE)
    assert found.verdict == Verdict.DRIFT
    assert "within the tolerance" in found.reason


def test_a_real_loss_that_changes_a_class_is_a_break() -> None:
    wrong = LOGITS.copy()
    wrong[2, LOGITS[2].argsort()[-2]] = LOGITS[2].max() + np.float32(0.1)
    found = one(wrong, oracle=ORACLE)
    assert (found.verdict, found.top1_changes) == (Verdict.BREAK, 1)
    assert "changes in 1 of 7 rows" in found.reason


def test_an_error_larger_than_every_value_is_a_break() -> None:
    assert one(LOGITS + np.float32(100), oracle=ORACLE).verdict == Verdict.BREAK


def test_without_an_oracle_the_floor_comes_from_perturbed_runs_and_is_said_so() -> None:
    draws = [LOGITS + np.float32(1e-5), LOGITS - np.float32(2e-5)]
    found = one(LOGITS + np.float32(4e-5), perturbed=draws)
    assert found.verdict == Verdict.NOISE
    assert found.error_ratio == pytest.approx(2.0, rel=0.02)
    assert [note.kind for note in found.notes] == ["no-oracle"]


def test_with_nothing_but_the_arrays_the_tolerance_judges() -> None:
    assert one(LOGITS + np.float32(5e-6)).verdict == Verdict.EQUIVALENT
    assert one(LOGITS + np.float32(5e-6)).error_ratio is None
    assert one(LOGITS + np.float32(1e-3)).verdict == Verdict.DRIFT
    assert one(LOGITS + np.float32(1e-3), tolerance=1e-2).verdict == Verdict.EQUIVALENT


NO_ORACLE = np.where(LOGITS > 1, np.nan, ORACLE)


@pytest.mark.parametrize(
    "oracle", [LOGITS, ORACLE[:3], np.zeros(LOGITS.shape, np.int64), NO_ORACLE, NO_ORACLE * np.nan]
)
def test_an_oracle_that_is_none_is_left_out_and_said_so(oracle: np.ndarray) -> None:
    found = one(LOGITS + np.float32(5e-6), oracle=oracle)
    assert "oracle-unusable" in {note.kind for note in found.notes}
    assert found.floor is not None
    assert found.floor.source == "dtype"


def test_a_perturbed_run_of_another_shape_is_left_out_and_said_so() -> None:
    found = one(LOGITS + np.float32(5e-6), perturbed=[LOGITS[:3], LOGITS, LOGITS * np.float32(np.nan)])
    assert "perturbation-unusable" in {note.kind for note in found.notes}
    assert found.floor is not None
    assert found.floor.sensitivity == 0.0


def test_an_ill_conditioned_reference_is_reported() -> None:
    found = one(LOGITS + np.float32(0.01), oracle=LOGITS.astype(np.float64) + 0.1)
    assert found.verdict == Verdict.NOISE
    assert "ill-conditioned" in {note.kind for note in found.notes}


def test_bfloat16_is_judged_in_its_own_units() -> None:
    values = (LOGITS.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    above = (values.view(np.uint32) + np.uint32(0x10000)).view(np.float32)
    dtypes = {"y": "bfloat16"}
    found = compare_arrays({"y": values}, {"y": above}, reference_dtypes=dtypes, candidate_dtypes=dtypes).outputs[0]
    assert found.metrics is not None
    assert found.metrics.max_ulp == 1
    assert found.verdict.passes


def test_a_dtype_without_limits_of_its_own_goes_by_the_one_that_carries_it() -> None:
    dtypes = {"y": "float8_e8m0fnu"}
    found = compare_arrays({"y": LOGITS}, {"y": LOGITS * 2}, reference_dtypes=dtypes, candidate_dtypes=dtypes)
    assert found.verdict == Verdict.DRIFT
    assert compare_arrays({"y": LOGITS}, {"y": LOGITS}, reference_dtypes=dtypes).verdict == Verdict.BREAK


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_tiny_values_are_not_excused_by_an_absolute_limit(dtype: str) -> None:
    """Probabilities over a large vocabulary: half precision has only subnormal numbers there."""
    tiny = (RNG.random((3, 50)) * 4e-5).astype(dtype)
    assert not one(tiny[:, ::-1].copy(), tiny, oracle=tiny.astype(np.float64)).verdict.passes
    near = np.nextafter(tiny, np.dtype(dtype).type(1))
    assert one(near, tiny, oracle=tiny.astype(np.float64)).verdict.passes


def test_tiny_or_nearly_equal_values_are_no_layout() -> None:
    tiny = (RNG.random((5, 5)) * 1e-6).astype(np.float32)
    assert one(RNG.random((5, 5)).astype(np.float32) * np.float32(1e-6), tiny).layout is None
    (shape,) = compare_arrays({"y": tiny[:3]}, {"y": tiny.T[:, :3] + np.float32(1e-6)}).outputs
    assert shape.layout is None
    flat = 1 + tiny
    found = one(flat + np.float32(8e-6), flat, oracle=flat.astype(np.float64))
    assert (found.verdict, found.layout) == (Verdict.DRIFT, None)


def test_the_worst_output_decides_and_every_output_is_listed() -> None:
    found = compare_arrays({"a": LOGITS, "b": LOGITS}, {"b": LOGITS[:, ::-1], "a": LOGITS})
    assert [(output.name, output.verdict) for output in found.outputs] == [
        ("a", Verdict.IDENTICAL),
        ("b", Verdict.BREAK),
    ]
    assert found.verdict == Verdict.BREAK
    assert found.worst is found.outputs[1]


def test_an_output_paired_by_value_is_reported() -> None:
    other = RNG.standard_normal(LOGITS.shape).astype(np.float32)
    found = compare_arrays({"a": LOGITS, "b": other}, {"x": other, "y": LOGITS})
    assert found.verdict == Verdict.IDENTICAL
    assert [(pair.reference, pair.candidate, pair.how) for pair in found.pairing] == [
        ("a", "y", "value"),
        ("b", "x", "value"),
    ]
    assert {note.kind for output in found.outputs for note in output.notes} == {"paired-by-value"}


def test_no_result_is_a_yes() -> None:
    found = compare_arrays({"y": LOGITS}, {"y": LOGITS})
    for result in (found, found.outputs[0]):
        with pytest.raises(TypeError, match="verdict"):
            bool(result)
        assert type(result).__dataclass_params__.frozen  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([1.0, 2.0], "list"),
        (1.0, "float"),
        ("text", "str"),
        (None, "NoneType"),
        (np.array(["a"]), "<U1"),
        (np.array([None]), "object"),
        (np.array([1j]), "complex"),
        (np.array(["2020-01-01"], "M8[D]"), "datetime64"),
        (np.ma.masked_array([1.0], [True]), "MaskedArray"),
        (np.zeros(2, [("a", "f4")]), "cannot be compared"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused_with_its_name(value: object, says: str) -> None:
    with pytest.raises(TypeError, match=says) as caught:
        compare_arrays({"y": LOGITS}, {"y": value})
    assert "candidate['y']" in str(caught.value)


def test_a_side_must_be_a_mapping() -> None:
    with pytest.raises(TypeError, match="reference must be a mapping of name to array, not list"):
        compare_arrays([LOGITS], {"y": LOGITS})  # type: ignore[arg-type]


@pytest.mark.parametrize("tolerance", [0, -1.0, float("nan"), float("inf")])
def test_a_bad_tolerance_is_refused_even_without_floats(tolerance: float) -> None:
    with pytest.raises(ValueError, match="positive finite"):
        compare_arrays({}, {}, tolerance=tolerance)


def test_index_scores_may_be_named_or_given_and_must_fit() -> None:
    ties = np.repeat(LOGITS, 2, axis=1)
    reference, candidate = {"s": ties, "i": ties.argmax(1)}, {"s": ties, "i": ties.argmax(1) + 1}
    for scores in ("s", ties):
        assert compare_arrays(reference, candidate, index_scores={"i": scores}).verdict == Verdict.NOISE
    with pytest.raises(ValueError, match="no float output"):
        compare_arrays(reference, candidate, index_scores={"i": "t"})
    with pytest.raises(ValueError, match="do not explain"):
        compare_arrays(reference, candidate, index_scores={"i": -LOGITS})


def test_the_floor_of_the_scores_says_what_ties() -> None:
    scores = LOGITS.copy()
    scores[:, 1] = scores.max(axis=1) - np.float32(1e-4)
    top = scores.argmax(axis=1)
    reference, candidate = {"s": scores, "i": top}, {"s": scores + np.float32(1e-7), "i": np.ones_like(top)}
    assert compare_arrays(reference, candidate).outputs[1].verdict == Verdict.BREAK
    loose = [{"s": scores + np.float32(1e-4)}]
    assert compare_arrays(reference, candidate, perturbed=loose).outputs[1].verdict == Verdict.NOISE


def test_byte_order_scalars_and_strides_make_no_difference() -> None:
    swapped = LOGITS.astype(">f4")
    assert one(swapped).verdict == Verdict.IDENTICAL
    assert one(np.asfortranarray(LOGITS)).verdict == Verdict.IDENTICAL
    assert one(np.float32(2.0), np.array(2.0, np.float32)).verdict == Verdict.IDENTICAL


def test_a_full_tolerance_replaces_the_noise_limit_too() -> None:
    assert one(LOGITS * np.float32(1.001), oracle=ORACLE, tolerance=Tolerance(1e-5, 1e6, 1e6)).verdict == Verdict.NOISE


FINITE = st.floats(-100, 100, width=32)


@settings(max_examples=60)
@given(arrays.arrays("float32", arrays.array_shapes(max_dims=4, max_side=4), elements=FINITE))
def test_any_array_is_identical_to_itself_and_one_ulp_away_is_no_fault(values: np.ndarray) -> None:
    assert one(values.copy(), values).verdict == Verdict.IDENTICAL
    moved = np.where(values == 0, values, np.nextafter(values, np.float32(np.inf)))
    assert one(moved, values, oracle=values.astype(np.float64)).verdict.passes


@settings(max_examples=60)
@given(
    arrays.arrays("float32", arrays.array_shapes(max_dims=3, max_side=4), elements=FINITE),
    st.floats(2.0**-6, 8, width=32),
    st.data(),
)
def test_no_single_wrong_element_passes(values: np.ndarray, error: float, data: st.DataObject) -> None:
    index = data.draw(st.tuples(*(st.integers(0, size - 1) for size in values.shape)))
    wrong = values.copy()
    wrong[index] += np.float32(error)
    assert not one(wrong, values, oracle=values.astype(np.float64)).verdict.passes
