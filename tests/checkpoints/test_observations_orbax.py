"""What an orbax checkpoint does not bring back, on names as orbax writes them."""

from pathlib import Path

import pytest

from tensoraudit.checkpoints.observations import orbax
from tensoraudit.checkpoints.schema import Entry, StoredCheckpoint


def seen(names, metadata=None, kind="orbax"):
    entries = tuple(Entry(name, "float32", (2,), ()) for name in names)
    stored = StoredCheckpoint(Path("a"), Path("a"), kind, "jax", (), entries, metadata=metadata or {})
    return [(each.kind, each.subject, each.value) for each in orbax.observe(stored)]


ADAM = ["opt.0.count", "opt.0.mu.dense.kernel", "opt.0.nu.dense.kernel", "params.dense.kernel", "step"]
TORCH = ["optimizer.state.0.exp_avg", "optimizer.state.0.step", "optimizer.state.1.exp_avg", "model.fc.weight"]


def test_an_optax_state():
    assert seen(ADAM) == [("orbax_containers", "opt", ["mu", "nu"])]
    assert seen(["0.trace.w"]) == [("orbax_containers", "checkpoint", ["trace"])]


def test_the_state_of_a_torch_optimiser():
    assert seen(TORCH) == [("orbax_digit_keys", "optimizer", ["exp_avg", "step"])]


@pytest.mark.parametrize("names", [["params.mu.w"], ["params.dense.0.kernel"], ["state.w.exp_avg"]])
def test_other_names(names):
    assert seen(names) == []


def test_devices():
    assert seen([], {"devices": 4}) == [("orbax_devices", "checkpoint", 4)]
    assert seen([], {"devices": 1}) == []
    assert seen([], {"devices": "4"}) == []


def test_other_formats():
    assert seen(ADAM, {"devices": 4}, kind="flax_msgpack") == []
