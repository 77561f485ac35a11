from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from tensoraudit.probes.onnxruntime.levels import levels
from tensoraudit.probes.protocol import JobFailed

FLOAT = TensorProto.FLOAT


def test_all_levels_run_the_same_inputs(bench, mlp):
    sample = bench.sample(x=np.ones((2, 3), np.float32))
    result = levels({"path": mlp, "inputs": [sample]}, bench.session)["levels"]
    assert list(result) == ["disable", "basic", "extended", "all"]
    assert [answer["settings"]["level"] for answer in result.values()] == list(result)
    first = bench.read(result["disable"]["runs"][0]["outputs"])["logits"]
    for answer in result.values():
        np.testing.assert_allclose(bench.read(answer["runs"][0]["outputs"])["logits"], first, rtol=1e-6)


def test_levels_really_differ_in_what_they_run(bench):
    """A pair of transposes that cancel out is removed by the basic optimisations and kept without them."""
    nodes = [
        bench.node("Transpose", ["x"], ["t"], perm=[1, 0]),
        bench.node("Transpose", ["t"], ["u"], perm=[1, 0]),
        bench.node("Relu", ["u"], ["y"]),
    ]
    path = bench.model(nodes, [bench.value("x", FLOAT, [2, 3])], [bench.value("y", FLOAT, [2, 3])])
    result = levels({"path": path, "inputs": [bench.sample(x=np.ones((2, 3), np.float32))]}, bench.session)["levels"]
    counts = {level: sum(answer["settings"]["placement"].values()) for level, answer in result.items()}
    assert counts["disable"] == 3
    assert counts["all"] == 1


def test_a_model_that_loads_at_no_level_fails(bench):
    path = bench.model(
        [bench.node("Foo", ["x"], ["y"])], [bench.value("x", FLOAT, [2])], [bench.value("y", FLOAT, [2])]
    )
    with pytest.raises(JobFailed, match="does not know the operator Foo"):
        levels({"path": path, "inputs": []}, bench.session)


def test_a_level_that_does_not_load_is_an_answer(bench, mlp, monkeypatch):
    from tensoraudit.probes.onnxruntime import levels as module

    real = module.open_file

    def open_file(path, settings, session):
        if settings.level == "extended":
            raise JobFailed("no fused kernel", operator="FusedConv")
        return real(path, settings, session)

    monkeypatch.setattr(module, "open_file", open_file)
    result = levels({"path": mlp, "inputs": []}, bench.session)["levels"]
    assert result["extended"]["error"] == {
        "type": "SessionError",
        "message": "no fused kernel",
        "operator": "FusedConv",
    }
    assert "error" not in result["all"]
