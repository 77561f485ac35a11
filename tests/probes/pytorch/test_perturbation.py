"""One unit in the last place, against numpy's own neighbours."""

import numpy as np
import pytest
import torch

from tensoraudit.probes.pytorch.perturbation import move, perturb_leaves, perturb_module


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_every_element_becomes_one_of_its_two_neighbours(dtype):
    values = torch.linspace(-3, 5, 1001, dtype=torch.float64).to(dtype)
    values = values[values != 0]
    moved = move(values, np.random.default_rng(0)).numpy()
    up, down = np.nextafter(values.numpy(), np.inf), np.nextafter(values.numpy(), -np.inf)
    assert ((moved == up) | (moved == down)).all()
    assert (moved == up).any() and (moved == down).any()


def test_bfloat16_moves_in_its_own_last_place():
    moved = move(torch.ones(200, dtype=torch.bfloat16), np.random.default_rng(0))
    assert set(moved.to(torch.float64).tolist()) == {1 + 2**-7, 1 - 2**-8}


def test_special_values_stay():
    largest = torch.finfo(torch.float32).max
    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, largest, -largest])
    for seed in range(8):
        assert torch.equal(move(special, np.random.default_rng(seed)).view(torch.int32), special.view(torch.int32))


def test_scalars_and_other_layouts():
    assert move(torch.tensor(1.5), np.random.default_rng(0)).shape == ()
    turned = torch.arange(1.0, 7.0).reshape(2, 3).t()
    assert torch.allclose(move(turned, np.random.default_rng(0)), turned)


def test_only_floating_inputs_that_are_no_masks_move():
    leaves = {
        "x": torch.rand(50) + 1,
        "ids": torch.arange(3),
        "mask": torch.tensor([0.0, 1.0]),
        "scale": 2.0,
        "none": None,
    }
    moved, names = perturb_leaves(leaves, 0)
    assert names == ["x"]
    assert not torch.equal(moved["x"], leaves["x"])
    assert all(moved[name] is leaves[name] for name in ("ids", "mask", "scale", "none"))


def test_draws_differ_and_repeat():
    leaves = {"x": torch.rand(50)}
    assert torch.equal(perturb_leaves(leaves, 1)[0]["x"], perturb_leaves(leaves, 1)[0]["x"])
    assert not torch.equal(perturb_leaves(leaves, 1)[0]["x"], perturb_leaves(leaves, 2)[0]["x"])


def test_weights_move_in_place():
    module = torch.nn.Linear(7, 5)
    before = [each.detach().clone() for each in module.parameters()]
    perturb_module(module, 0)
    for old, new in zip(before, module.parameters(), strict=True):
        assert torch.allclose(old, new, rtol=2e-7, atol=0)
        assert not torch.equal(old, new)


def test_both_parts_of_a_complex_number_move():
    leaves = {"z": torch.full((8, 8), 1 + 1j, dtype=torch.complex64).conj()}
    moved, names = perturb_leaves(leaves, 0)
    assert names == ["z"] and moved["z"].shape == (8, 8)
    assert set(moved["z"].real.flatten().tolist()) == {1 + 2**-23, 1 - 2**-24}
    assert set(moved["z"].imag.flatten().tolist()) == {-1 - 2**-23, -1 + 2**-24}
