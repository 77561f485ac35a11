"""pytorch.export: what is written is read back, and runs like the reference."""

import numpy as np
import onnx
import pytest
import torch

from tensoraudit.probes.protocol import JobFailed, JobUnsupported

X = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
DYNAMO, TORCHSCRIPT = "torch_onnx_dynamo", "torch_onnx_torchscript"


@pytest.fixture
def export(job, spec, sample, tmp_path):
    def run(name, inputs=None, route=TORCHSCRIPT, dynamic=None, **options):
        return job(
            "export",
            model=name if isinstance(name, dict) else spec(name),
            inputs=inputs or sample(x=X),
            route=route,
            dynamic=dynamic or {},
            opset=options.pop("opset", None),
            path=str(tmp_path / "model.onnx"),
        )

    return run


def run_onnx(result, feeds):
    import onnxruntime

    session = onnxruntime.InferenceSession(result["path"], providers=["CPUExecutionProvider"])
    values = session.run(result["output_names"], {name: feeds[name] for name in result["input_names"]})
    return dict(zip(result["output_names"], values, strict=True))


@pytest.mark.parametrize("route", [DYNAMO, TORCHSCRIPT])
def test_both_routes_write_a_file_that_runs_with_other_batches(export, route):
    result = export("Affine", route=route, dynamic={"x": {"0": "rows"}})
    assert result["input_names"] == ["x"]
    assert result["output_names"] == result["file_output_names"] == ["output"]
    assert result["dynamic_requested"] == result["dynamic_written"] == {"x": {"0": "rows"}}
    assert result["dynamic_lost"] == {}
    assert result["opset"] == onnx.load(result["path"]).opset_import[0].version
    assert result["options"]["dynamo"] is (route == DYNAMO)
    x = np.linspace(-1, 1, 21, dtype=np.float32).reshape(7, 3)
    expected = 2 * (x @ (np.arange(6, dtype=np.float32).reshape(2, 3) / 7).T + np.float32([0.1, -0.3]))
    assert np.allclose(run_onnx(result, {"x": x})["output"], expected, atol=1e-6)


def test_the_opset_that_was_asked_for(export):
    result = export("Affine", opset=14)
    assert (result["opset_requested"], result["opset_written"]) == (14, 14)


def test_nested_keyword_and_number_arguments(export, sample):
    inputs = sample(
        x=np.ones((2, 3), np.float32),
        states__0=np.full((2, 3), 5, np.float32),
        states__1=np.full((2, 3), 3, np.float32),
        scale=4.0,
        options__bias=np.full(3, 0.5, np.float32),
    )
    result = export("Nested", inputs)
    assert result["input_names"] == ["x", "states.0", "states.1", "options.bias"]
    assert result["inputs_dropped"] == ["scale"]
    assert result["output_names"] == ["output.logits", "output.states.0", "output.states.1.0"]
    feeds = {
        "x": np.full((2, 3), 2, np.float32),
        "states.0": np.zeros((2, 3), np.float32),
        "states.1": np.ones((2, 3), np.float32),
        "options.bias": np.zeros(3, np.float32),
    }
    outputs = run_onnx(result, feeds)
    assert outputs["output.logits"].tolist() == [[7.0] * 3] * 2  # 2 * 4 + 0 - 1
    assert outputs["output.states.1.0"].tolist() == [[2.0] * 3] * 2


def test_nested_dynamic_shapes_by_the_dynamo_route(export, sample):
    inputs = sample(
        x=np.ones((2, 3), np.float32),
        states__0=np.full((2, 3), 5, np.float32),
        states__1=np.full((2, 3), 3, np.float32),
        options__bias=np.full(3, 0.5, np.float32),
    )
    dynamic = {name: {"0": "rows"} for name in ("x", "states.0", "states.1")}
    result = export("Nested", inputs, DYNAMO, dynamic)
    assert result["dynamic_written"] == dynamic
    assert result["options"]["dynamic_shapes"]["states"] == ({0: "rows"}, {0: "rows"})


def test_outputs_dimensions_that_vary_are_declared_to_the_torchscript_route(export, sample):
    inputs = sample(ids=np.array([[1, 2, 3], [4, 5, 6]]))
    result = export("Words", inputs, dynamic={"ids": {"0": "batch", "1": "length"}})
    assert result["options"]["dynamic_axes"]["output"] == {0: "batch", 1: "length"}


def test_warnings_come_with_the_users_line(export):
    (warning,) = export("Truncated", dynamic={"x": {"1": "width"}})["warnings"]
    assert "plain_models.py:" in warning
    assert "Converting a tensor to a Python boolean" in warning


def test_guards_name_the_sizes_for_which_the_traced_branch_holds(export, sample):
    result = export("Truncated", sample(x=np.ones((2, 7), np.float32)), DYNAMO, {"x": {"1": "width"}})
    (guard,) = [each for each in result["guards"] if "5" in each["condition"]]
    assert guard["condition"] == "x.shape[1] > 5"
    assert guard["source"]["text"] == "return x[:, :5] if x.shape[1] > 5 else x"


def test_the_model_goes_in_as_it_was_handed_over(export, sample):
    result = export("Untrained", sample(input=X), DYNAMO)
    assert result["training"] is True
    assert "Dropout" in {node.op_type for node in onnx.load(result["path"]).graph.node}


def test_the_loaded_model_stays_as_it_was(export, job, spec, sample, arrays):
    export("Affine")
    (row,) = job("run", model=spec("Affine"), inputs=[sample(x=X)])["runs"]
    assert arrays(row["outputs"])["output"].shape == (5, 2)


def test_a_model_that_fails_on_the_inputs(export, tmp_path):
    with pytest.raises(JobFailed, match="the model itself fails on these inputs: ValueError: at most four") as caught:
        export("Picky")
    assert caught.value.details["stage"] == "run"
    assert not (tmp_path / "model.onnx").exists()


def test_unknown_route(export):
    with pytest.raises(JobUnsupported, match="torch_onnx_dynamo, torch_onnx_torchscript"):
        export("Affine", route="fax")


def test_exported_program_keeps_its_own_dynamic_dimensions(export, file_spec, tmp_path, sample):
    rows = torch.export.Dim("rows")
    program = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(5, 3),), dynamic_shapes={"input": {0: rows}})
    torch.export.save(program, tmp_path / "m.pt2")
    for route in (DYNAMO, TORCHSCRIPT):
        result = export(
            file_spec("exported_program", tmp_path / "m.pt2"), sample(input=X), route, {"input": {"0": "batch"}}
        )
        assert list(result["dynamic_written"]["input"]) == ["0"]
        assert run_onnx(result, {"input": X[:3]})["output"].shape == (3, 2)


def test_torchscript_file_by_its_own_route(export, file_spec, script, sample):
    class Net(torch.nn.Module):
        def forward(self, x, n: int):
            return x * n

    given = file_spec("torchscript", script(Net()))
    result = export(given, sample(x=X, n=np.array(3)))
    assert result["input_names"] == ["x", "n"]
    assert np.allclose(run_onnx(result, {"x": X, "n": np.array(2)})["output"], 2 * X)
    with pytest.raises(JobFailed, match="takes no TorchScript module") as caught:
        export(given, sample(x=X, n=np.array(3)), DYNAMO)
    assert "TS2EPConverter" in caught.value.details["remedy"]
