"""Models whose checkpoints are right at one line and wrong at another. A comment at a line names what a scan must say:
the rule, and the state of its finding there."""

import functools

import numpy as np
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts


def mlp(*inner):
    return nn.Sequential(nn.Linear(7, 13), nn.ReLU(), *inner, nn.Linear(13, 7))


def sample_inputs():
    return (torch.linspace(0, 2, 77).reshape(11, 7),)


class Random(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropping, self.plain = mlp(nn.Dropout(0.5)), mlp()

    def forward(self, x):
        x = checkpoint(self.plain, x, use_reentrant=False, preserve_rng_state=False)  # GCK-003 refuted
        return checkpoint(self.dropping, x, use_reentrant=False, preserve_rng_state=False)  # GCK-003 confirmed


class Cut(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.offset = mlp(), mlp(), nn.Parameter(torch.ones(7))

    def forward(self, x):
        h = checkpoint(self.first, x, use_reentrant=True)  # GCK-001 confirmed
        return h + checkpoint(self.second, x + self.offset, use_reentrant=True)  # GCK-001 refuted


class CutBehind(nn.Module):
    """The second region has a graph only where the first one is right, which is what the finding is about."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = mlp(), mlp(), nn.Linear(7, 3)

    def forward(self, x):
        x = checkpoint(self.first, x, use_reentrant=True)  # GCK-001 confirmed
        return self.head(checkpoint(self.second, x * 1, use_reentrant=True))  # GCK-001 refuted


class Drawing(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(7, 7), mlp()

    def _draws(self, x):
        mask = torch.from_numpy((np.random.rand(len(x), 7) > 0.5).astype("float32"))  # GCK-004 confirmed
        return torch.relu(self.first(x)) * mask

    def _draws_for_nothing(self, x):
        np.random.rand(3)  # GCK-004 unverified
        return self.second(x)

    def forward(self, x):
        x = checkpoint(self._draws_for_nothing, x, use_reentrant=False)
        return checkpoint(
            self._draws,
            x,
            use_reentrant=False,
        )


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(7, 7), 0
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        self.seen.add_(x.shape[0])  # GCK-010 confirmed
        return torch.relu(self.layer(x))


class Tidy(nn.Module):
    """Leaves nothing behind that it has collected."""

    def __init__(self):
        super().__init__()
        self.layer, self.kept = nn.Linear(7, 7), []

    def forward(self, x):
        self.kept.append(x.shape)  # GCK-010 refuted
        self.kept.clear()
        return torch.relu(self.layer(x))


class Effects(nn.Module):
    """BatchNorm stands in the region of the tidy block: another rule's matter."""

    def __init__(self):
        super().__init__()
        self.inside, self.tidy = Counting(), nn.Sequential(Tidy(), nn.BatchNorm1d(7))
        self.other = nn.Sequential(nn.Linear(7, 7), nn.BatchNorm1d(7).eval())

    def forward(self, x):
        x = checkpoint(self.inside, x, use_reentrant=False)
        x = checkpoint(self.other, x, use_reentrant=False)  # GCK-005 refuted
        return checkpoint(self.tidy, x, use_reentrant=False)  # GCK-005 confirmed


class Neighbours(nn.Module):
    """One line counts, the next one fills a list that every run begins anew; nothing is seen inside the object."""

    def __init__(self):
        super().__init__()
        self.layer, self.calls, self.meter = nn.Linear(7, 7), 0, Meter()

    def forward(self, x):
        self.calls += 1  # GCK-010 confirmed
        self.kept = []
        self.kept.append(x.shape)  # GCK-010 refuted
        self.meter.values.append(x.shape)  # GCK-010 unverified
        return torch.relu(self.layer(x))


class Meter:
    def __init__(self):
        self.values = []


class Crowded(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.head = Neighbours(), nn.Linear(7, 3)

    def forward(self, x):
        return self.head(checkpoint(self.block, torch.relu(x), use_reentrant=False))


class CountingOutside(Counting):
    def forward(self, x):
        self.seen.add_(x.shape[0])  # GCK-010 refuted
        return torch.relu(self.layer(x))


class Handed(nn.Module):
    """What the helper is given, and that one block is never given to it, the source alone does not tell."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([CountingOutside(), Counting()])

    def forward(self, x):
        for number, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if number else block(x)
        return x


class Dropping(torch.autograd.Function):  # GCK-006 confirmed
    @staticmethod
    def forward(ctx, fn, x, *parameters):
        ctx.fn = fn
        ctx.save_for_backward(x)
        with torch.no_grad():
            return fn(x)

    @staticmethod
    def backward(ctx, grad):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        torch.autograd.backward(y, grad.to(y.dtype))
        return None, x.grad, *[None] * (len(ctx.needs_input_grad) - 2)


def state():
    return torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")


def restored(kept):
    return torch.autocast("cpu", enabled=kept[0], dtype=kept[1])


class Keeping(torch.autograd.Function):  # GCK-006 refuted
    @staticmethod
    def forward(ctx, fn, x, *parameters):
        ctx.fn, ctx.kept = fn, state()
        ctx.save_for_backward(x)
        with torch.no_grad():
            return fn(x)

    @staticmethod
    def backward(ctx, grad):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad(), restored(ctx.kept):
            y = ctx.fn(x)
        torch.autograd.backward(y, grad)
        return None, x.grad, *[None] * (len(ctx.needs_input_grad) - 2)


class HandWritten(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = mlp(), mlp()

    def forward(self, x):
        x = Keeping.apply(self.first, x, *self.first.parameters())
        return Dropping.apply(self.second, x.float(), *self.second.parameters())


selective = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])


class Shared(nn.Module):
    """Autocast casts the weight for the first use, so that the recomputation of the second one misses it. In the first
    region no module runs to its end again, so that nobody sees its dtype."""

    def __init__(self):
        super().__init__()
        self.front, self.block = nn.Linear(7, 7), nn.Linear(7, 7)

    def forward(self, x):
        x = self.front(x)
        x = checkpoint(self.block, x, use_reentrant=False, context_fn=selective)  # GCK-006 unverified
        return checkpoint(self.block, x, use_reentrant=False, context_fn=selective)  # GCK-006 confirmed


class Gated(nn.Module):
    """A region is entered only for inputs that require a gradient, which data does not."""

    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(CountingInGated(), nn.Dropout(0.5), nn.BatchNorm1d(7))

    def forward(self, x):
        if self.training and x.requires_grad:
            return checkpoint(self.block, x, use_reentrant=True, preserve_rng_state=False)  # GCK-001 003 005 unverified
        return self.block(x)


class CountingInGated(Counting):
    def forward(self, x):
        self.seen.add_(x.shape[0])  # GCK-010 unverified
        return self.layer(x * np.random.rand())  # GCK-004 unverified


class GatedBesideAnother(Gated):
    """Another region is entered, and is right. What it says is no answer for the one that is not."""

    def __init__(self):
        super().__init__()
        self.right = mlp()

    def forward(self, x):
        x = checkpoint(self.right, x, use_reentrant=False)  # GCK-005 refuted
        if self.training and len(x) > 100:
            return checkpoint(self.block, x, use_reentrant=True, preserve_rng_state=False)  # GCK-003 005 unverified
        return self.block(x)


class Early(Gated):
    """Returns before the region in this step."""

    def forward(self, x):
        if len(x) == 11:
            return self.block(x)
        return checkpoint(self.block, x, use_reentrant=True, preserve_rng_state=False)  # GCK-001 003 005 unverified


class Enabled(nn.Module):
    """Checkpointing is switched on by a call, as transformers does it."""

    def __init__(self):
        super().__init__()
        self.block, self.on = nn.Sequential(nn.Linear(7, 13), nn.Dropout(0.5), nn.BatchNorm1d(13)), False

    def gradient_checkpointing_enable(self):
        self.on = True

    def forward(self, x):
        if self.on and self.training:
            return checkpoint(self.block, x, use_reentrant=False, preserve_rng_state=False)  # GCK-003 005 depends
        return self.block(x)


def switched_on():
    model = Enabled()
    model.gradient_checkpointing_enable()
    return model


class Partial(nn.Module):
    """The partial is called elsewhere, on a block with dropout; the direct call is right."""

    def __init__(self):
        super().__init__()
        self.first, self.second = mlp(nn.Dropout(0.5)), mlp()
        self.run = functools.partial(checkpoint, use_reentrant=False, preserve_rng_state=False)  # GCK-003 confirmed

    def forward(self, x):
        x = checkpoint(self.second, x, use_reentrant=False, preserve_rng_state=False)  # GCK-003 refuted
        return self.run(self.first, x)


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = checkpoint_wrapper(mlp(nn.Dropout(0.5)), preserve_rng_state=False)  # GCK-003 confirmed
        self.second = checkpoint_wrapper(mlp(nn.Dropout(0.5).eval()), preserve_rng_state=False)  # GCK-003 refuted

    def forward(self, x):
        x = self.first(x)
        return self.second(x)


class Segments(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[mlp() for _ in range(4)])

    def forward(self, x):
        return checkpoint_sequential(self.layers, 1, x, use_reentrant=False)  # GCK-015 confirmed


class Compiled(nn.Module):
    """A method is compiled; the region in it cannot be seen."""

    def __init__(self):
        super().__init__()
        self.block = mlp(nn.Dropout(0.5))
        self.compiled = torch.compile(self._run, backend="eager")

    def _run(self, x):
        return checkpoint(self.block, x, use_reentrant=False, preserve_rng_state=False)  # GCK-003 unverified

    def forward(self, x):
        return self.compiled(x)


def compiled_whole():
    return torch.compile(Random(), backend="eager")
