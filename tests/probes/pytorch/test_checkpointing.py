"""Every way to checkpoint is seen, and can be removed."""

import functools
import sys
import threading

import pytest
import torch
from checkpointed_models import WAYS, HandWritten, NewStyle, by_generator
from torch.autograd import Function
from torch.utils import checkpoint as torch_checkpoint

from tensoraudit.probes.pytorch.checkpointing import removed, watched
from tensoraudit.probes.pytorch.training_watch import in_backward, lines_watched

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


def two_lines(first, second):
    """A model that runs two blocks at two lines, each in its own way, and the numbers of the lines."""

    class TwoLines(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, x):
            x = first(self.first, x * self.second.bias)
            return second(self.second, x)

    start = TwoLines.forward.__code__.co_firstlineno
    return TwoLines(), [(__file__, start + 1), (__file__, start + 2)]


def reentrant(block, x):
    return torch_checkpoint.checkpoint(block, x, use_reentrant=True)


def lazily(block, x):
    return torch_checkpoint.checkpoint(block, x, use_reentrant=False)


BODIES = {"reentrant": reentrant, "not reentrant": lazily, "hand-written": HandWritten.of, "generator": by_generator}


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("way", BODIES)
def test_all_but_one_line_are_removed(way, kept):
    """The line is that of the call: here each helper has one, so the two blocks are run by helpers of their own."""
    body = BODIES[way]
    torch.manual_seed(0)
    copies = [type(body)(body.__code__.replace(co_firstlineno=1000 * number), body.__globals__) for number in (1, 2)]
    module, _ = two_lines(*copies)
    with watched(module) as regions:
        before = step(module)
    places = sorted(regions.places())
    assert len(places) == 2
    with removed(module, OWN, places[kept]) as regions:
        after = step(module)
    assert {place: (each.entered, each.recomputed) for place, each in regions.places().items()} == {
        places[kept]: (1, 1)
    }
    assert list(regions.places()[places[kept]].modules) == [["first", "second"][kept]]
    assert set(regions.calls[True]) == {["first", "second"][kept]}
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_region_is_known_by_the_line_that_calls_checkpoint():
    direct = functools.partial(torch_checkpoint.checkpoint, use_reentrant=False)
    module, lines = two_lines(direct, HandWritten.of)
    with watched(module) as regions:
        step(module)
    first, second = regions.places().items()
    assert first[0] == lines[0]
    assert second[0] == (sys.modules["checkpointed_models"].__file__, HandWritten.of.__code__.co_firstlineno + 2)
    assert second[1].functions == {(sys.modules["checkpointed_models"].__file__, "HandWritten")}
    assert (first[1].entered, first[1].recomputed, list(first[1].modules)) == (1, 1, ["first"])


def test_lines_that_run_again():
    ran = []

    def body(x):
        ran.append(1)
        return x.sin()

    class Lines(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x):
            x = self.layer(x)
            x = torch_checkpoint.checkpoint(body, x, use_reentrant=True)
            if x is None:
                ran.append(3)
            return x * 2

    start, inside = Lines.forward.__code__.co_firstlineno, body.__code__.co_firstlineno + 1
    module, asked = Lines(), [(__file__, line) for line in (inside, start + 1, start + 4)]
    tracer = sys.gettrace()
    with watched(module) as regions, lines_watched(regions, asked):
        step(module)
    assert sys.gettrace() is tracer
    assert ran == [1, 1]
    assert regions.ran == {(__file__, inside), (__file__, start + 1)}
    assert regions.again == {(__file__, inside): {(__file__, start + 2)}}


def test_lines_that_run_again_in_another_thread():
    """As on CUDA, where autograd has threads of its own."""

    def body(x):
        y = x * 2
        return y.sin()

    layer, lines = torch.nn.Linear(4, 4), [(__file__, body.__code__.co_firstlineno + 1)]
    left = []
    with watched(layer) as regions, lines_watched(regions, lines):
        loss = torch_checkpoint.checkpoint(body, layer(torch.ones(2, 4)), use_reentrant=False).sum()
        thread = threading.Thread(target=lambda: left.append((loss.backward(), sys.gettrace())))
        hook, threading._trace_hook = threading._trace_hook, None  # a tracer of the test run itself
        thread.start()
        thread.join()
        threading._trace_hook = hook
    assert list(regions.again) == lines
    assert left == [(None, None)]


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
