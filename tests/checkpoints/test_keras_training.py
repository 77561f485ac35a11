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


def scaled(*shapes, inner=None):
    """What LossScaleOptimizer saves: its own four numbers and the inner optimiser's variables, and those once more."""
    inner = numbered(*shapes) if inner is None else inner
    outer = [*numbered((), ()), *inner]
    kinds = ["int64", "float32", "int64", "float32", *(each.dtype for each in inner)]
    named = [entry(f"optimizer/vars/{n}", each.shape, kinds[n]) for n, each in enumerate(outer)]
    return [*(each._replace(name=each.name.replace("/vars", "/inner_optimizer/vars")) for each in inner), *named]


def told(each):
    values = {"optimizer/vars/0": 0, "optimizer/vars/1": 0.0, "optimizer/vars/2": 2, "optimizer/vars/3": 32768.0}
    return struct.pack("<q" if each.dtype == "int64" else "<f", values.get(each.name, 7))


def test_a_scaled_optimizer_is_counted_once():
    entries, state = sorted_out(
        scaled(*[shape for shape in SHAPES for _ in "mv"]), "loss_scale_optimizer", told, "adam_w"
    )
    [optimizer] = state.optimizers
    assert (optimizer.kind, optimizer.fields, optimizer.parameters) == ("adam", ("momentums", "velocities"), 3)
    assert (state.step, state.scaler) == (7, {"step_counter": 2, "dynamic_scale": 32768.0})
    assert [each.name for each in entries if each.group == "scaler"] == ["optimizer/vars/2", "optimizer/vars/3"]
    assert len(entries) == 20


def test_averages_within_a_scaled_optimizer():
    """`use_ema`: the averages of both lists are averages."""
    entries, state = sorted_out(scaled(*SHAPES, *SHAPES), "loss_scale_optimizer_1", told, "sgd_2")
    averaged = [each.name for each in entries if each.group == "ema"]
    inner = [f"optimizer/inner_optimizer/vars/{n}" for n in (2, 3, 4)]
    assert averaged == [*inner, *(f"optimizer/vars/{n}" for n in (6, 7, 8))]
    assert (state.optimizers[0].kind, state.optimizers[0].parameters) == ("sgd", 3)


def test_lists_that_do_not_agree_are_no_scaled_optimizer():
    entries, state = sorted_out(scaled(*SHAPES)[:-1], "loss_scale_optimizer", told, "sgd")
    assert state.scaler is None and not [each for each in entries if each.group == "scaler"]


def test_a_scaled_optimizer_by_name():
    own = ["iteration", "learning_rate", "step_counter", "dynamic_scale"]
    names = [f"loss_scale_optimizer_1/{name}" for name in own]
    names += [f"{front}adam/{name}" for front, name in [("", "iteration"), ("", "learning_rate")]]
    names += [f"loss_scale_optimizer_1/adam/dense_kernel_{field}" for field in ("momentum", "velocity")]
    entries = [entry(name, (2,) if "dense" in name else (), alias=name) for name in names]
    found, state = sorted_out(entries, "", lambda each: struct.pack("<f", 8.0 if "dynamic" in each.name else 3.0))
    [optimizer] = state.optimizers
    assert (optimizer.kind, optimizer.parameters, optimizer.groups[0]["params"]) == ("adam", 1, ["dense_kernel"])
    assert (state.step, state.scaler) == (3, {"step_counter": 3, "dynamic_scale": 8.0})
    assert [each.group for each in found] == ["optimizer"] * 2 + ["scaler"] * 2 + ["optimizer"] * 4


@pytest.mark.parametrize(
    "named", ["adadelta", "adafactor", "adagrad", "adamax", "ftrl", "lion", "muon", "nadam", "rm_sprop", "sgd"]
)
def test_a_kind_is_never_anothers(named):
    """Names as Keras 3.15 gives them."""
    _, state = sorted_out(numbered(*SHAPES), f"{named}_1", content)
    assert state.optimizers[0].kind == named.replace("_", "")


@pytest.mark.parametrize("place", [0, 6, None])
def test_nadam_keeps_a_product_before_or_behind_or_not_at_all(place):
    shapes = [shape for shape in SHAPES for _ in "mv"]
    shapes = shapes if place is None else [*shapes[:place], (), *shapes[place:]]
    _, state = sorted_out(numbered(*shapes), "nadam", content)
    assert (state.optimizers[0].kind, state.optimizers[0].parameters) == ("nadam", 3)


def test_a_schedule_free_one_is_unknown():
    assert sorted_out(numbered(*SHAPES), "schedule_free_adam_w", content)[1].optimizers[0].kind == "unknown"
