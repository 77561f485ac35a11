"""`pytorch.run` under torch.compile: results against plain arithmetic, and what it refuses."""

import numpy as np
import pytest
import torch

from tensoraudit.probes.protocol import JobUnsupported, LocalSession
from tensoraudit.probes.pytorch.compiled import compile_module
from tensoraudit.probes.pytorch.run import run

MODEL = """
import torch


class Told(torch.nn.Module):
    # x + 1 operation by operation, x + 2 compiled
    def forward(self, x):
        return x + (2.0 if torch.compiler.is_compiling() else 1.0)
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def ask(tmp_path):
    path = tmp_path / "told.py"
    path.write_text(MODEL)
    (tmp_path / "run").mkdir()
    session = LocalSession(tmp_path / "run")
    spec = {"format": "python_object", "path": str(path), "module": None, "attribute": "Told", "seed": 0, "code": []}

    def call(**params):
        inputs = [{"name": "a", "arrays": {"x": session.put(X)}}]
        result = run({"model": spec, "inputs": inputs, "oracle": False, "perturbations": 0, **params}, session)
        (row,) = result["runs"]
        return row, result["settings"], session

    return call


def test_a_run_is_not_compiled_unless_that_is_asked_for(ask):
    row, settings, session = ask()
    assert session.get(row["outputs"]["output"]).tolist() == (X + 1).tolist()
    assert settings["compiled"] is False


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's own, about its own
def test_a_compiled_run_computes_what_the_compiled_model_says(ask):
    row, settings, session = ask(compiled=True)
    assert row["error"] is None
    assert session.get(row["outputs"]["output"]).tolist() == (X + 2).tolist()
    assert session.get(row["repeat"]["output"]).tolist() == (X + 2).tolist()
    assert settings["compiled"] is True


def test_a_torchscript_program_is_not_compiled_again():
    program = torch.jit.trace(torch.nn.Linear(3, 2), torch.zeros(1, 3))
    with pytest.raises(JobUnsupported, match="compiler of its own"):
        compile_module(program)


def test_without_a_compiler_no_model_is_at_fault(monkeypatch):
    from torch._inductor import cpp_builder

    def none():
        raise RuntimeError("No working C++ compiler found")

    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", none)
    with pytest.raises(JobUnsupported, match=r"torch\.compile finds no C\+\+ compiler: No working"):
        compile_module(torch.nn.Linear(3, 2))
