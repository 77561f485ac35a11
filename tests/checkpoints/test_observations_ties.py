"""Output layers and embeddings: the files are written by safetensors and read from their headers."""

import json

import pytest

torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")

from torch import nn  # noqa: E402

from tensoraudit.checkpoints import safetensors_file  # noqa: E402
from tensoraudit.checkpoints.observations import ties  # noqa: E402


class Net(nn.Module):
    def __init__(self, tied):
        super().__init__()
        self.embed_tokens, self.lm_head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        if tied:
            self.lm_head.weight = self.embed_tokens.weight


def observed(folder, save, config):
    path = folder / "model.safetensors"
    save(path)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return [(each.kind, each.subject, each.value) for each in ties.observe(safetensors_file.read(path))]


def alone(path):
    safetensors_torch.save_file({"embed_tokens.weight": torch.zeros(7, 4)}, path)


def apart(path):
    safetensors_torch.save_model(Net(tied=False), str(path))


def together(path):
    safetensors_torch.save_model(Net(tied=True), str(path))


CAUSAL = ["LlamaForCausalLM"]
COPIES = [("tied_copies", "lm_head.weight", "embed_tokens.weight")]
MISSING = [("head_missing", "embed_tokens.weight", [7, 4])]


@pytest.mark.parametrize(
    ("save", "config", "expected"),
    [
        (apart, {"tie_word_embeddings": True}, COPIES),
        (apart, {"tie_word_embeddings": False}, []),
        (apart, None, []),
        (together, {"tie_word_embeddings": True}, []),
        (alone, {"tie_word_embeddings": True, "architectures": CAUSAL}, []),
        (alone, {"tie_word_embeddings": False, "architectures": CAUSAL}, MISSING),
        (alone, {"tie_word_embeddings": False, "architectures": ["LlamaModel"]}, []),
        (alone, {"tie_word_embeddings": False}, []),
        (alone, {"tie_word_embeddings": "no", "architectures": CAUSAL}, []),
    ],
)
def test_what_is_stored_and_what_the_configuration_says(tmp_path, save, config, expected):
    assert observed(tmp_path, save, config) == expected


def test_another_shape_is_no_copy(tmp_path):
    def save(path):
        tensors = {"embed_tokens.weight": torch.zeros(7, 4), "lm_head.weight": torch.zeros(9, 4)}
        safetensors_torch.save_file(tensors, path)

    assert observed(tmp_path, save, {"tie_word_embeddings": True}) == []


def test_layers_of_other_names_say_nothing(tmp_path):
    def save(path):
        safetensors_torch.save_file({"mlp.shared.bias": torch.zeros(4), "encoder.weight": torch.zeros(7, 4)}, path)

    assert observed(tmp_path, save, {"tie_word_embeddings": False, "architectures": CAUSAL}) == []
