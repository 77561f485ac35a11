"""What the onnx2tf route decides without onnx2tf: layouts, distances, names, and the order of the settings."""

from pathlib import Path

import numpy as np
import pytest

from tensoraudit.routes import onnx_to_tensorflow_onnx2tf
from tensoraudit.routes.channels_last import NEAR, distance, fit
from tensoraudit.routes.onnx_to_tensorflow_onnx2tf import Candidate, ConversionError, Source, attempts
from tensoraudit.routes.saved_names import plain_names

IMAGE = np.random.default_rng(0).normal(size=(2, 3, 5, 7)).astype(np.float32)


def test_the_same_layout_is_no_permutation():
    assert fit(IMAGE, IMAGE * np.float32(1 + 1e-6)) == (None, pytest.approx(1e-6, rel=0.5))


def test_channels_at_the_end_are_a_permutation():
    axes, off = fit(IMAGE, IMAGE.transpose(0, 2, 3, 1))
    assert (axes, off) == ((0, 2, 3, 1), 0.0)
    np.testing.assert_array_equal(IMAGE.transpose(axes), IMAGE.transpose(0, 2, 3, 1))


def test_a_cube_is_told_by_its_values():
    cube = np.random.default_rng(1).normal(size=(2, 5, 5, 5))
    assert fit(cube, cube.transpose(0, 2, 3, 1)) == ((0, 2, 3, 1), 0.0)
    assert fit(cube, cube)[0] is None
    _, off = fit(cube, cube.transpose(0, 1, 3, 2))  # no layout that the tool has: a wrong result
    assert off > 100 * NEAR


def test_matrices_have_no_channels():
    square = np.arange(9.0).reshape(3, 3)
    assert fit(square, square.T) == (None, pytest.approx(0.5))


def test_distances():
    assert distance(np.zeros((2, 3)), np.zeros((3, 2))) == float("inf")
    assert distance(np.array([1.0, np.nan]), np.array([1.0, np.nan])) == 0
    assert distance(np.array([1.0, np.nan]), np.array([np.nan, 1.0])) == float("inf")
    assert distance(np.array([1.0, 2.0]), np.array([1.0, np.inf])) == float("inf")
    assert distance(np.array([3, 100]), np.array([3, 99])) == pytest.approx(0.01)
    assert distance(np.array([1 + 2j]), np.array([1 + 2j])) == 0
    assert distance(np.zeros((0, 3)), np.zeros((0, 3))) == 0


def test_the_most_general_settings_come_first():
    def tried(**dims):
        return [(each.sizes, each.simplify) for each in attempts(dims)[:-1]]

    assert tried(x=(1, 3, 8, 8)) == [("file", False), ("file", True)]
    assert tried(x=("batch", 3, 8, 8)) == [("file", False), ("file", True), ("fixed", True)]
    assert tried(x=("batch", 3, "h", "w")) == [("file", False), ("batch", True), ("fixed", True)]
    assert tried(x=(1, 3, "h", "w")) == [("file", False), ("fixed", True)]
    assert attempts({"x": (1, 3, "h", "w")})[-1].keep == "absolutely"


def test_names_that_tensorflow_takes():
    assert plain_names(["x", "input.1", "input/1", "0", "größe"]) == {
        "x": "x",
        "input.1": "input_1",
        "input/1": "input_1_",
        "0": "input_0",
        "größe": "gr__e",
    }


def tries(monkeypatch, *ends):
    """Let the attempts of a file with dynamic sizes end so: a distance, or words of a failure."""
    left = list(ends)

    def attempted(source, attempt, folder):
        end = left.pop(0)
        if isinstance(end, str):
            raise ConversionError(end, "translate", "Conv", "node")
        return Candidate(attempt, None, {}, end)

    monkeypatch.setattr(onnx_to_tensorflow_onnx2tf, "_try", attempted)
    source = Source(None, {}, {}, {"x": ("batch", 3, "h", "w")})
    return onnx_to_tensorflow_onnx2tf.convert(source, Path()), left


def test_the_first_that_is_near_counts_and_what_was_wrong_before_is_said(monkeypatch):
    (best, said), left = tries(monkeypatch, "cannot do", 0.5, 1e-6, 0.0)
    assert (best.attempt.sizes, best.distance, left) == ("fixed", 1e-6, [0.0])
    assert said[0] == "with the sizes of the file: cannot do" and "differ by 0.5 of the largest value" in said[1]


def test_without_a_near_one_the_nearest_counts(monkeypatch):
    (best, said), left = tries(monkeypatch, "cannot do", 0.5, 0.9, 0.7)
    assert (best.attempt.sizes, best.distance, left, len(said)) == ("batch", 0.5, [], 4)


def test_a_file_that_no_setting_converts_fails_as_the_most_general_one_did(monkeypatch):
    with pytest.raises(ConversionError, match="first") as caught:
        tries(monkeypatch, "first", "second", "third", "fourth")
    assert (caught.value.operator, caught.value.node) == ("Conv", "node")
