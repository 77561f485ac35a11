"""Kernels that stayed in the other framework's layout: moved by numpy here, with digests by hashlib."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.checkpoints.observations import layout
from tensoraudit.checkpoints.paired import CheckpointDiff, PairedTensor
from tensoraudit.checkpoints.schema import Entry, StoredCheckpoint


def stored(framework, shapes=()):
    entries = tuple(Entry(name, "float32", shape, ()) for name, shape in dict(shapes).items())
    return StoredCheckpoint(Path("a"), Path(), "x", framework, (), entries)


def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array, "<f4").tobytes()).hexdigest()


def pair(status, ours, theirs, names=("conv.weight", "conv/kernel"), values=True, permutation=()):
    digests = (digest(ours), digest(theirs)) if values else ("", "")
    return PairedTensor(
        *names, status, "convention", permutation, ("float32", "float32"), (ours.shape, theirs.shape), digests=digests
    )


def seen(each, frameworks=("pytorch", "tensorflow"), shapes=()):
    checkpoints = stored(frameworks[0], shapes), stored(frameworks[1])
    return [
        (found.kind, found.subject, found.value)
        for found in layout.observe_diff(CheckpointDiff(*checkpoints, (each,), (), ()))
    ]


def numbers(*shape):
    return np.arange(1, np.prod(shape) + 1, dtype="f4").reshape(shape)


CUBE, SQUARE, CONV = numbers(3, 3, 3, 3), numbers(4, 4), numbers(8, 3, 5, 5)


@pytest.mark.parametrize("frameworks", [("pytorch", "tensorflow"), ("pytorch", "jax")])
@pytest.mark.parametrize("kernel", [CUBE, SQUARE, numbers(2, 2, 2), numbers(2, 2, 2, 2, 2)])
def test_the_same_bytes_on_both_sides(kernel, frameworks):
    assert seen(pair("equal", kernel, kernel), frameworks) == [("layout_not_carried", "conv/kernel", "values")]


def test_the_other_way_round():
    each = pair("equal", SQUARE, SQUARE, names=("dense/kernel", "fc.weight"))
    assert seen(each, ("tensorflow", "pytorch")) == [("layout_not_carried", "fc.weight", "values")]


def test_one_shape_that_no_moved_kernel_has():
    each = pair("same_header", CONV, CONV, values=False)
    assert seen(each) == [("layout_not_carried", "conv/kernel", "headers")]


@pytest.mark.parametrize(
    "each",
    [
        pair("same_header", CUBE, CUBE, values=False),  # a moved one looks the same
        pair("permuted", CONV, CONV.transpose(2, 3, 1, 0), permutation=(2, 3, 1, 0)),
        pair("equal", np.zeros((4, 4), "f4"), np.zeros((4, 4), "f4")),
        pair("equal", numbers(1, 1, 3, 3), numbers(1, 1, 3, 3)),  # nothing moves: one channel in, one out
        pair("equal", SQUARE, SQUARE, names=("embed.weight", "embed/embeddings")),
        pair("equal", SQUARE, SQUARE, names=("gru.weight_hh_l0", "gru/recurrent_kernel")),
        pair("different", SQUARE, SQUARE + 1),
        pair("equal", numbers(4), numbers(4), names=("bn.weight", "bn/gamma")),
    ],
)
def test_nothing_to_say(each):
    assert seen(each) == []


@pytest.mark.parametrize("frameworks", [("pytorch", "pytorch"), ("pytorch", "onnx"), ("tensorflow", "jax")])
def test_frameworks_of_one_convention(frameworks):
    assert seen(pair("equal", CUBE, CUBE), frameworks) == []


def test_a_kernel_that_was_reshaped():
    reshaped = CONV.reshape(5, 5, 3, 8)
    assert seen(pair("reshaped", CONV, reshaped)) == [("reshaped_kernel", "conv/kernel", "values")]
    assert seen(pair("reshaped", CONV, CONV.reshape(8, 75), values=False)) == []
    point = numbers(8, 1, 1, 1)
    assert seen(pair("reshaped", point, point.reshape(1, 1, 1, 8))) == []


def test_a_kernel_whose_variable_alone_has_the_name():
    """A SavedModel numbers its variables; the object graph keeps what they are called."""
    entry = Entry("variables/0", "float32", CONV.shape, (), alias="sequential/conv1/kernel")
    sides = stored("pytorch"), replace(stored("tensorflow"), entries=(entry,))
    each = pair("equal", CONV, CONV, ("conv1.weight", "variables/0"))
    (found,) = layout.observe_diff(CheckpointDiff(*sides, (each,), (), ()))
    assert (found.kind, found.subject) == ("layout_not_carried", "variables/0")


@pytest.mark.parametrize("order", [(3, 2, 1, 0), (2, 3, 1, 0), (2, 3, 0, 1), (3, 2, 0, 1)])
def test_a_window_keeps_its_order(order):
    """From PyTorch's (out, in, height, width) height must come before width, whatever becomes of the channels."""
    swapped = order.index(3) < order.index(2)
    found = seen(pair("permuted", CONV, CONV.transpose(order), permutation=order))
    assert found == ([("kernel_axes_swapped", "conv/kernel", "values")] if swapped else [])


def test_a_window_is_told_in_both_directions_and_where_it_has_extent():
    names = ("conv/kernel", "conv.weight")
    kernel = numbers(5, 5, 3, 8)
    for order, told in (((3, 2, 0, 1), 0), ((3, 2, 1, 0), 1)):
        each = pair("permuted", kernel, kernel.transpose(order), names, permutation=order)
        assert len(seen(each, ("jax", "pytorch"))) == told
    line = numbers(8, 3, 1, 5)
    assert seen(pair("permuted", line, line.transpose(3, 2, 1, 0), permutation=(3, 2, 1, 0))) == []
    assert seen(pair("permuted", CONV, CONV.T, values=False, permutation=(3, 2, 1, 0))) == []


def test_a_depthwise_kernel_has_an_order_of_its_own():
    depthwise = numbers(8, 1, 3, 3)
    names = ("conv.weight", "conv/depthwise_kernel")
    assert seen(pair("reshaped", depthwise, depthwise.reshape(3, 3, 8, 1), names)) == [
        ("reshaped_kernel", "conv/depthwise_kernel", "values")
    ]
    assert seen(pair("permuted", depthwise, depthwise.transpose(2, 3, 0, 1), names, permutation=(2, 3, 0, 1))) == []


SHAPES = {"conv.weight": (8, 3, 3, 3), "conv.bias": (8,), "fc.weight": (10, 8 * 4), "head.weight": (5, 10)}


def dense(name="fc", columns=32, values=True):
    weight = numbers(10, columns)
    return pair("permuted", weight, weight.T, (f"{name}.weight", f"{name}/kernel"), values, permutation=(1, 0))


def test_a_dense_layer_behind_a_flatten():
    assert seen(dense(), shapes=SHAPES) == [("flatten_order", "fc/kernel", 8)]


@pytest.mark.parametrize(
    "shapes",
    [
        {**SHAPES, "fc.weight": (10, 8)},  # one position: pooled before
        {**SHAPES, "fc.weight": (10, 33)},
        {"first.weight": (7, 3), "fc.weight": (10, 32)},
        {"conv.weight": (8, 3, 3, 3), "first.weight": (7, 8), "fc.weight": (10, 32)},
    ],
)
def test_other_dense_layers(shapes):
    assert seen(dense(), shapes=shapes) == []


def test_headers_alone_say_nothing_of_the_order():
    assert seen(dense(values=False), shapes=SHAPES) == []
