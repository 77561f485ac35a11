import numpy as np
import pytest

from tensoraudit.equivalence.between import Way, find_way, ways
from tensoraudit.equivalence.layer import canonical, channels_last, make_layer
from tensoraudit.equivalence.parameter import Parameter

KERNEL = np.arange(2 * 3 * 5 * 7).reshape(2, 3, 5, 7)  # h, w, i, o


@pytest.mark.parametrize(
    ("axes", "array"),
    [
        ("hwio", KERNEL),
        ("oihw", KERNEL.transpose(3, 2, 0, 1)),
        ("iohw", KERNEL.transpose(2, 3, 0, 1)),
        ("HWio", KERNEL[::-1, ::-1]),
    ],
)
def test_every_kernel_becomes_space_inputs_outputs(axes, array):
    np.testing.assert_array_equal(canonical(array, axes), KERNEL)


def test_a_bias_stays_as_it_is():
    np.testing.assert_array_equal(canonical(np.arange(5), "o"), np.arange(5))


def test_a_layer_of_channels_first_is_turned_with_its_tensors():
    row = {"path": "conv", "class": "Conv2d", "config": {"data_format": "channels_first"}, "source": None}
    x = np.ones((2, 3, 5, 7))
    weight = Parameter(
        "conv.weight", KERNEL.transpose(3, 2, 0, 1).astype(np.float32), "conv", kind="kernel", axes="oihw"
    )
    counter = Parameter("conv.count", np.array(3), "conv")
    layer = make_layer(row, [weight, counter], [x], [x])
    assert (layer.kind, layer.title, layer.inputs[0].shape) == ("convolution", "conv (Conv2d)", (2, 5, 7, 3))
    np.testing.assert_array_equal(layer.weights["kernel"], KERNEL)
    assert layer.names == {"kernel": "conv.weight"}


def test_time_first_becomes_batch_first():
    row = {"path": "", "class": "GRU", "config": {"batch_first": False}, "source": {"path": "m.py", "line": 3}}
    layer = make_layer(row, [], [np.ones((11, 2, 3))], [])
    assert (layer.inputs[0].shape, layer.source, layer.title) == ((2, 11, 3), "m.py:3", "the model (GRU)")


def test_channels_last_leaves_rows_alone():
    assert channels_last(np.ones((2, 3))).shape == (2, 3)
    assert channels_last(np.ones((2, 3, 5))).shape == (2, 5, 3)


def test_the_plainest_way_comes_first():
    x = np.abs(np.random.default_rng(0).standard_normal((2, 3, 5, 7)))
    first, made = next(ways(x, (2, 105)))
    assert (first.activation, first.structure) == ("no activation", "flattened with the channels last")
    np.testing.assert_array_equal(made, x.reshape(2, 105))
    assert [way for way, _ in ways(x, (2, 104))] == []
    assert {way.structure for way, _ in ways(x, (2, 7))} == {"the mean over space", "the largest over space"}
    assert next(ways(np.ones((2, 3, 5)), (2, 5)))[0].structure == "the last step"


def test_the_way_is_found_from_the_tensors_on_both_sides_of_it():
    x = np.random.default_rng(0).standard_normal((2, 6, 4, 5))
    turned = np.maximum(np.moveaxis(x, -1, 1), 0).reshape(2, -1)
    assert find_way(x, turned, 1e-6) == Way("relu", "flattened with the channels first")
    assert find_way(x, np.exp(x) / np.exp(x).sum(1, keepdims=True), 1e-6) == Way(
        "softmax over the second axis", "as it is"
    )
    assert find_way(x, x.mean(axis=(1, 2)), 1e-6) == Way("no activation", "the mean over space")
    assert find_way(x, np.sin(x), 1e-6) is None
    almost = x.copy()
    almost[1, 3, 2, 1] += 1.0
    assert find_way(x, almost, 1e-6) is None, "one element that no look met"
