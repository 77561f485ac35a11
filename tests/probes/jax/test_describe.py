"""jax.describe, and the forms of models that are taken or refused."""

import numpy as np
import pytest

WIDE = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}


def named(rows):
    return {row["name"]: (row["dtype"], row["shape"]) for row in rows}


def test_hello_tells_versions_devices_and_the_state_of_64_bit_types(pool):
    hello = pool.hello("jax").result
    assert hello["framework"] == "jax" and hello["version"] == hello["packages"]["jax"]
    assert {"jaxlib", "flax", "numpy"} <= set(hello["packages"])
    assert hello["x64"] is False
    kinds = {device["kind"] for device in hello["devices"]}
    assert "cpu" in kinds and ("cuda" in kinds or hello["inactive"]["cuda"].startswith("JAX "))


def test_a_function_with_parameters(job, arrays):
    found = job("describe", "make_mlp")
    assert (found["kind"], found["training"], found["x64"], found["canonical"]) == ("function", False, False, WIDE)
    assert [argument["name"] for argument in found["arguments"]] == ["x"]
    assert named(found["parameters"]) == {
        "params/dense/bias": ("float32", [4]), "params/dense/kernel": ("float32", [8, 4]),
    }  # fmt: skip
    (given,) = found["samples"]
    assert arrays(given["arrays"])["x"].shape == (3, 8)
    assert [path.rpartition("/")[2] for path in found["source_files"]] == ["jax_models.py"]


def test_a_linen_module_with_variables(job):
    found = job("describe", "make_cnn")
    assert (found["class"], found["kind"]) == ("CNN", "linen")
    assert [(each["name"], each["required"]) for each in found["arguments"]] == [("x", True), ("train", False)]
    parameters = named(found["parameters"])
    assert parameters["params/Conv_0/kernel"] == ("float32", [3, 3, 3, 4])
    assert named(found["buffers"]) == {
        "batch_stats/BatchNorm_0/mean": ("float32", [4]), "batch_stats/BatchNorm_0/var": ("float32", [4]),
    }  # fmt: skip
    assert found["classes"] == []  # which modules a compact one is made of is not known before it runs
    assert job("describe", "make_bound_cnn")["parameters"] == found["parameters"]


def test_an_nnx_module(job):
    found = job("describe", "make_nnx")
    assert (found["class"], found["kind"], found["training"]) == ("Net", "nnx", False)
    assert named(found["parameters"])["params/first/kernel"] == ("float32", [8, 16])
    assert named(found["buffers"])["batch_stats/norm/mean"] == ("float32", [16])
    assert named(found["buffers"])["rngs/dropout/rngs/key"] == ("key<fry>", [])
    assert {"path": "dropout", "class": "Dropout"} in found["modules"]
    assert {"Net", "Linear", "Module"} <= set(found["classes"])
    assert job("describe", "make_training_nnx")["training"] is True


def test_embeddings_give_the_bound_of_ids(job, arrays):
    found = job("describe", "make_ids")
    assert found["embedding_sizes"] == {"params/embed/embedding": 50}
    assert arrays(found["samples"][0]["arrays"])["ids"].dtype == np.int64


def test_numbers_and_containers_in_samples(job):
    (scaled,) = job("describe", "make_scaled")["samples"]
    assert (scaled["arrays"]["scale"], scaled["arrays"]["power"]) == ({"value": 2.0}, {"value": 2})
    (nested,) = job("describe", "make_nested")["samples"]
    assert list(nested["arrays"]) == ["pair.0", "pair.1", "table.b", "table.a"]


def test_a_model_with_64_bit_types(job):
    found = job("describe", "make_wide", "jax_wide_models.py")
    assert (found["x64"], found["canonical"]) == (True, {})
    assert job("describe", "make_mlp")["canonical"] == WIDE


def test_a_serialized_program_has_its_signature(pool, exported_file):
    model = {"format": "jax_export", "path": str(exported_file), "module": None, "attribute": None, "code": []}
    found = pool.run("jax", "jax.describe", {"model": model}).result
    (argument,) = found["arguments"]
    assert (argument["name"], argument["dtype"], argument["shape"]) == ("args_0", "float32", ["b", 8])
    assert found["outputs"] == [{"name": "output", "dtype": "float32", "shape": ["b", 4]}]
    assert found["dynamic"] == {"args_0": {"0": "b"}}


def test_a_damaged_program_is_refused(pool, exported_file, tmp_path):
    path = tmp_path / "cut.bin"
    path.write_bytes(exported_file.read_bytes()[:600])
    model = {"format": "jax_export", "path": str(path), "module": None, "attribute": None, "code": []}
    outcome = pool.run("jax", "jax.describe", {"model": model})
    assert outcome.status == "failed" and outcome.reason.startswith("cut.bin cannot be read by JAX")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("make_unbound_cnn", "CNN is a linen module without variables"),
        ("make_list", "what jax_models.py:make_list returns is a list, which is no JAX model"),
        ("needs_arguments", "jax_models.py:needs_arguments needs arguments: width"),
        ("absent", "jax_models.py has no 'absent'; it has "),
        ("MLP_WEIGHT", "jax_models.py:MLP_WEIGHT is a ndarray, not a model"),
    ],
)
def test_what_is_no_model_is_refused_with_what_to_do(attempt, name, reason):
    outcome = attempt("describe", name)
    assert outcome.status == "failed"
    assert outcome.reason.startswith(reason)
    assert outcome.error["details"]["remedy"]


def test_another_format_is_unsupported(pool):
    model = {"format": "torchscript", "path": "x.pt", "module": None, "attribute": None, "code": []}
    outcome = pool.run("jax", "jax.describe", {"model": model})
    assert (outcome.status, outcome.reason) == ("unsupported", "JAX runs no model of the format 'torchscript'")
