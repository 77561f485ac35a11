import numpy as np
import pytest

from tensoraudit.audit.prepare import check_names, read_specs, require_drawable, signature
from tensoraudit.audit.probing import fetch
from tensoraudit.audit.samples import (
    base_sizes,
    batch_labels,
    changes,
    dynamic_dims,
    generated,
    make_samples,
    name_arrays,
    with_values,
)
from tensoraudit.equivalence.inputs import InputSpec
from tensoraudit.errors import InputError
from tensoraudit.facts import Unknown
from tensoraudit.probes.bfloat16 import bfloat16, is_bfloat16

ARGUMENTS = [{"name": "ids"}, {"name": "mask"}]


def ids(batch, length):
    return np.arange(batch * length, dtype=np.int64).reshape(batch, length)


def test_arrays_without_the_arguments_names_are_bound_in_order():
    bound = name_arrays([{"arr_0": ids(2, 3), "arr_1": ids(2, 3)}], ARGUMENTS, [])
    assert list(bound[0]) == ["ids", "mask"]


def test_arrays_with_the_arguments_names_keep_them_in_any_order():
    bound = name_arrays([{"mask": ids(2, 3), "ids": ids(2, 3)}], ARGUMENTS, [])
    assert list(bound[0]) == ["mask", "ids"]


def test_too_many_arrays_are_refused_with_the_names_to_use():
    with pytest.raises(InputError, match="ids, mask"):
        name_arrays([{"a": ids(1, 2), "b": ids(1, 2), "c": ids(1, 2)}], ARGUMENTS, [])


def test_dimensions_that_differ_between_samples_are_dynamic_and_share_a_name_when_they_move_together():
    samples = [{"ids": ids(2, 11), "mask": ids(2, 11)}, {"ids": ids(3, 7), "mask": ids(3, 7)}]
    dims = dynamic_dims(samples, [], {})
    assert dims["ids"]["0"] == dims["mask"]["0"] == "batch"
    assert dims["ids"]["1"] == dims["mask"]["1"]


def test_names_in_a_spec_are_dynamic_dimensions():
    dims = dynamic_dims([], [InputSpec("x", "float32", ("batch", 3, "height", 5))], {})
    assert dims == {"x": {"0": "batch", "2": "height"}}


def test_base_sizes_come_from_the_sample():
    assert base_sizes({"ids": ids(2, 11)}, {"ids": {"0": "batch", "1": "length"}}) == {"batch": 2, "length": 11}


def test_batches_one_two_and_an_odd_one_are_tried_and_another_length():
    tried = list(changes({"batch": 2, "length": 11}, {"batch"}))
    assert [c["batch"] for c in tried if "batch" in c] == [1, 5]
    lengths = [c["length"] for c in tried if "length" in c]
    assert 11 not in lengths
    assert min(lengths) < 11 < max(lengths)


def test_a_fixed_value_replaces_the_sample():
    sample = with_values({"x": ids(1, 2)}, [InputSpec("sr", "int64", (), value=16000)])
    assert sample["sr"].dtype == np.int64
    assert sample["sr"].item() == 16000


def test_token_ids_stay_within_the_vocabulary():
    (sample,) = generated([InputSpec("input_ids", "int64", ("batch", 50))], 11, seed=0)
    assert sample["input_ids"].min() >= 0
    assert sample["input_ids"].max() < 11


def test_samples_start_with_the_users_own_and_say_what_they_are():
    own = {"x": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)}
    samples = make_samples([own], {"x": {"0": "batch"}}, 0, from_user=True)
    assert samples[0].arrays["x"] is own["x"]
    kinds = {sample.kind for sample in samples}
    assert kinds == {"user", "random", "size", "edge"}
    draws = [sample.arrays["x"] for sample in samples if sample.kind == "random"]
    assert all(draw.shape == (2, 3) and not np.array_equal(draw, own["x"]) for draw in draws)


def test_sizes_keep_the_dtype_and_change_only_their_dimension():
    own = {"x": np.zeros((2, 3, 5), np.float32)}
    sized = [s for s in make_samples([own], {"x": {"0": "batch"}}, 0, from_user=True) if s.kind == "size"]
    assert {s.arrays["x"].shape for s in sized} == {(1, 3, 5), (5, 3, 5)}
    assert all(s.arrays["x"].dtype == np.float32 for s in sized)


