"""`diff_checkpoints`: what headers let suspect and what values settle, against arrays changed on purpose."""

import hashlib

import numpy as np
import pytest

from tensoraudit.checkpoints.diff import diff_checkpoints
from tensoraudit.checkpoints.schema import Part
from tensoraudit.equivalence.parameter import Term

RANDOM = np.random.default_rng(7)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def bfloat16(values):
    """Words of bfloat16, rounded to nearest even by the definition: through float64 and the spacing of each number."""
    import torch

    return torch.from_numpy(values).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)


def sha(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def only_pair(store, one, other, **how):
    found = diff_checkpoints(store("a", {"w": one}), store("b", {"w": other}), **how)
    (pair,) = found.pairs
    return pair


def test_headers_alone_read_no_file(store, tmp_path):
    sides = store("a", {"w": normal(3, 5)}), store("b", {"w": normal(3, 5)})
    for name in "ab":
        (tmp_path / name).unlink()
    (pair,) = diff_checkpoints(*sides).pairs
    assert (pair.status, pair.by, pair.digests, pair.linf, pair.verdict) == ("same_header", "name", ("", ""), None, "")


def test_equal(store):
    array = normal(3, 5)
    pair = only_pair(store, array, array, values=True)
    assert (pair.status, pair.verdict, pair.linf) == ("equal", "identical", 0.0)
    assert pair.digests == (sha(array), sha(array))


def test_nan_is_equal_to_itself(store):
    array = np.array([1.0, np.nan, np.inf], np.float32)
    assert only_pair(store, array, array, values=True).status == "equal"


@pytest.mark.parametrize("where", [0, 12345, -1])
@pytest.mark.parametrize("shape", [(701, 1009), (707_309,)])
def test_one_changed_element_is_found(store, shape, where):
    """In the first block, in the middle and at the very end."""
    array = normal(*shape)
    changed = array.copy()
    changed.reshape(-1)[where] += np.float32(0.5)
    pair = only_pair(store, array, changed, values=True)
    assert (pair.status, pair.verdict) == ("different", "drift")
    assert pair.linf == pytest.approx(0.5, rel=1e-6)
    assert pair.digests == (sha(array), sha(changed))


def test_noise_is_named(store):
    array = normal(31, 37)
    pair = only_pair(store, array, np.nextafter(array, np.float32(9)), values=True)
    assert (pair.status, pair.verdict) == ("different", "equivalent")
    assert 0 < pair.linf < 1e-6


def test_nan_on_one_side_is_a_break(store):
    array = normal(31)
    changed = array.copy()
    changed[3] = np.nan
    pair = only_pair(store, array, changed, values=True)
    assert (pair.status, pair.verdict) == ("different", "break")
    assert "1 of 31 values are NaN" in pair.note


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int8", "bool", "uint8"])
def test_integers_are_exact(store, dtype):
    array = np.arange(12).astype(dtype).reshape(3, 4)
    changed = array.copy()
    changed[2, 3] = 0 if changed[2, 3] else 1
    assert only_pair(store, array, array, values=True).status == "equal"
    pair = only_pair(store, array, changed, values=True)
    assert (pair.status, pair.verdict) == ("different", "break")
    assert pair.linf == (1 if dtype == "bool" else 11)


def test_int64_differences_below_the_precision_of_doubles(store):
    array = np.array([2**62, 5])
    pair = only_pair(store, array, array + np.array([1, 0]), values=True)
    assert (pair.status, pair.linf) == ("different", 1.0)


def test_complex_numbers(store):
    array = (normal(7) + 1j * normal(7)).astype(np.complex64)
    assert only_pair(store, array, array, values=True).status == "equal"
    pair = only_pair(store, array, array + np.complex64(1j), values=True)
    assert (pair.status, pair.linf) == ("different", pytest.approx(1.0))


class TestPermuted:
    def test_headers_suspect(self, store):
        pair = only_pair(store, normal(3, 5, 7, 11), normal(7, 11, 5, 3))
        assert (pair.status, pair.permutation) == ("permuted", (2, 3, 1, 0))
        assert "suspected" in pair.note

    def test_headers_know_the_layouts(self, store):
        """A kernel that is square in every way: only the names of its axes tell."""
        one, other = (normal(3, 3, 3, 3), {"axes": "OIHW"}), (normal(3, 3, 3, 3), {"axes": "HWIO"})
        pair = only_pair(store, one, other)
        assert (pair.status, pair.permutation) == ("permuted", (2, 3, 1, 0))
        assert "OIHW" in pair.note

    @pytest.mark.parametrize("order", [(2, 3, 1, 0), (3, 2, 0, 1), (0, 1, 3, 2), (1, 0, 2, 3)])
    @pytest.mark.parametrize("shape", [(3, 5, 7, 11), (5, 5, 5, 5), (5, 5, 3, 3)])
    def test_values_settle(self, store, shape, order):
        array = normal(*shape)
        pair = only_pair(store, array, array.transpose(order), values=True)
        assert (pair.status, pair.verdict, pair.permutation) == ("permuted", "identical", order)
        assert pair.digests == (sha(array), sha(array))
        assert "suspected" not in pair.note

    def test_square_dense(self, store):
        array = normal(11, 11)
        pair = only_pair(store, array, array.T, values=True)
        assert (pair.status, pair.permutation) == ("permuted", (1, 0))

    def test_larger_than_a_block(self, store):
        array = normal(1_031, 613)
        pair = only_pair(store, array, array.T, values=True)
        assert (pair.status, pair.verdict, pair.digests) == ("permuted", "identical", (sha(array), sha(array)))

    def test_one_element_wrong_is_no_permutation(self, store):
        array = normal(1_031, 613)
        turned = array.T.copy()
        turned[600, 1_000] += 1
        pair = only_pair(store, array, turned, values=True)
        assert pair.status == "different"

    def test_a_cast_does_not_hide_it(self, store):
        array = normal(5, 5, 7, 7)
        words = bfloat16(array.transpose(2, 3, 1, 0).copy())
        pair = only_pair(store, array, (words, {"dtype": "bfloat16"}), values=True)
        assert (pair.status, pair.permutation) == ("permuted", (2, 3, 1, 0))
        assert pair.dtypes == ("float32", "bfloat16")
        assert 0 < pair.loss["relative"] <= 2.0**-8
        assert pair.digests == (sha(array), sha(bfloat16(array)))

    def test_a_kernel_that_was_not_moved_though_its_format_says_so(self, store):
        array = normal(3, 3, 3, 3)
        pair = only_pair(store, (array, {"axes": "OIHW"}), (array, {"axes": "HWIO"}), values=True)
        assert (pair.status, pair.permutation) == ("equal", ())
        assert "OIHW and HWIO" in pair.note

    def test_gates_in_another_order(self, store):
        array = normal(20, 7)
        gates = np.concatenate([array[5:10], array[:5], array[10:]])
        pair = only_pair(store, array, gates, values=True)
        assert pair.status == "permuted"
        assert "[1, 0, 2, 3] of 4" in pair.note


class TestReshaped:
    def test_headers_suspect(self, store):
        assert only_pair(store, normal(6, 5), normal(30)).status == "reshaped"

    def test_values_settle(self, store):
        array = normal(6, 5)
        pair = only_pair(store, array, array.reshape(2, 15), values=True)
        assert (pair.status, pair.verdict, pair.digests) == ("reshaped", "identical", (sha(array), sha(array)))
        assert only_pair(store, array, normal(30), values=True).status == "different"

    def test_a_kernel_reshaped_instead_of_moved(self, store):
        array = normal(3, 5)
        assert only_pair(store, array, array.T, values=True).status == "permuted"
        assert only_pair(store, array, array.reshape(5, 3), values=True).status == "reshaped"

    def test_heads_of_attention(self, store):
        """Flax keeps (model, heads, size), PyTorch (heads * size, model)."""
        kernel = normal(11, 3, 5)
        pair = only_pair(store, kernel.reshape(11, 15).T.copy(), kernel, values=True)
        assert (pair.status, pair.verdict) == ("reshaped", "identical")

    def test_depthwise_with_a_multiplier(self, store):
        """Keras keeps (height, width, channels, multiplier), PyTorch (channels * multiplier, 1, height, width)."""
        kernel = normal(3, 5, 7, 2)
        torch_kernel = kernel.transpose(2, 3, 0, 1).reshape(14, 1, 3, 5)
        pair = only_pair(store, torch_kernel, kernel, values=True)
        assert (pair.status, pair.verdict) == ("reshaped", "identical")

    def test_rows_behind_a_flatten(self, store):
        kernel = normal(7, 3 * 5)
        moved = kernel.reshape(7, 3, 5).transpose(0, 2, 1).reshape(7, 15)
        pair = only_pair(store, kernel, moved, values=True)
        assert pair.status == "permuted"
        assert pair.permutation == () and "the same after" in pair.note


class TestPadded:
    def test_vocabulary(self, store):
        table = normal(50, 3)
        padded = np.concatenate([table, np.zeros((14, 3), np.float32)])
        assert only_pair(store, table, padded).status == "padded"
        pair = only_pair(store, table, padded, values=True)
        assert (pair.status, pair.verdict) == ("padded", "identical")
        assert "14 more along axis 0, zeros" in pair.note
        assert pair.digests == (sha(table), sha(table))

    def test_the_reference_may_be_the_longer(self, store):
        table = normal(64, 3)
        pair = only_pair(store, table, table[:50], values=True)
        assert pair.status == "padded" and "not zeros" in pair.note

    def test_other_values_or_other_sizes_are_no_padding(self, store):
        assert only_pair(store, normal(50, 3), normal(64, 3), values=True).status == "different"
        assert only_pair(store, normal(50, 3), normal(51, 3)).status == "different"
        assert only_pair(store, normal(8, 3), normal(800, 3)).status == "different"


class TestCast:
    def test_headers(self, store):
        pair = only_pair(store, normal(5), (np.zeros(5, np.uint16), {"dtype": "bfloat16"}))
        assert (pair.status, dict(pair.loss)) == ("cast", {"narrowing": True})
        pair = only_pair(store, (np.zeros(5, np.uint16), {"dtype": "bfloat16"}), normal(5))
        assert (pair.status, dict(pair.loss)) == ("cast", {"narrowing": False})

    def test_to_bfloat16(self, store):
        array = normal(700, 501)
        words = bfloat16(array)
        pair = only_pair(store, array, (words, {"dtype": "bfloat16"}), values=True)
        back = (words.astype(np.uint32) << 16).view(np.float32)
        gap = np.abs(array - back)
        assert pair.status == "cast"
        assert pair.loss["linf"] == pair.linf == pytest.approx(float(gap.max()), rel=1e-6)
        assert pair.loss["relative"] == pytest.approx(float((gap / np.abs(array)).max()), rel=1e-5)
        assert (pair.loss["to_inf"], pair.loss["to_zero"]) == (0, 0)
        assert pair.digests == (sha(array), sha(words))

    def test_the_other_way_the_reference_has_lost(self, store):
        array = normal(70, 51)
        pair = only_pair(store, (bfloat16(array), {"dtype": "bfloat16"}), array, values=True)
        assert (pair.status, pair.loss["narrowing"]) == ("cast", False)

    def test_to_float16_with_overflow_and_flush(self, store):
        array = np.array([1e6, -1e7, 1e-9, 0.0, 1.0, 0.1], np.float32)
        with np.errstate(over="ignore"):
            half = array.astype(np.float16)
        pair = only_pair(store, array, half, values=True)
        assert (pair.status, pair.verdict) == ("cast", "break")
        assert (pair.loss["to_inf"], pair.loss["to_zero"]) == (2, 1)
        assert pair.loss["relative"] == pytest.approx(abs(np.float32(0.1) - np.float32(half[5])) / 0.1, rel=1e-5)

    def test_truncated_instead_of_rounded_is_told(self, store):
        """Cutting bits off is no cast of any framework."""
        array = normal(400)
        cut = (array.view(np.uint32) >> 16).astype(np.uint16)
        pair = only_pair(store, array, (cut, {"dtype": "bfloat16"}), values=True)
        assert pair.status == "different"
        assert pair.loss["relative"] > 2.0**-8

    def test_other_values_are_no_cast(self, store):
        pair = only_pair(store, normal(40), (bfloat16(normal(40)), {"dtype": "bfloat16"}), values=True)
        assert (pair.status, pair.verdict) == ("different", "break")

    def test_integers(self, store):
        array = np.array([1, 2, 300], np.int64)
        assert only_pair(store, array, array.astype(np.int32), values=True).status == "cast"
        pair = only_pair(store, array, array.astype(np.int8), values=True)
        assert (pair.status, pair.loss["narrowing"]) == ("different", True)

    def test_words_of_two_types_are_not_equal(self, store):
        """The same bytes, read as bfloat16 and as float16."""
        words = bfloat16(normal(40))
        pair = only_pair(store, (words, {"dtype": "bfloat16"}), (words, {"dtype": "float16"}), values=True)
        assert pair.status == "different"


def test_a_folded_normalisation_is_named(store):
    kernel = normal(3, 3, 5, 7)
    folded = (kernel * np.linspace(0.5, 2, 7, dtype=np.float32)).transpose(3, 2, 0, 1)
    pair = only_pair(store, kernel, folded, values=True)
    assert pair.status == "different" and "times a factor of its own" in pair.note


@pytest.mark.parametrize(("shape", "order"), [((64, 6), (1, 0)), ((7, 7), (1, 0)), ((3, 3, 5, 7), (3, 2, 0, 1))])
def test_one_changed_element_of_a_turned_kernel_is_all_that_differs(store, shape, order):
    kernel = normal(*shape)
    turned = np.ascontiguousarray(kernel.transpose(order))
    turned.flat[5] += np.float32(0.001)
    pair = only_pair(store, kernel, turned, values=True)
    assert (pair.status, pair.permutation) == ("different", order)
    assert pair.linf == pytest.approx(0.001, rel=1e-3)
    assert pair.digests == (sha(kernel), sha(turned.transpose(np.argsort(order))))


def test_missing_and_extra(store):
    found = diff_checkpoints(
        store("a", {"w": normal(3), "only": normal(5, 2), "bn.num_batches_tracked": np.array(3)}),
        store("b", {"more": normal(7, 3), "w": normal(3)}),
    )
    assert [(p.reference, p.candidate, p.status) for p in found.pairs] == [
        ("w", "w", "same_header"),
        ("only", "", "missing"),
        ("bn.num_batches_tracked", "", "missing"),
        ("", "more", "extra"),
    ]
    assert "counter" in found.pairs[2].note
    assert found.pairs[1].shapes == ((5, 2), ())


def test_a_tied_weight_that_is_missing_says_whose_it_is(store):
    tied = store("a", {"emb": normal(5, 3), "head": (normal(5, 3), {"same_as": "emb"})})
    found = diff_checkpoints(tied, store("b", {"emb": normal(5, 3)}))
    assert (found.pairs[1].status, found.pairs[1].note) == ("missing", "shares its bytes with emb")


def test_unread_with_the_reason(store, tmp_path):
    sides = store("a", {"w": normal(3), "v": normal(4)}), store("b", {"w": normal(3), "v": normal(4)})
    (tmp_path / "b").write_bytes(b"head" + bytes(14))
    found = diff_checkpoints(*sides, values=True)
    assert [pair.status for pair in found.pairs] == ["different", "unread"]
    assert "ends at byte" in found.pairs[1].note


def test_packed_bytes_are_unread(store):
    one = store("a", {"w": normal(3)})
    entry = one.entries[0]._replace(parts=(Part("a", None, 12, codec="ocdbt"),))
    packed = type(one)(one.path, one.root, "raw", "numpy", one.files, (entry,))
    (pair,) = diff_checkpoints(one, packed, values=True).pairs
    assert pair.status == "unread" and "ocdbt" in pair.note


class TestByValue:
    def test_names_say_nothing(self, store):
        arrays = {"a": normal(5, 7), "b": normal(7, 5), "c": normal(35), "d": normal(11), "e": normal(11)}
        others = {
            "v1": arrays["e"],
            "v2": arrays["c"].reshape(5, 7),
            "v3": arrays["a"].T,
            "v4": (bfloat16(arrays["b"]), {"dtype": "bfloat16"}),
            "v5": arrays["d"],
        }
        found = diff_checkpoints(store("a", arrays), store("b", others), values=True, by_value=True)
        assert {p.reference: (p.candidate, p.status) for p in found.pairs} == {
            "a": ("v3", "permuted"),
            "b": ("v4", "cast"),
            "c": ("v2", "reshaped"),
            "d": ("v5", "equal"),
            "e": ("v1", "equal"),
        }
        assert {p.by for p in found.pairs} <= {"value", "shape"}

    def test_other_values_are_not_paired(self, store):
        sides = store("a", {"a": normal(50), "b": normal(50)}), store("b", {"c": normal(50), "d": normal(50)})
        assert {p.status for p in diff_checkpoints(*sides, by_value=True).pairs} == {"missing", "extra"}

    def test_constants_pair_nothing(self, store):
        ones = np.ones(50, np.float32)
        sides = store("a", {"a": ones, "b": ones}), store("b", {"c": ones, "d": ones})
        assert {p.status for p in diff_checkpoints(*sides, by_value=True).pairs} == {"missing", "extra"}

    def test_copies_pair_in_their_order(self, store):
        array = normal(50)
        sides = store("a", {"a": array, "b": array}), store("b", {"c": array, "d": array})
        found = diff_checkpoints(*sides, by_value=True).pairs
        assert [(p.reference, p.candidate) for p in found] == [("a", "c"), ("b", "d")]

    def test_headers_alone_pair_no_copies(self, store):
        array = normal(50)
        sides = store("a", {"a": array, "b": array}), store("b", {"c": array, "d": array})
        assert {p.status for p in diff_checkpoints(*sides).pairs} == {"missing", "extra"}


class TestMap:
    def test_names(self, store):
        sides = store("a", {"a": normal(5), "b": normal(5)}), store("b", {"b": normal(5), "c": normal(5)})
        found = diff_checkpoints(*sides, mapping={"a": "b", "b": "c"})
        assert [(p.reference, p.candidate, p.by) for p in found.pairs] == [("a", "b", "map"), ("b", "c", "map")]

    def test_steps_of_a_map_file(self, store):
        array = normal(12, 5)
        gates = np.concatenate([array[3:6], array[:3], array[6:]]).T
        steps = ({"gates": {"axis": 0, "of": 4, "order": [1, 0, 2, 3]}}, {"transpose": [1, 0]})
        sides = store("a", {"ours": array}), store("b", {"theirs": gates})
        mapping = {"theirs": (Term("ours", steps),)}
        (pair,) = diff_checkpoints(*sides, mapping=mapping, values=True).pairs
        assert (pair.by, pair.status, pair.verdict) == ("map", "permuted", "identical")
        wrong = {"theirs": (Term("ours", ({"transpose": [1, 0]},)),)}
        (pair,) = diff_checkpoints(*sides, mapping=wrong, values=True).pairs
        assert pair.status == "different" and pair.verdict in ("drift", "break")
        unfit = {"theirs": (Term("ours", ({"reshape": [7, 7]},)),)}
        (pair,) = diff_checkpoints(*sides, mapping=unfit, values=True).pairs
        assert pair.status == "different" and "does not fit" in pair.note


def test_progress_is_told(store):
    told = []
    array = normal(3)
    diff_checkpoints(store("a", {"w": array}), store("b", {"w": array}), values=True, progress=told.append)
    assert told == ["values of tensor 1 of 1"]
