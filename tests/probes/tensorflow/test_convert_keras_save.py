"""Keras models in any form that become .keras files: the file computes what the model did."""

import zipfile

import numpy as np
import pytest

pytestmark = pytest.mark.slow
X = np.random.default_rng(1).normal(size=(2, 17, 19, 3)).astype(np.float32)


@pytest.fixture
def save(ask, tmp_path):
    def call(name, sample, **more):
        return ask("convert", name, sample=sample, tool="keras_save", dynamic={}, folder=str(tmp_path), **more)

    return call


def outputs(pool, params, sample):
    given = {name: pool.put(array) for name, array in sample.items()}
    request = {**params, "inputs": [{"name": "s", "arrays": given}], "perturbations": 0, "oracle": False}
    row = pool.run("tensorflow", "tensorflow.run", request).result["runs"][0]
    return {name: pool.get(each) for name, each in row["outputs"].items()}


def test_a_model_of_the_users_code(ask, pool, save):
    before = ask("run", "cnn", {"s": {"image": X}}).result["runs"][0]["outputs"]
    result = save("cnn", {"image": X}).result
    assert (result["input_names"], result["output_names"]) == (["image"], ["output"])
    assert zipfile.is_zipfile(result["params"]["model"]["path"])
    np.testing.assert_array_equal(outputs(pool, result["params"], {"image": X})["output"], pool.get(before["output"]))


def test_two_outputs_by_name(ask, pool, save):
    tokens = np.random.default_rng(2).normal(size=(3, 4, 6)).astype(np.float32)
    before = ask("run", "recurrent", {"s": {"tokens": tokens}}).result["runs"][0]["outputs"]
    result = save("recurrent", {"tokens": tokens}).result
    after = outputs(pool, result["params"], {"tokens": tokens})
    assert set(after) == set(result["output_names"]) == {"score", "logits"}
    for name, array in after.items():
        np.testing.assert_array_equal(array, pool.get(before[name]))


def test_what_is_no_keras_model(save):
    outcome = save("affine", {"x": np.ones((2, 4), np.float32)})
    assert outcome.status == "unsupported" and "no Keras model" in outcome.reason


def test_a_class_that_cannot_be_made_again(save):
    outcome = save("Fixed", {"x": np.ones((2, 5), np.float32)})
    assert outcome.status == "failed", outcome.result
    assert "configuration" in outcome.reason and "get_config" in outcome.error["details"]["remedy"]
