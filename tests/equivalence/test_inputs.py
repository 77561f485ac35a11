from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensoraudit.equivalence.inputs import DTYPES, InputSpec, generate, parse_input_spec, role_of

SIZES = {"batch": 2, "length": 7}


def draw(text: str, seed: int = 0, **more: object) -> np.ndarray:
    spec = parse_input_spec(text)
    spec = InputSpec(spec.name, spec.dtype, spec.shape, **{"value": spec.value, **more})  # type: ignore[arg-type]
    return generate([spec], SIZES, seed)[spec.name]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x:float32[batch,3,224,224]", InputSpec("x", "float32", ("batch", 3, 224, 224))),
        ("sr:int64[]=16000", InputSpec("sr", "int64", (), value=16000)),
        (" x : float16 [ batch , 3 ] ".replace(" : ", ":").replace(" [", "["), InputSpec("x", "float16", ("batch", 3))),
        ("serving_default_x:0:float32[1]", InputSpec("serving_default_x:0", "float32", (1,))),
        ("states.0:float64[2,3]=-1.5e-3", InputSpec("states.0", "float64", (2, 3), value=-1.5e-3)),
        ("flag:bool[]=true", InputSpec("flag", "bool", (), value=True)),
        ("mask:bool[4]=0", InputSpec("mask", "bool", (4,), value=False)),
        ("u:uint8[0]=255", InputSpec("u", "uint8", (0,), value=255)),
    ],
)
def test_a_specification_reads_as_written(text: str, expected: InputSpec) -> None:
    assert parse_input_spec(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x", "no input specification"),
        ("x:float32", "no input specification"),
        (":float32[1]", "no input specification"),
        ("x:float32[1", "no input specification"),
        ("x:float33[1]", "unknown dtype 'float33'; use one of float16, float32"),
        ("x:bfloat16[1]", "unknown dtype 'bfloat16'"),
        ("x:float32[-1]", "'-1' is neither a size nor a name"),
        ("x:float32[1,,2]", "'' is neither a size nor a name"),
        ("x:float32[a b]", "'a b' is neither a size nor a name"),
        ("x:int64[]=1.5", "'1.5' is no int64 value"),
        ("x:uint8[]=256", "256 does not fit uint8"),
        ("x:float32[]=abc", "'abc' is no float32 value"),
        ("x:bool[]=2", "write true or false"),
    ],
)
def test_a_wrong_specification_is_refused_with_what_to_write(text: str, says: str) -> None:
    with pytest.raises(ValueError, match="input ") as caught:
        parse_input_spec(text)
    assert says in str(caught.value)
    assert repr(text) in str(caught.value)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    try:
        assert isinstance(parse_input_spec(text), InputSpec)
    except ValueError as error:
        assert "input " in str(error)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_drawn_in_its_shape_and_again_with_the_same_seed(dtype: str) -> None:
    array = draw(f"x:{dtype}[batch,3,length]")
    assert (array.dtype.name, array.shape) == (dtype, (2, 3, 7))
    assert np.array_equal(array, draw(f"x:{dtype}[batch,3,length]"))
    assert draw(f"x:{dtype}[]").shape == ()
    assert draw(f"x:{dtype}[0,3]").shape == (0, 3)


def test_another_seed_or_name_gives_other_values_and_another_argument_does_not() -> None:
    assert not np.array_equal(draw("x:float32[9]"), draw("x:float32[9]", seed=1))
    x, y = parse_input_spec("x:float32[9]"), parse_input_spec("y:float32[9]")
    both = generate([y, x], {}, 0)
    assert np.array_equal(both["x"], draw("x:float32[9]"))
    assert not np.array_equal(both["x"], both["y"])


@pytest.mark.parametrize(
    ("name", "dtype", "role"),
    [
        ("input_ids", "int64", "ids"),
        ("tokens", "int32", "ids"),
        ("token_type_ids", "int64", "segment"),
        ("position_ids", "int64", "position"),
        ("attention_mask", "int64", "mask"),
        ("attentionMask", "bool", "mask"),
        ("src_mask", "float32", None),
        ("image", "float32", "image"),
        ("pixel_values", "float32", "image"),
        ("image", "uint8", None),
        ("x", "float32", None),
        ("idle", "int64", None),
    ],
)
def test_roles_come_from_the_words_of_a_name_and_the_dtype(name: str, dtype: str, role: str | None) -> None:
    assert role_of(InputSpec(name, dtype, ())) == role


def test_a_stated_role_wins() -> None:
    assert role_of(InputSpec("x", "float32", (), role="image")) == "image"


def test_floats_are_standard_normal() -> None:
    array = draw("x:float32[100000]")
    assert abs(array.mean()) < 0.02
    assert abs(array.std() - 1) < 0.02


def test_images_lie_between_zero_and_one() -> None:
    array = draw("image:float32[3,500]")
    assert 0 <= array.min() < 0.01
    assert 0.99 < array.max() <= 1


def test_ids_stay_in_the_vocabulary() -> None:
    array = draw("input_ids:int64[batch,500]", high=30)
    assert (array.min(), array.max()) == (0, 29)
    assert draw("input_ids:int64[batch,500]").max() < 16
    assert set(np.unique(draw("token_type_ids:int64[100]"))) == {0, 1}


def test_positions_count_up_and_wrap_at_the_largest() -> None:
    assert draw("position_ids:int64[batch,length]").tolist() == [list(range(7))] * 2
    assert draw("position_ids:int64[length]", high=3).tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert draw("position_ids:int64[]").tolist() == 0


@pytest.mark.parametrize("dtype", ["int64", "bool", "uint8"])
def test_every_row_of_a_mask_has_a_one_and_ones_come_first(dtype: str) -> None:
    for seed in range(20):
        array = draw(f"attention_mask:{dtype}[batch,length]", seed).astype(int)
        assert set(np.unique(array)) <= {0, 1}
        assert (array.sum(axis=-1) >= 1).all()
        assert (np.diff(array, axis=-1) <= 0).all()
    assert draw(f"mask:{dtype}[]") == 1


def test_bounds_and_fixed_values_are_kept() -> None:
    array = draw("x:float32[1000]", low=2.0, high=3.0)
    assert 2 <= array.min() < array.max() <= 3
    assert (draw("sr:int64[3]=16000") == 16000).all()
    with pytest.raises(ValueError, match=r"no value lies in"):
        draw("x:float32[1]", low=3.0, high=2.0)


def test_a_dynamic_dimension_needs_a_size() -> None:
    with pytest.raises(ValueError, match="no size is given for the dynamic dimension 'width'"):
        draw("x:float32[batch,width]")
