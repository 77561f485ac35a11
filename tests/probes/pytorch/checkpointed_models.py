"""Models with activation checkpointing, right and wrong, for the tests of the training probe."""

import functools
import random

import numpy as np
import torch
import torch.utils.checkpoint
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from torch.utils.checkpoint import (
    _checkpoint_without_reentrant_generator,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    noop_context_fn,
)
from torch.utils.checkpoint import checkpoint as alias


def mlp(width=4, hidden=16, *inner):
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), *inner, nn.Linear(hidden, width))


class Stack(nn.Module):
    """A first layer, two blocks, a head: the input of each block requires a gradient. `how` is run on every block."""

    def __init__(self, how, make=mlp):
        super().__init__()
        self.how, self.first, self.head = how, nn.Linear(4, 4), nn.Linear(4, 3)
        self.blocks = nn.ModuleList([make(), make()])

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = self.how(block, x)
        return self.head(x)


class Sequential(nn.Module):
    def __init__(self, use_reentrant):
        super().__init__()
        self.use_reentrant, self.first = use_reentrant, nn.Linear(4, 4)
        self.blocks = nn.Sequential(mlp(), mlp(), mlp())

    def forward(self, x):
        return checkpoint_sequential(self.blocks, 3, self.first(x), use_reentrant=self.use_reentrant)


def wrapped(impl):
    return nn.Sequential(nn.Linear(4, 4), *(checkpoint_wrapper(mlp(), checkpoint_impl=impl) for _ in range(2)))


class Transformer(nn.Module):
    """As transformers does it: the function is a partial that the model keeps, and the block gets keywords."""

    def __init__(self):
        super().__init__()
        self.first, self.block = nn.Linear(4, 4), mlp()
        self._gradient_checkpointing_func = functools.partial(torch.utils.checkpoint.checkpoint, use_reentrant=False)

    def forward(self, x):
        x = self.first(x)
        for _ in range(2):
            x = self._gradient_checkpointing_func(self.block.__call__, x)
        return x


selective = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])


def by_generator(block, x):
    """As torch's composable API does it: with the generator imported by name."""
    generator = _checkpoint_without_reentrant_generator(block, True, noop_context_fn, "default", False, True, x)
    next(generator)
    y = block(x)
    next(generator, None)
    return y


WAYS = {
    "direct": lambda: Stack(functools.partial(torch.utils.checkpoint.checkpoint, use_reentrant=False)),
    "direct, reentrant": lambda: Stack(functools.partial(torch.utils.checkpoint.checkpoint, use_reentrant=True)),
    "alias": lambda: Stack(lambda block, x: alias(block, x, use_reentrant=False)),
    "alias, reentrant": lambda: Stack(lambda block, x: alias(block, x, use_reentrant=True)),
    "context_fn": lambda: Stack(lambda block, x: alias(block, x, use_reentrant=False, context_fn=selective)),
    "generator": lambda: Stack(by_generator),
    "sequential": lambda: Sequential(False),
    "sequential, reentrant": lambda: Sequential(True),
    "wrapper": lambda: wrapped(CheckpointImpl.NO_REENTRANT),
    "wrapper, reentrant": lambda: wrapped(CheckpointImpl.REENTRANT),
    "transformers": Transformer,
    "hand-written": lambda: Stack(HandWritten.of),
    "hand-written, new style": lambda: Stack(NewStyle.of),
}
"""Everything that checkpoints twice (checkpoint_sequential leaves its last segment alone)."""


class HandWritten(torch.autograd.Function):
    """A home-made checkpoint without any care for autocast."""

    @staticmethod
    def of(block, x):
        return HandWritten.apply(block, x, *block.parameters())

    @staticmethod
    def forward(ctx, block, x, *parameters):
        ctx.block, ctx.parameters = block, parameters
        ctx.save_for_backward(x)
        with torch.no_grad():
            return block(x)

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.block(x)
        return None, *torch.autograd.grad(y, [x, *ctx.parameters], gradient)


