"""Schemas in every form in which a caller may have one."""

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from tensoraudit.checkpoints.tensor_spec import TensorSpec, dtype_name, read_schema
from tensoraudit.errors import InputError


def test_every_form_gives_the_same_spec():
    schema = {
        "spec": TensorSpec((2, 3), "float32"),
        "fields": {"shape": [2, 3], "dtype": "float32"},
        "numpy": np.zeros((2, 3), np.float32),
        "torch": torch.zeros(2, 3),
        "class": {"shape": (2, 3), "dtype": np.float32},
        "framework": {"shape": torch.Size([2, 3]), "dtype": torch.float32},
    }
    assert set(read_schema(schema).values()) == {TensorSpec((2, 3), "float32")}


def test_a_shape_and_nothing_are_specs_too():
    assert read_schema({"a": (4, 1), "b": [], "c": None}) == {
        "a": TensorSpec((4, 1)),
        "b": TensorSpec(()),
        "c": TensorSpec(),
    }


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (torch.bfloat16, "bfloat16"),
        (np.dtype("<f2"), "float16"),
        (np.int8, "int8"),
        ("torch.bool", "bool"),
        (bool, "bool"),
    ],
)
def test_a_dtype_of_any_framework_has_one_name(dtype, name):
    assert dtype_name(dtype) == name


def test_another_checkpoint_is_a_schema(tmp_path):
    save_file({"a.w": np.zeros((2, 5), np.float16)}, tmp_path / "like.safetensors")
    assert read_schema(tmp_path / "like.safetensors") == {"a.w": TensorSpec((2, 5), "float16")}


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (["a"], "a list is no schema"),
        ({"a": "float32"}, r"schema\['a'\]: 'float32' is no shape"),
        ({"a": ("x",)}, "is no shape"),
        ({"a": {"shap": (1,)}}, "'shap' is no field. Did you mean 'shape'"),
        ({"a": {"permutation": (0, 2)}}, r"\(0, 2\) is no permutation"),
        ({"a": {"permutation": (0, 0)}}, "Write each axis once"),
        ({"a": {"cast": True}}, "a cast needs a dtype"),
        ({"a": {"cast": True, "dtype": "float8_e5m2"}}, "nothing can be cast to float8_e5m2"),
    ],
)
def test_what_is_no_schema_is_refused_with_its_name(schema, says):
    with pytest.raises(InputError, match=says):
        read_schema(schema)
