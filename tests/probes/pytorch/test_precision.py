"""The oracle: double precision through and through, or a reason."""

import numpy as np
import pytest
import torch

from tensoraudit.probes.pytorch.precision import DoublePrecision, NotAnOracle, to_double


def run(function, *tensors):
    with torch.no_grad(), DoublePrecision() as mode:
        result = function(*(each.double() for each in tensors))
    return result, mode


def test_casts_constants_and_named_dtypes_are_widened():
    third = np.float64(1) / 3

    def function(x):
        y = x.float() / 3
        z = torch.tensor(1 / 3, dtype=torch.float32) + torch.full((1,), 1 / 3, dtype=torch.float16)
        return y.to(torch.bfloat16) + z.half()

    result, mode = run(function, torch.ones(1))
    assert result.dtype == torch.float64
    # A Python float that goes through a float32 constant is rounded before anybody sees it; nothing else is.
    assert abs(result.item() - 3 * third) < 3e-8
    assert not mode.lossy


def test_division_and_softmax_are_exact_to_double():
    x = np.linspace(-2, 3, 12).reshape(3, 4)
    result, _ = run(lambda t: torch.softmax(t.float(), -1, dtype=torch.float32), torch.from_numpy(x))
    expected = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    assert np.abs(result.numpy() - expected).max() < 1e-15


def test_float32_arrays_from_outside_are_widened_on_use():
    result, mode = run(lambda x: torch.from_numpy(np.float32([1, 3])).reciprocal() + x, torch.zeros(2))
    assert result.dtype == torch.float64
    assert abs(result[1].item() - 1 / 3) < 1e-16
    assert not mode.lossy


def test_writing_into_a_float32_tensor_from_outside_is_no_oracle():
    outside = torch.ones(2)
    with pytest.raises(NotAnOracle, match="writes into a float32 tensor"):
        run(lambda x: outside.add_(x), torch.zeros(2))
    assert outside.tolist() == [1, 1]


def test_reinterpreted_bits_are_no_oracle():
    with pytest.raises(NotAnOracle, match="reinterprets"):
        run(lambda x: x.view(torch.int32), torch.zeros(2))


def test_random_operators_are_named_with_their_line():
    _, mode = run(lambda x: x + torch.rand(2), torch.zeros(2))
    ((name, at),) = mode.random.items()
    assert name == "aten.rand.default"
    assert at["text"].startswith("_, mode = run(lambda x: x + torch.rand(2)")


def test_attention_without_dropout_is_not_random():
    q = torch.rand(1, 2, 5, 8)
    _, mode = run(lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x), q)
    assert not mode.random


def test_the_default_dtype_is_put_back_even_after_an_error():
    with pytest.raises(ZeroDivisionError):
        run(lambda x: 1 / 0, torch.zeros(1))
    assert torch.get_default_dtype() == torch.float32


def test_weights_buffers_and_tensor_attributes_become_double():
    module = torch.nn.BatchNorm1d(3)
    module.table = torch.ones(2)
    module.ids = torch.ones(2, dtype=torch.int64)
    to_double(module)
    assert module.weight.dtype == module.running_mean.dtype == module.table.dtype == torch.float64
    assert module.ids.dtype == torch.int64
