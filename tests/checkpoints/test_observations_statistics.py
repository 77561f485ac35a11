"""Moving statistics: missing in one checkpoint, or lost, swapped or reset between two."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.checkpoints.observations import statistics
from tensoraudit.checkpoints.paired import CheckpointDiff, PairedTensor
from tensoraudit.checkpoints.schema import Entry, Part, StoredCheckpoint


def stored(tensors, framework="pytorch", groups=None):
    """A checkpoint of named tensors. `tensors`: name to shape; a tuple of keys and a name where it stands deeper."""
    entries = []
    for key, shape in tensors.items():
        *path, name = key if isinstance(key, tuple) else (key,)
        group = (groups or {}).get(name, "model")
        entries.append(Entry(name, "float32", shape, (Part("a", 0, 0),), group, tuple(path)))
    return StoredCheckpoint(Path("a"), Path(), "x", framework, ("a",), tuple(entries))


def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array, "<f4").tobytes()).hexdigest()


def pair(reference, candidate, ours, theirs, status=None):
    same = np.array_equal(ours, theirs)
    return PairedTensor(
        reference, candidate, status or ("equal" if same else "different"), "name", (), ("float32", "float32"),
        (ours.shape, theirs.shape), digests=(digest(ours), digest(theirs)),
    )  # fmt: skip


def missing(reference):
    return PairedTensor(reference, "", "missing", shapes=((3,), ()))


def diff(*pairs):
    return CheckpointDiff(stored({}), stored({}), pairs, (), ())


MEAN, VARIANCE = np.array([0.5, -1, 2], "f4"), np.array([4, 5, 6], "f4")
ONES, ZEROS = np.ones(3, "f4"), np.zeros(3, "f4")


@pytest.mark.parametrize(
    "names",
    [
        {"layer1.bn1.weight": (3,), "layer1.bn1.bias": (3,)},
        {("params", "BatchNorm_0.scale"): (3,), ("params", "BatchNorm_0.bias"): (3,)},
        {"batch_normalization_2/gamma/.ATTRIBUTES/VARIABLE_VALUE": (3,)},
        {"features.norm_batchnorm2d.weight": (3,)},
        {"bn/gamma:0": (3,)},
    ],
)
def test_a_batch_normalisation_without_statistics(names):
    (found,) = statistics.observe(stored(names))
    assert (found.kind, found.value) == ("statistics_missing", ["mean", "variance"])
    assert found.file == "a"
    assert found.subject in found.message


def test_one_of_the_two_statistics():
    tensors = {"bn.weight": (3,), "bn.bias": (3,), "bn.running_mean": (3,)}
    (found,) = statistics.observe(stored(tensors))
    assert found.value == ["variance"]


@pytest.mark.parametrize(
    "names",
    [
        {"bn.weight": (3,), "bn.running_mean": (3,), "bn.running_var": (3,)},
        {("params", "BatchNorm_0.scale"): (3,), ("batch_stats", "BatchNorm_0.mean"): (3,),
         ("batch_stats", "BatchNorm_0.var"): (3,)},
        {"bn/gamma": (3,), "bn/moving_mean": (3,), "bn/moving_variance": (3,)},
        {"ln.weight": (3,), "ln.bias": (3,)},
        {"group_norm.weight": (3,)},
        {"bn.weight": (3, 4)},  # a linear layer of that name
        {"subnet.weight": (3,)},
        {f"layers/batch_normalization/vars/{number}": (3,) for number in range(3)},  # of a layer without a scale
    ],
)  # fmt: skip
def test_nothing_to_say(names):
    assert list(statistics.observe(stored(names))) == []


def test_the_average_of_a_model_is_not_asked_twice():
    assert list(statistics.observe(stored({"bn.weight": (3,)}, groups={"bn.weight": "ema"}))) == []


def test_statistics_that_arrived_nowhere():
    found = statistics.observe_diff(
        diff(pair("bn.weight", "params.bn.scale", ONES, ONES), missing("bn.running_mean"), missing("bn.running_var"))
    )
    assert [(each.kind, each.subject, each.value) for each in found] == [
        ("statistics_lost", "bn", ["mean", "variance"])
    ]


def test_a_layer_that_is_not_there_has_lost_nothing():
    pairs = missing("bn.weight"), missing("bn.running_mean"), missing("bn.running_var")
    assert list(statistics.observe_diff(diff(*pairs))) == []


def test_a_counter_may_stay_behind():
    pairs = (
        pair("bn.running_mean", "bn/moving_mean", MEAN, MEAN),
        pair("bn.running_var", "bn/moving_variance", VARIANCE, VARIANCE),
        missing("bn.num_batches_tracked"),
    )
    assert list(statistics.observe_diff(diff(*pairs))) == []


@pytest.mark.parametrize(
    "pairs",
    [
        (
            pair("bn.running_mean", "bn/moving_mean", MEAN, VARIANCE),
            pair("bn.running_var", "bn/moving_variance", VARIANCE, MEAN),
        ),
        (
            pair("bn.running_mean", "bn/moving_variance", MEAN, MEAN),
            pair("bn.running_var", "bn/moving_mean", VARIANCE, VARIANCE),
        ),
    ],
)
def test_swapped_statistics(pairs):
    (found,) = statistics.observe_diff(diff(*pairs))
    assert (found.kind, found.subject) == ("statistics_swapped", "bn")


def test_two_equal_vectors_are_not_swapped():
    pairs = (
        pair("bn.running_mean", "bn/moving_mean", ONES, ONES),
        pair("bn.running_var", "bn/moving_variance", ONES, ONES),
    )
    assert list(statistics.observe_diff(diff(*pairs))) == []


def test_initial_values():
    pairs = (
        pair("bn.running_mean", "bn/moving_mean", MEAN, ZEROS),
        pair("bn.running_var", "bn/moving_variance", VARIANCE, ONES),
    )
    (found,) = statistics.observe_diff(diff(*pairs))
    assert found.kind == "statistics_default"
    fresh = (
        pair("bn.running_mean", "bn/moving_mean", ZEROS, ZEROS),
        pair("bn.running_var", "bn/moving_variance", ONES, ONES),
    )
    assert list(statistics.observe_diff(diff(*fresh))) == []
    other = (
        pair("bn.running_mean", "bn/moving_mean", MEAN, ZEROS),
        pair("bn.running_var", "bn/moving_variance", VARIANCE, 2 * ONES),
    )
    assert list(statistics.observe_diff(diff(*other))) == []