def test_a_batch_is_told_by_its_name_or_by_being_first():
    assert batch_labels({"x": {"0": "batch", "1": "length"}}) == {"batch"}
    assert batch_labels({"x": {"0": "rows"}}) == {"rows"}


def test_a_signature_with_nameless_dimensions_gets_names():
    specs = signature([{"name": "x", "dtype": "float32", "shape": ("?", 3, Unknown("not in the file"))}])
    assert specs[0].shape == ("batch", 3, "x_2")


def test_a_signature_without_shapes_tells_nothing():
    assert signature([{"name": "x", "dtype": Unknown("?"), "shape": Unknown("?")}]) == []


def test_an_input_that_is_no_argument_is_refused():
    with pytest.raises(InputError, match="x"):
        check_names([InputSpec("y", "float32", (1,))], [{"name": "x"}], explicit=True)


def test_a_wrong_specification_is_the_users_error():
    with pytest.raises(InputError, match="name:dtype"):
        read_specs(["x"])


def test_sizes_that_strided_networks_accept_come_after_the_primes():
    shapes = [
        s["x"].shape for s in generated([InputSpec("x", "float32", ("batch", 3, "height", "width"))], None, seed=0)
    ]
    assert all(size > 1 and all(size % n for n in range(2, size)) for size in shapes[0][2:])
    assert all(size % 32 == 0 for shape in shapes[1:] for size in shape[2:])
    assert all(shape[2] != shape[3] for shape in shapes)


def is_narrow(array):
    """Whether every value is one of bfloat16, and the array says so."""
    low = np.asarray(array).reshape(-1).view(np.uint32) & np.uint32(0xFFFF)
    return is_bfloat16(array) and not low.any()


def test_every_input_set_of_a_bfloat16_sample_is_bfloat16():
    user = [{"x": bfloat16(np.random.default_rng(0).standard_normal((3, 5)))}]
    made = make_samples(user, {"x": {"0": "batch"}}, 0, from_user=True)
    assert {each.kind for each in made} == {"user", "random", "size", "edge"}
    assert all(is_narrow(each.arrays["x"]) for each in made)
    (large,) = [each.arrays["x"] for each in made if each.name == "edge-large"]
    assert np.abs(large).max() == 9984.0  # the nearest to 10000 in steps of 64


def test_a_specification_may_say_bfloat16():
    (spec,) = read_specs(["serving_default_x:0:bfloat16[batch,4]"])
    assert spec == InputSpec("serving_default_x:0", "bfloat16", ("batch", 4))
    (first,) = generated([spec], None, seed=0)
    assert is_narrow(first[spec.name]) and first[spec.name].shape == (2, 4)
    fixed = with_values({"x": np.float32([1.00390625 + 2**-20])}, read_specs(["x:bfloat16[1]", "k:bfloat16[]=3.1416"]))
    assert is_narrow(fixed["x"]) and fixed["x"].tolist() == [1.0078125]
    assert is_narrow(fixed["k"]) and fixed["k"] == 3.140625
    with pytest.raises(InputError, match="unknown dtype 'float8'"):
        read_specs(["x:float8[2]"])


def test_inputs_in_other_narrow_dtypes_are_refused_and_not_widened():
    with pytest.raises(TypeError, match="input x is float8_e4m3fn, in which no inputs are made here"):
        require_drawable([InputSpec("x", "float8_e4m3fn", (2,))])
    with pytest.raises(TypeError, match="input x is int4, in which no inputs are made here"):
        fetch(None, {"x": {"file": "t-1.bin", "dtype": "int8", "shape": [2], "logical": "int4"}})


def test_both_parts_of_complex_inputs_vary():
    user = [{"x": np.array([[1 + 2j, -3 + 0.5j]], np.complex64)}]
    made = {each.name: each.arrays["x"] for each in make_samples(user, {"x": {"0": "batch"}}, 0, from_user=True)}
    assert all(array.dtype == np.complex64 and array.shape[1:] == (2,) for array in made.values())
    assert not np.array_equal(made["random-0"], user[0]["x"]) and made["batch=5"].shape == (5, 2)
    assert made["edge-negative"].tolist() == [[-1 - 2j, -3 - 0.5j]]
    assert not made["edge-zeros"].any()
