"""Samples beside the factory."""

import pytest
import torch

from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.pytorch.model import open_model
from tensoraudit.probes.pytorch.samples import dynamic_dims, flat


@pytest.fixture
def opened(session, spec):
    return lambda name, file="with_samples.py": open_model(session, spec(name, file))


def test_several_samples_of_numpy_arrays_by_position(opened):
    first, second = map(flat, opened("two").samples)
    assert list(first) == ["a", "b"]
    assert first["a"].dtype == torch.float32
    assert second["b"].shape == (5, 3)


def test_dimensions_that_differ_and_declared_ones(opened):
    model = opened("two")
    assert dynamic_dims(model.loaded, list(model.samples), model.attribute) == {
        "a": {"0": "rows", "1": "width"},  # declared wins over "batch"
        "b": {"0": "batch"},
    }


def test_equal_sizes_get_one_name(opened):
    model = opened("Words", "plain_models.py")
    assert dynamic_dims(model.loaded, list(model.samples), model.attribute) == {"ids": {"0": "batch", "1": "ids_1"}}


def test_a_dict_for_a_model_that_takes_one_dict(opened):
    (sample,) = opened("Batch").samples
    assert set(flat(sample)) == {"batch.x", "batch.y"}


def test_variable_arguments(opened):
    (sample,) = opened("Rest").samples
    assert list(flat(sample)) == ["first", "rest.0", "rest.1"]


def test_nested_arguments_by_name(opened):
    (sample,) = opened("Nested", "plain_models.py").samples
    assert list(flat(sample)) == ["x", "states.0", "states.1", "scale", "options.bias"]
    assert flat(sample)["scale"] == 4.0


def test_a_model_without_samples(opened):
    assert opened("Affine", "plain_models.py").samples == ()


def test_the_factorys_own_samples_come_first(opened):
    (sample,) = opened("make_affine", "plain_models.py").samples
    assert sample["x"].shape == (5, 3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Many", "gives 2 arguments, but forward takes 1"),
        ("Fails", r"sample_inputs\(\) fails at with_samples.py:\d+: RuntimeError"),
        ("Strange", r"sample_inputs\(\): x: a object is no tensor"),
    ],
)
def test_bad_samples_say_what_is_wrong(opened, name, message):
    with pytest.raises(JobFailed, match=message) as caught:
        opened(name)
    assert caught.value.details["remedy"]


def test_example_inputs_of_an_exported_program(session, file_spec, tmp_path):
    rows = torch.export.Dim("rows")
    program = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(5, 3),), dynamic_shapes={"input": {0: rows}})
    torch.export.save(program, tmp_path / "m.pt2")
    model = open_model(session, file_spec("exported_program", tmp_path / "m.pt2"))
    assert flat(model.samples[0])["input"].shape == (5, 3)
    dynamic = dynamic_dims(model.loaded, list(model.samples), "")
    assert list(dynamic) == ["input"] and list(dynamic["input"]) == ["0"]