class NewStyle(torch.autograd.Function):
    """The same with a setup_context of its own."""

    @staticmethod
    def of(block, x):
        return NewStyle.apply(block, x, *block.parameters())

    @staticmethod
    def forward(block, x, *parameters):
        return block(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.block, x, *ctx.parameters = inputs
        ctx.save_for_backward(x)

    backward = HandWritten.backward


class HandWrittenFirst(nn.Module):
    """A hand-written region on the raw input, whose dtype autocast has not changed yet."""

    def __init__(self):
        super().__init__()
        self.block, self.head = mlp(), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(HandWritten.of(self.block, x))


class Opaque(torch.autograd.Function):
    """Detaches its input in forward, so that nobody can make it transparent."""

    @staticmethod
    def of(block, x):
        return Opaque.apply(block, x, *block.parameters())

    @staticmethod
    def forward(ctx, block, x, *parameters):
        ctx.block, ctx.parameters = block, parameters
        ctx.save_for_backward(x)
        return block(x.detach()).detach()

    backward = HandWritten.backward


class Scale(nn.Module):
    """y = mask * (x * weight): the gradient of the weight shows the mask of the recomputation alone."""

    def __init__(self, mask, **options):
        super().__init__()
        self.weight, self.mask = nn.Parameter(torch.ones(4096)), mask
        self.options = {"use_reentrant": False, **options}

    def forward(self, x):
        return alias(lambda t: self.mask(t * t * self.weight), x, **self.options)


def numpy_mask(t):
    return t * torch.from_numpy((np.random.rand(*t.shape) > 0.5).astype("f4"))


def python_mask(t):
    return t * torch.tensor([float(random.random() > 0.5) for _ in range(t.numel())]).reshape(t.shape)


GENERATOR = torch.Generator().manual_seed(5)
CALLS = []


def own_mask(t):
    return t * (torch.rand(t.shape, generator=GENERATOR) > 0.5)


def counted_mask(t):
    CALLS.append(1)
    return t * torch.full_like(t, len(CALLS))


class Global(nn.Module):
    """A generator and a list in the globals of this file, used by the model's own method."""

    def __init__(self, mask):
        super().__init__()
        self.weight, self.mask = nn.Parameter(torch.ones(4096)), mask

    def forward(self, x):
        return alias(lambda t: self.mask(t * t * self.weight), x, use_reentrant=False)


class Norm(nn.Module):
    def __init__(self, frozen=False):
        super().__init__()
        self.block, self.head, self.frozen = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), nn.Linear(4, 2), frozen
        if frozen:
            self.block[1].eval()

    def forward(self, x):
        return self.head(alias(self.block, x, use_reentrant=False))


class Frozen(nn.Module):
    """A frozen embedding in front of a checkpointed block."""

    def __init__(self, use_reentrant):
        super().__init__()
        self.embedding, self.block, self.head = nn.Embedding(7, 4), mlp(), nn.Linear(4, 2)
        self.embedding.requires_grad_(False)
        self.use_reentrant = use_reentrant

    def forward(self, ids):
        return self.head(alias(self.block, self.embedding(ids), use_reentrant=self.use_reentrant))


class Whole(nn.Module):
    """One reentrant region around everything: its output has no graph."""

    def __init__(self):
        super().__init__()
        self.block = mlp()

    def forward(self, x):
        return alias(self.block, x, use_reentrant=True)


class Shared(nn.Module):
    """One weight in two selective regions: autocast's cache of weights is not replayed."""

    def __init__(self):
        super().__init__()
        self.first, self.block = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = self.first(x)
        for _ in range(2):
            x = alias(self.block, x, use_reentrant=False, context_fn=selective)
        return x


class SideEffects(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.block, self.log, self.seen = nn.Linear(4, 4), mlp(), [], 0

    def body(self, t):
        self.log.append(1)
        self.seen += 1
        return self.block(t)

    def forward(self, x):
        return alias(self.body, self.first(x), use_reentrant=False)


class Keyword(nn.Module):
    """The reentrant variant takes no keyword arguments."""

    def __init__(self):
        super().__init__()
        self.block = nn.Linear(4, 4)

    def forward(self, x):
        return alias(lambda t, mask: self.block(t) * mask, x, mask=x, use_reentrant=True)


class Blocks(nn.Module):
    """Sixteen MLP blocks, checkpointed in one of several ways."""

    def __init__(self, how):
        super().__init__()
        self.how, self.blocks = how, nn.Sequential(*[mlp(32, 128) for _ in range(16)])

    def forward(self, x):
        if self.how == "whole":
            return alias(self.blocks, x, use_reentrant=False)
        if self.how == "segments":
            return checkpoint_sequential(self.blocks, 4, x, use_reentrant=False)
        for number, block in enumerate(self.blocks):
            kept = self.how == "second" and number % 2
            x = block(x) if kept else alias(block, x, use_reentrant=False)
        return x


class Holding(nn.Module):
    """A lambda on the module holds on to this very object, which copying does not notice."""

    def __init__(self):
        super().__init__()
        self.first, self.block = nn.Linear(4, 4), mlp()
        self.run = lambda t: self.block(t)

    def forward(self, x):
        return alias(self.run, self.first(x), use_reentrant=False)


class Labels(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = mlp()

    def forward(self, x, labels=None):
        y = alias(self.block, x, use_reentrant=False)
        if self.training and labels is None:
            raise ValueError("in training mode labels are required")
        return y


class Integers(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = mlp()

    def forward(self, x):
        return alias(self.block, x, use_reentrant=False).argmax(-1)


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.block = nn.Linear(4, 4), mlp()

    def forward(self, x):
        x.mul_(2)
        return {"y": alias(self.block, self.first(x), use_reentrant=False), "n": 3}


class NoParameters(nn.Module):
    def forward(self, x):
        x.mul_(2)
        return alias(lambda t: nn.functional.dropout(t), x, use_reentrant=False, preserve_rng_state=False)


def scaled_by_dropout():
    return Scale(nn.Dropout(0.5), preserve_rng_state=False)


def scaled_by_dropout_sample_inputs():
    return (torch.ones(3, 4096),)


def right():
    return WAYS["direct"]()


def right_sample_inputs():
    return (torch.linspace(-1, 1, 20).reshape(5, 4),)


class Dies(nn.Module):
    """Ends the process in training mode only."""

    def __init__(self):
        super().__init__()
        self.block = mlp()

    def forward(self, x):
        if self.training:
            import os

            os.abort()
        return alias(self.block, x, use_reentrant=False)
