"""pytorch.convert by torch.export: the file, its names, its dimensions, and why what fails does."""

from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch

from tensoraudit.probes.protocol import JobFailed, JobUnsupported, LocalSession
from tensoraudit.probes.pytorch.jobs import JOBS

MODELS = '''
import dataclasses
import torch
from torch import nn


@dataclasses.dataclass
class Result:
    scores: torch.Tensor
    nothing: object
    best: torch.Tensor


class Net(nn.Module):
    """x @ w + 1, with dropout that only trains, in a class of its own."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.arange(12.0).reshape(4, 3))
        self.drop = nn.Dropout(0.5)

    def forward(self, x, flag=True):
        y = self.drop(x @ self.w) + 1
        return Result(y, None, y.argmax(-1))


class Pair(nn.Module):
    def forward(self, states, scale):
        return states[0] * scale + states[1], states[1].sum()


class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


class Fixed(nn.Module):
    def forward(self, x):
        return x.reshape(5, 4) * 2


class Positions(nn.Module):
    """Adds the first rows of a table of 16 positions, so that a length has a bound."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(64.0).reshape(1, 16, 4))

    def forward(self, x):
        return x + self.table[:, : x.shape[1]]


class Scripted(nn.Module):
    def forward(self, x):
        return x + 1


def scripted():
    return torch.jit.script(Scripted())
'''
X = np.arange(20, dtype=np.float32).reshape(5, 4)


@pytest.fixture
def session(tmp_path):
    (tmp_path / "run").mkdir()
    return LocalSession(tmp_path / "run")


@pytest.fixture
def convert(session, tmp_path):
    path = tmp_path / "net_models.py"
    path.write_text(MODELS)

    def call(name, dynamic=None, **arrays):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        model = {"format": "python_object", "path": str(path), "attribute": name, "trust": False, "code": [], "seed": 0}
        inputs = {
            key.replace("__", "."): session.put(each) if isinstance(each, np.ndarray) else {"value": each}
            for key, each in arrays.items()
        }
        params = {"model": model, "tool": "torch_export", "inputs": {"name": "s", "arrays": inputs}}
        return JOBS["pytorch.convert"](
            {**params, "dynamic": dynamic or {}, "opset": None, "folder": str(folder)}, session
        )

    return call


@pytest.fixture
def outputs(session):
    """What the jobs say that a converted model computes."""

    def call(result, **arrays):
        inputs = {
            key: session.put(each) if isinstance(each, np.ndarray) else {"value": each} for key, each in arrays.items()
        }
        params = {**result["params"], "inputs": [{"name": "s", "arrays": inputs}], "perturbations": 0}
        (row,) = JOBS["pytorch.run"](params, session)["runs"]
        assert row["error"] is None, row["error"]
        return {name: np.array(session.get(each)) for name, each in row["outputs"].items()}

    return call


def test_a_result_of_a_class_becomes_plain_and_keeps_its_names(convert, outputs):
    result = convert("Net", x=X)
    assert result["params"]["model"]["format"] == "exported_program"
    assert Path(result["params"]["model"]["path"]).is_file()
    assert (result["input_names"], result["output_names"]) == (["x"], ["output.scores", "output.best"])
    assert (result["dtype_changes"], result["dropped_outputs"]) == ({}, [])
    expected = X @ np.arange(12, dtype=np.float32).reshape(4, 3) + 1  # no dropout: in eval mode
    found = outputs(result, x=X)
    assert np.array_equal(found["output.scores"], expected)
    assert np.array_equal(found["output.best"], expected.argmax(-1))


def test_a_named_dimension_stays_open(convert, outputs):
    result = convert("Net", {"x": {"0": "batch size"}}, x=X)
    assert outputs(result, x=X[:2])["output.scores"].shape == (2, 3)
    assert result["options"]["dynamic_shapes"] == {"x": {0: "batch size"}}


def test_a_dimension_that_the_code_bounds_stays_open_within_its_bounds(convert, outputs):
    """torch answers a `Dim` without bounds with "Suggested fixes: Dim(max=16)"."""
    x = np.arange(40, dtype=np.float32).reshape(2, 5, 4)
    result = convert("Positions", {"x": {"0": "batch", "1": "length"}}, x=x)
    longer = np.ones((3, 16, 4), np.float32)
    assert np.array_equal(outputs(result, x=longer)["output"], longer + np.arange(64).reshape(1, 16, 4))


def test_inputs_in_containers_keep_their_flat_names(convert):
    result = convert("Pair", states__0=X, states__1=X, scale=X)
    assert result["input_names"] == ["states.0", "states.1", "scale"]
    assert result["output_names"] == ["output.0", "output.1"]


def test_a_branch_on_a_value_is_refused_with_its_line(convert):
    with pytest.raises(JobFailed) as refused:
        convert("Branch", x=X)
    assert refused.value.message == "the Python code branches on a value that is known only when the model runs"
    details = refused.value.details
    assert details["stage"] == "trace" and details["source"]["text"] == "if x.sum() > 0:"
    assert "torch.where" in details["remedy"]


def test_a_dimension_that_the_code_fixes_is_named(convert):
    with pytest.raises(JobFailed) as refused:
        convert("Fixed", {"x": {"0": "batch"}}, x=X)
    assert refused.value.details["fixed"] == {"x": {"0": 5}}
    assert refused.value.details["source"]["text"] == "return x.reshape(5, 4) * 2"


@pytest.mark.filterwarnings("ignore")
def test_a_script_is_refused(convert):
    with pytest.raises(JobFailed, match=r"torch\.export takes no TorchScript module") as refused:
        convert("scripted", x=X)
    assert "file.py:factory" in refused.value.details["remedy"]


def test_a_program_stays_the_file_that_it_is(session, tmp_path):
    path = tmp_path / "given.pt2"
    torch.export.save(torch.export.export(torch.nn.Identity(), (torch.zeros(2, 3),)), path)
    model = {"format": "exported_program", "path": str(path), "trust": False, "seed": 0}
    sample = {"name": "s", "arrays": {"input": session.put(np.zeros((2, 3), np.float32))}}
    params = {"model": model, "tool": "torch_export", "inputs": sample, "dynamic": {}, "folder": str(tmp_path)}
    result = JOBS["pytorch.convert"](params, session)
    assert result["params"] == {"model": model} and result["output_names"] == ["output"]


def test_an_unknown_tool_is_named_with_those_that_exist(session):
    with pytest.raises(JobUnsupported, match="torch_export, onnx2torch, keras_torch"):
        JOBS["pytorch.convert"]({"tool": "magic"}, session)


def test_reads_of_known_numbers_leave_no_trace_in_the_file(tmp_path):
    """torch 2.13 writes `item` of a constant, which torch.export keeps, to a file that it cannot load."""
    from tensoraudit.routes.torch_export_program import export

    class Sizes(torch.nn.Module):
        def forward(self, x):
            shape = torch.tensor([x.shape[1], x.shape[0]])
            return x.reshape(shape.tolist())

    path = str(tmp_path / "sizes.pt2")
    export(Sizes(), (torch.from_numpy(X),), {}, None, path)
    assert torch.equal(torch.export.load(path).module()(torch.from_numpy(X)), torch.from_numpy(X.reshape(4, 5)))


def test_plain_results_keep_the_places_of_what_is_left_out():
    from tensoraudit.probes.pytorch.convert import _plain

    tensor = torch.ones(1)
    assert _plain((tensor, None, [3, OrderedDict(a=tensor)])) == (tensor, None, (None, {"a": tensor}))
