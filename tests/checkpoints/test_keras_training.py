"""The state of optimisers in Keras files, from entries alone."""

from __future__ import annotations

import struct

import pytest

from tensoraudit.checkpoints.keras_training import sorted_out
from tensoraudit.checkpoints.schema import Entry, Part

SHAPES = [(3, 2), (2,), (5,)]


def entry(name, shape=(), dtype="float32", alias=""):
    return Entry(name, dtype, shape, (Part("m.h5", 0, 4),), "optimizer", alias=alias)


def numbered(*shapes):
    shapes = [(), (), *shapes]
    kinds = ["int64", *["float32"] * len(shapes)]
    return [entry(f"optimizer/vars/{n}", shape, kinds[n]) for n, shape in enumerate(shapes)]


def content(each):
    return struct.pack("<q", 7) if each.dtype == "int64" else struct.pack("<f", 0.5)


@pytest.mark.parametrize(
    ("named", "shapes", "kind", "fields", "parameters", "ema"),
    [
        ("adam", [shape for shape in SHAPES for _ in "mv"], "adam", ("momentums", "velocities"), 3, False),
        ("adamw_3", [shape for shape in SHAPES for _ in "mv"], "adam", ("momentums", "velocities"), 3, False),
        ("SGD", SHAPES, "sgd", ("momentums",), 3, False),
        ("sgd", [*SHAPES, *SHAPES], "sgd", ("momentums",), 3, True),
        ("adam", [*SHAPES, *[shape for shape in SHAPES for _ in "mv"]], "adam", ("momentums", "velocities"), 3, True),
        ("sgd", [], "none", (), 0, False),
        ("lamb", [shape for shape in SHAPES for _ in "mv"], "lamb", ("momentums", "velocities"), 3, False),
        ("adam", [*[shape for shape in SHAPES for _ in "mv"], *SHAPES], "adam", (), 9, False),  # amsgrad
        ("own_optimizer", SHAPES, "unknown", (), 3, False),
        ("", SHAPES, "unknown", (), 3, False),
    ],
)
def test_counted_variables(named, shapes, kind, fields, parameters, ema):
    entries, state = sorted_out(numbered(*shapes), named, content)
    averaged = [each.name for each in entries if each.group == "ema"]
    assert averaged == ([f"optimizer/vars/{n}" for n in (2, 3, 4)] if ema else [])
    [optimizer] = state.optimizers
    assert (optimizer.kind, optimizer.fields, optimizer.parameters) == (kind, fields, parameters)
    assert (state.step, optimizer.groups[0]["learning_rate"]) == (7, 0.5)
    assert optimizer.groups[0]["params"] == list(range(parameters if fields else 0)) and optimizer.keyed == "position"


@pytest.mark.parametrize(
    "names",
    [
        ("Adam/dense/kernel/m", "Adam/dense/kernel/v", "Adam/dense/bias/m", "Adam/dense/bias/v"),
        ("adam/dense_kernel_momentum", "adam/dense_kernel_velocity", "adam/dense_bias_momentum",
         "adam/dense_bias_velocity"),
    ],
)  # fmt: skip
def test_named_variables(names):
    top = names[0].split("/")[0]
    entries = [entry("i", dtype="int64", alias=f"{top}/iter"), *(entry(name, (2,), alias=name) for name in names)]
    _, state = sorted_out(entries, "", content)
    [optimizer] = state.optimizers
    assert (optimizer.kind, optimizer.parameters, state.step, len(optimizer.fields)) == ("adam", 2, 7, 2)
    assert [name.replace("/", "_") for name in optimizer.groups[0]["params"]] == ["dense_kernel", "dense_bias"]


def test_a_number_that_cannot_be_read_and_no_state():
    assert sorted_out(numbered(), "adam", lambda each: None)[1].step is None
    seed = entry("x")._replace(group="rng")
    assert sorted_out([seed], "", content)[1].rng == ()
    assert sorted_out([seed, *numbered()], "sgd", content)[1].rng == ("keras",)
