"""Weights that are cut among processes, and rows that pad a vocabulary."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from tensoraudit.checkpoints.schema import Entry, Observation, StoredCheckpoint

_FLAT: Final = re.compile(r"(?:^|\.)_?flat_param(?:_\d+)?$")
_FUSED: Final = re.compile(
    r"\.(?:c_attn|qkv|qkv_proj|query_key_value|linear_qkv|gate_up_proj|linear_fc1)\.(?:weight|bias)$"
)
_ROWS: Final = re.compile(r"\.(?:o_proj|out_proj|dense_4h_to_h|down_proj|w2|c_proj|linear_proj|linear_fc2)\.weight$")
_COLUMNS: Final = re.compile(r"\.(?:[qkv]_proj|gate_proj|up_proj|dense_h_to_4h|w1|w3|fc1)\.weight$")
_EMBEDDING: Final = re.compile(
    r"(?:^|\.)(?:embed_tokens|wte|word_embeddings|tok_embeddings|embed_in|lm_head|embed_out|output_layer)\.weight$"
)
_ROUND: Final = 64
_FIRST: Final = ("mp_rank_00",)
"""Where DeepSpeed's model-parallel ranks stand side by side, the first speaks for all."""


def observe(stored: StoredCheckpoint) -> Iterator[Observation]:
    """Yield `flat_parameter`, `fused_shards`, `merge_axis` and `vocabulary_padded`, for each tensor."""
    parallel = stored.metadata.get("tensor_parallel")
    ranks = parallel if isinstance(parallel, int) else 1
    vocabulary = _vocabulary(stored)
    for entry in stored.entries:
        if entry.group != "model":
            continue
        if "flat_param" in entry.name and _FLAT.search(entry.name):
            told = f"{entry.full_name} holds {entry.numel:,} elements: parameters and padding, one after the other"
            yield Observation("flat_parameter", entry.full_name, entry.numel, told)
        if ranks > 1 and (len(entry.parts) > 1 or entry.path[:1] == _FIRST):
            yield from _cut(entry, ranks)
        if vocabulary and entry.name.endswith(".weight") and len(entry.shape) == 2:
            yield from _padded(entry, vocabulary)


def _vocabulary(stored: StoredCheckpoint) -> int:
    """The number of tokens, 0 where it is not known."""
    config: Any = stored.metadata.get("config")
    size = config.get("vocab_size") if isinstance(config, dict) else None
    original = stored.metadata.get("original_vocab_size", size)
    return original if isinstance(original, int) else 0


def _cut(entry: Entry, ranks: int) -> Iterator[Observation]:
    if _FUSED.search(entry.name):
        told = f"{entry.full_name} is cut among {ranks} ranks, of which each has a piece of every fused part"
        yield Observation("fused_shards", entry.full_name, ranks, told)
    wanted = 1 if _ROWS.search(entry.name) else 0 if _COLUMNS.search(entry.name) else None
    axis = _axis(entry)
    if wanted is not None and axis is not None and axis != wanted:
        told = (
            f"{entry.full_name} is put together along axis {axis}, and layers of this name are cut along axis {wanted}."
        )
        yield Observation("merge_axis", entry.full_name, [axis, wanted], told)


def _axis(entry: Entry) -> int | None:
    """The one axis along which the parts of a matrix lie, None where there is none or they are whole."""
    if len(entry.shape) != 2 or any(len(part.shape) != 2 for part in entry.parts):
        return None
    cut = [axis for axis in (0, 1) if any(part.shape[axis] != entry.shape[axis] for part in entry.parts)]
    return cut[0] if len(cut) == 1 else None


def _padded(entry: Entry, vocabulary: int) -> Iterator[Observation]:
    rows = entry.shape[0]
    if vocabulary < rows < vocabulary * 2 and rows % _ROUND == 0 and _EMBEDDING.search(entry.name):
        told = f"{entry.full_name} has {rows} rows for {vocabulary} tokens; {rows - vocabulary} rows belong to none"
        yield Observation("vocabulary_padded", entry.full_name, [rows, vocabulary], told)
