"""Every way to checkpoint is seen, and can be removed."""

import sys
from pathlib import Path

import pytest
import torch
from torch.autograd import Function
from torch.utils import checkpoint as torch_checkpoint

sys.path.insert(0, str(Path(__file__).parent))
from checkpointed_models import WAYS, HandWritten, NewStyle

from tensoraudit.probes.pytorch.checkpointing import in_backward, removed, watched

OWN = {HandWritten, NewStyle}


@pytest.fixture(params=list(WAYS))
def way(request):
    torch.manual_seed(1)
    return request.param, WAYS[request.param]()


def step(module):
    module.zero_grad()
    module(torch.linspace(-1, 1, 20).reshape(5, 4)).square().sum().backward()
    return [parameter.grad.clone() for parameter in module.parameters()]


def test_regions_and_recomputations_are_counted(way):
    name, module = way
    with watched(module) as regions:
        step(module)
    assert (regions.entered, regions.recomputed) == (2, 2)
    assert bool(regions.own) == name.startswith("hand-written")
    assert sum(regions.calls[True].values()) > 0


def test_removed_regions_run_once_and_give_the_same_gradients(way):
    _, module = way
    before = step(module)
    with removed(module, OWN) as regions:
        after = step(module)
    assert sum(regions.calls[True].values()) == 0
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_torch_is_as_it_was_afterwards(way):
    generator, apply = torch_checkpoint._checkpoint_without_reentrant_generator, Function.__dict__["apply"]
    _, module = way
    with watched(module):
        step(module)
    with pytest.raises(ZeroDivisionError), removed(module):
        1 / 0  # noqa: B018
    assert torch_checkpoint._checkpoint_without_reentrant_generator is generator
    assert Function.__dict__["apply"] is apply
    assert not torch.nn.modules.module._global_forward_pre_hooks
    assert not torch.nn.modules.module._global_forward_hooks


def test_a_function_inside_of_a_region_is_not_taken_for_a_hand_written_checkpoint():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            return 2 * ctx.saved_tensors[0] * gradient

    class Inside(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x):
            body = lambda t: Square.apply(self.layer(t))  # noqa: E731
            return torch_checkpoint.checkpoint(body, x, use_reentrant=False)

    module = Inside()
    with watched(module) as regions:
        step(module)
    assert (regions.entered, regions.recomputed, regions.own) == (1, 1, set())


def test_nothing_is_counted_where_nothing_is_differentiated():
    module = WAYS["direct"]()
    with watched(module) as regions, torch.no_grad():
        module(torch.ones(2, 4))
    assert (regions.entered, regions.recomputed) == (0, 0)


def test_backward_is_known_from_inside():
    seen = []
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda gradient: seen.append(in_backward()))
    y.sum().backward()
    assert (seen, in_backward()) == ([True], False)
