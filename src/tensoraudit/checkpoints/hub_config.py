"""`config.json` beside weights: what a model of the Hugging Face libraries says about them."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.bounded_json import JsonLimits, read_json
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.errors import InputError

_KEYS: Final = (
    "architectures", "model_type", "tie_word_embeddings", "vocab_size", "torch_dtype", "dtype", "quantization_config",
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "rope_theta",
)  # fmt: skip
_LIMITS: Final = JsonLimits(size=4 << 20, names=100_000, items=200_000)
_MOST: Final = 100
_DEPTH: Final = 8


def read_config(folder: Path) -> dict[str, Any]:
    """Return the keys of `folder/config.json` that concern weights, {} where there is no such file or it is broken.

    A model of several parts keeps those of its language model in `text_config`; they stand in for keys that the outer
    level lacks. It is a neighbour's file, so it must not keep the weights from being read.
    """
    path = folder / "config.json"
    if not path.is_file():
        return {}
    try:
        config = read_json(map_file(path), str(path), _LIMITS)
    except InputError:
        return {}
    if not isinstance(config, dict):
        return {}
    inner = config.get("text_config")
    known = {**inner, **config} if isinstance(inner, dict) else config
    return {key: _cut(known[key]) for key in _KEYS if known.get(key) is not None}


def _cut(value: Any, depth: int = 0) -> Any:
    """The value without what would swell a report: a quantisation may list every module that it leaves alone."""
    if isinstance(value, dict | list) and depth == _DEPTH:
        return None
    if isinstance(value, dict):
        return {key[:200]: _cut(each, depth + 1) for key, each in islice(value.items(), _MOST)}
    if isinstance(value, list):
        return [_cut(each, depth + 1) for each in value[:_MOST]]
    return value[:200] if isinstance(value, str) else value
