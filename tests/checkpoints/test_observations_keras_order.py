"""Layers of Keras at their places, with the names that a .weights.h5 keeps beside them."""

from pathlib import Path

import pytest

from tensoraudit.checkpoints.observations import keras_order
from tensoraudit.checkpoints.paired import CheckpointDiff
from tensoraudit.checkpoints.schema import StoredCheckpoint


def stored(*names):
    places = {f"layers/dense{'' if number == 0 else f'_{number}'}": name for number, name in enumerate(names)}
    return StoredCheckpoint(Path("a"), Path(), "keras_weights", "tensorflow", (), (), metadata={"layer_names": places})


def swapped(reference, candidate):
    diff = CheckpointDiff(reference, candidate, (), (), ())
    return [(each.subject, each.value) for each in keras_order.observe_diff(diff)]


def test_layers_in_another_order():
    assert swapped(stored("a", "b", "c"), stored("b", "a", "c")) == [
        ("layers/dense", ["a", "b"]),
        ("layers/dense_1", ["b", "a"]),
    ]


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (("a", "b"), ("a", "b")),
        (("dense", "dense_1"), ("dense_4", "dense_5")),  # names that Keras counts on
        (("a", "b"), ("a", "c")),
        (("a", "a"), ("a", "a")),
        (("a", "a", "b"), ("b", "a", "a")),  # a name that stands twice says nothing
        (("a",), ("a", "b")),
        (("", "b"), ("b", "")),
    ],
)
def test_nothing_to_say(reference, candidate):
    assert swapped(stored(*reference), stored(*candidate)) == []


def test_files_without_names():
    plain = StoredCheckpoint(Path("a"), Path(), "torch_zip", "pytorch", (), (), metadata={"layer_names": ["a"]})
    assert swapped(plain, stored("a", "b")) == []
    assert swapped(stored("a", "b"), plain) == []
