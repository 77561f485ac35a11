"""PyTorch to TensorFlow over JAX, end to end: token ids become int32, and a table bounds the length."""

import os
from pathlib import Path

import pytest

from tensoraudit.api import scan

VARIABLE = "TENSORAUDIT_TF_PYTHON"
SOURCE = """
import torch

class Embedded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.tokens = torch.nn.Embedding(50, 8)
        self.register_buffer("positions", torch.randn(16, 8))

    def forward(self, ids):
        return self.tokens(ids) + self.positions[: ids.shape[1]]

def make_model():
    return Embedded().eval()
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get(VARIABLE),
        reason=f"set {VARIABLE} to a Python with TensorFlow, JAX and PyTorch (requirements/frameworks.txt)",
    ),
]


def test_token_ids_and_a_length_with_a_bound_arrive(tmp_path):
    path = Path(tmp_path, "embedded.py")
    path.write_text(SOURCE)
    report = scan(
        f"{path}:make_model",
        target="tensorflow",
        via="torch_export+torchax+jax2tf",
        input=("ids:int64[batch,length]",),
        python=dict.fromkeys(("pytorch", "jax", "tensorflow"), os.environ[VARIABLE]),
    )
    assert report["grade"]["tensorflow"] == "A"
    sets = {row["inputs"]: row["linf"] for row in report["equivalence"]}
    assert {"batch=1", "batch=5", "length=5"} <= set(sets)
    assert set(sets.values()) == {0.0}  # an embedding and one addition: the same bits everywhere
    assert any("ids from int64 to int32" in note for note in report["notes"])
