"""What surrounds a module is put back: globals of its file, and variables that its methods close over."""

import pytest
import torch
from torch import nn

from tensoraudit.probes.pytorch.training_state import Surroundings, watch_original

FILE = """
import random
import numpy as np
import torch
from torch import nn

generator, numbers = torch.Generator(), np.random.default_rng(1)
legacy, python = np.random.RandomState(2), random.Random(3)
count, seen, known, table = 0, [], {}, list(range(1000))

class Net(nn.Module):
    def forward(self, x):
        global count
        count += 1
        seen.append(count)
        known[count] = 1
        table.append(0)
        return [torch.rand(1, generator=generator).item(), numbers.random(), legacy.rand(), python.random(), count,
                len(seen), len(known)]
"""


def test_globals_and_generators():
    space = {"__name__": "a_file_of_the_user"}
    exec(FILE, space)
    module = space["Net"]()
    surroundings = Surroundings(nn.Sequential(nn.Linear(1, 1), module))
    first, second = module(1), module(1)
    surroundings.put_back()
    assert all(a != b for a, b in zip(first, second, strict=True))
    assert module(1) == first
    assert len(space["table"]) == 1003, "long tables are left alone"


def test_variables_that_a_method_closes_over():
    def make():
        calls, total = [], 0

        class Net(nn.Module):
            def forward(self, x):
                nonlocal total
                total += 1
                calls.append(total)
                return len(calls), total

        return Net()

    module = make()
    surroundings = Surroundings(module)
    module(1), module(1)
    surroundings.put_back()
    assert module(1) == (1, 1)


def test_the_modules_of_torch_are_nobody_s_surroundings():
    before = torch.nn.functional.__dict__.copy()
    Surroundings(nn.Sequential(nn.Linear(2, 2), nn.Dropout())).put_back()
    assert torch.nn.functional.__dict__ == before


@pytest.mark.parametrize(
    ("touch", "touched"),
    [
        (lambda m: None, False),
        (lambda m: m(torch.ones(3, 2)).sum().backward(), True),
        (lambda m: m.requires_grad_(False)[1](torch.ones(3, 2)), True),
        (lambda m: m[0].weight.data.add_(1), False),
        (lambda m: torch.nn.init.zeros_(m[0].weight), True),
    ],
)
def test_a_touched_original_is_noticed(touch, touched):
    """Gradients, buffers (the counter of BatchNorm) and weights; `.data` hides from autograd's counter of changes."""
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    question = watch_original(module)
    touch(module)
    assert question() is touched
