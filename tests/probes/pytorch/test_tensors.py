"""Tensors to references and back, exactly."""

import numpy as np
import pytest
import torch

from tensoraudit.probes.protocol import JobUnsupported
from tensoraudit.probes.pytorch.tensors import get, put, to_leaf


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool])
def test_round_trip(session, dtype):
    tensor = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype).t()  # not contiguous
    back = get(session, put(session, tensor))
    assert back.dtype == dtype
    assert torch.equal(back, tensor)


def test_bfloat16_is_widened_exactly_and_comes_back(session):
    tensor = torch.tensor([1.0, 1 / 3, 3e38]).to(torch.bfloat16)
    reference = put(session, tensor)
    assert (reference["dtype"], reference["logical"]) == ("float32", "bfloat16")
    assert np.array_equal(session.get(reference), tensor.to(torch.float32).numpy())
    assert torch.equal(get(session, reference), tensor)


def test_numbers_and_none(session):
    assert get(session, {"value": None}) is None
    assert get(session, {"value": 3}) == 3


def test_complex_views_and_empty(session):
    tensor = torch.tensor([1 + 2j, 3 - 1j]).conj()
    assert torch.equal(get(session, put(session, tensor)), tensor.resolve_conj())
    assert get(session, put(session, torch.ones(0, 3))).shape == (0, 3)
    assert get(session, put(session, torch.tensor(5.0))).shape == ()


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_sparse_is_densified_and_quantised_refused(session):
    assert torch.equal(get(session, put(session, torch.eye(3).to_sparse())), torch.eye(3))
    with pytest.raises(JobUnsupported, match="quint8"):
        put(session, torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8))


def test_leaves_of_samples():
    assert torch.equal(to_leaf(np.ones(2, np.float32)), torch.ones(2))
    assert type(to_leaf(np.float64(3.5))) is float
    with pytest.raises(TypeError, match="object"):
        to_leaf(object())
