"""Small models for the tests of the PyTorch worker. Sizes are distinct primes."""

from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import nn


class Affine(nn.Module):
    """y = 2 x W^T + b, with known weights."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        with torch.no_grad():
            self.linear.weight.copy_(torch.arange(6.0).reshape(2, 3) / 7)
            self.linear.bias.copy_(torch.tensor([0.1, -0.3]))

    def forward(self, x):
        return 2 * self.linear(x)


instance = Affine()
seven = 7


def make_affine():
    return Affine()


def make_affine_sample_inputs():
    return (torch.linspace(-1, 1, 15).reshape(5, 3),)


class Wide(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)


def make_nothing():
    return {"not": "a module"}


def make_failing():
    raise ValueError("the width must be even")


def make_exiting():
    raise SystemExit(3)


class Untrained(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(3, 5), nn.Dropout(0.5), nn.Linear(5, 2))


class Prepared(nn.Module):
    """Makes a table and a flag when it is first called, and then leaves them alone."""

    def __init__(self):
        super().__init__()
        self.ready, self.table = False, None

    def forward(self, x):
        if not self.ready:
            self.ready, self.table = True, torch.tensor(2.0)
        return x * self.table


class Warming(nn.Module):
    """Its first call gives another result than all later ones."""

    def __init__(self):
        super().__init__()
        self.ready = False

    def forward(self, x):
        first, self.ready = not self.ready, True
        return x * 2 if first else x


class Growing(nn.Module):
    """Keeps a table as long as the longest input so far."""

    def __init__(self):
        super().__init__()
        self.table = torch.zeros(0)

    def forward(self, x):
        if self.table.numel() < x.shape[0]:
            self.table = torch.arange(x.shape[0], dtype=torch.float32)
        return x + self.table[: x.shape[0], None].to(x.dtype)


class Remembering(nn.Module):
    """Its second call fails."""

    def __init__(self):
        super().__init__()
        self.called = False

    def forward(self, x):
        if self.called:
            raise RuntimeError("once is enough")
        self.called = True
        return x * 2


class Counter(nn.Module):
    """Remembers in a buffer, in an attribute and in a list; the output shows all of it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(2))
        self.calls = 0
        self.last = torch.zeros(1)
        self.history = []

    def forward(self, x):
        self.seen += x.sum(0)
        self.calls += 1
        self.last = self.last + 1
        self.history.append(self.calls)
        return x + self.seen + self.calls + self.last + len(self.history)


class InPlace(nn.Module):
    """Changes its own input."""

    def forward(self, x):
        x += 1
        return x * 2


class Nested(nn.Module):
    def forward(self, x, states, scale: float = 1.0, *, options: dict | None = None, flag=True):
        hidden, cell = states
        bias = options["bias"] if options else 0
        y = (x * scale + hidden - cell + bias) if flag else x
        return {"logits": y, "states": (hidden + 1, [cell * 2]), "nothing": None}


def Nested_sample_inputs():
    return {
        "x": torch.ones(2, 3),
        "states": (torch.full((2, 3), 5.0), torch.full((2, 3), 3.0)),
        "scale": 4.0,
        "options": {"bias": torch.full((3,), 0.5)},
    }


@dataclass
class Answer:
    logits: torch.Tensor
    hidden: torch.Tensor | None = None


class Structured(nn.Module):
    def forward(self, x):
        return Answer(x + 1)


class Ordered(nn.Module):
    def forward(self, x):
        return OrderedDict(b=x, a=x + 1)


class Noisy(nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)


class Casting(nn.Module):
    """Casts, makes constants and asks for dtypes on the way; 1/3 shows any narrowing."""

    def __init__(self):
        super().__init__()
        self.table = torch.tensor([1.0, 3.0])

    def forward(self, x):
        y = x.float() / torch.tensor(3.0, dtype=torch.float32)
        y = y.to(torch.float32) + torch.ones(2, dtype=torch.float32) / self.table
        return torch.softmax(y.to(x.dtype), -1, dtype=torch.float32)


class Bits(nn.Module):
    def forward(self, x):
        return x.view(torch.int32).sum()


class WritesOutside(nn.Module):
    def __init__(self):
        super().__init__()
        self.totals = [torch.zeros(2)]

    def forward(self, x):
        return self.totals[0].add_(x) + 1


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 3)
        self.linear = nn.Linear(3, 2)

    def forward(self, ids):
        return self.linear(self.embedding(ids)).tanh()


def Words_sample_inputs():
    return [torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([[1, 2, 3, 4, 5]])]


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def forward(self, x):
        y = self.body(x)
        y = self.body(y)
        return y.mean(1)


def Branches_sample_inputs():
    return torch.linspace(-1, 1, 6).reshape(2, 3)


class Picky(nn.Module):
    def forward(self, x):
        if x.shape[0] > 4:
            raise ValueError("at most four rows")
        return x


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)

    def forward(self, x):
        return self.layer(x)


class Truncated(nn.Module):
    """A branch on a size that holds for most sizes."""

    def forward(self, x):
        return x[:, :5] if x.shape[1] > 5 else x


class NoTensor(nn.Module):
    def forward(self, x):
        return 3


class Uncopyable(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.derived = self.weight * 2

    def forward(self, x):
        return x * self.derived.detach()


uncopyable = Uncopyable()


class Written(nn.Module):
    """Fills a tensor of zeros part by part."""

    def forward(self, x):
        whole = torch.zeros(2, 6)
        whole[:, :3] = x
        return whole * 2
