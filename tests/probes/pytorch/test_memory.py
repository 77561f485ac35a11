"""What a module remembers, and whether that changed."""

import torch

from tensoraudit.probes.pytorch.memory import changed, restore, snapshot


class Stateful(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buffer", torch.zeros(2))
        self.inner = torch.nn.BatchNorm1d(3)
        self.count = 0
        self.tensor = torch.zeros(1)
        self.cache = {"k": [torch.zeros(1)]}
        self.nan = float("nan")


def test_nothing_changed():
    module = Stateful()
    assert changed(snapshot(module), module) == []


def test_every_kind_of_memory_is_seen():
    module = Stateful()
    before = snapshot(module)
    module.buffer += 1
    module.inner.running_mean += 1
    module.count += 1
    module.tensor += 1
    module.cache["k"].append(torch.ones(1))
    assert changed(before, module) == [
        "buffer", "cache.k.1", "cache.k.length", "count", "inner.running_mean", "tensor",
    ]  # fmt: skip


def test_parameters_and_modes_are_no_memory():
    module = Stateful()
    before = snapshot(module)
    module.eval()
    module.inner.weight.data += 1
    assert changed(before, module) == []


class Scripted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.state = torch.zeros(1)
        self.calls = 0

    def forward(self, x):
        self.state = self.state + x
        self.calls = self.calls + 1
        return x + self.state


def test_attributes_of_a_script_are_seen_and_put_back():
    script = torch.jit.script(Scripted())
    before = snapshot(script)
    assert script(torch.ones(1)).item() == 2
    names = changed(before, script)
    assert names == ["calls", "state"]
    assert restore(before, script, names)
    assert changed(before, script) == []
    assert script(torch.ones(1)).item() == 2
