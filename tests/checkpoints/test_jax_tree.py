"""What the keys of a training state of JAX mean."""

from __future__ import annotations

import pytest

from tensoraudit.checkpoints.jax_tree import place_of, training_of
from tensoraudit.checkpoints.schema import Entry


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        (("params", "dense", "kernel"), (("params",), "dense.kernel", "model")),
        (("batch_stats", "bn", "mean"), (("batch_stats",), "bn.mean", "model")),
        (("opt_state", "0", "mu", "w"), (("opt_state",), "0.mu.w", "optimizer")),
        (("ema_params", "w"), (("ema_params",), "w", "ema")),
        (("state", "params", "w"), (("state", "params"), "w", "model")),
        (("state", "step"), (("state",), "step", "other")),
        (("step",), ((), "step", "other")),
        (("rng",), ((), "rng", "rng")),
        (("key", "kernel"), ((), "key.kernel", "model")),  # of an attention layer
        (("model",), ((), "model", "model")),
        (("dense", "step"), ((), "dense.step", "model")),
        (("w",), ((), "w", "model")),
    ],
)
def test_place(keys, place):
    assert place_of(keys) == place


def entries(*names):
    made = (place_of(name.split("/")) for name in names)
    return [Entry(name, "float32", (2,), (), group, path) for path, name, group in made]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        (("mu", "nu"), "adam"),
        (("trace",), "sgd"),
        (("v_row", "v_col", "v"), "adafactor"),
        (("sum_of_squares",), "unknown"),
        ((), "none"),
    ],
)
def test_the_optimiser_is_known_by_its_fields(fields, kind):
    names = [f"opt_state/0/{field}/{parameter}" for field in fields for parameter in ("a/kernel", "a/bias")]
    [optimizer] = training_of(entries(*names, "opt_state/0/count"), {}).optimizers
    assert (optimizer.kind, optimizer.parameters) == (kind, 2 if fields else 0)
    assert optimizer.extra == ("count",)
    assert optimizer.path == ("opt_state",)


def test_counters_and_what_is_not_there():
    found = training_of(entries("params/w", "rng"), {("state", "step"): 5, ("epoch",): True, ("name",): "x"})
    assert (found.step, found.epoch, found.rng) == (5, None, ("jax",))
    assert (found.optimizers, found.scheduler, found.scaler, found.loader) == ((), None, None, None)
    found = training_of(entries("loss_scale/value"), {("loader", "position"): 3})
    assert found.scaler == {"value": None}
    assert found.loader == {"position": 3}
