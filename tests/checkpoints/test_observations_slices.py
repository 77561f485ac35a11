"""Pieces of tensor-parallel ranks, flat parameters and padded vocabularies. What joining does to rows is computed."""

from pathlib import Path

import numpy as np
import pytest

from tensoraudit.checkpoints.observations import slices
from tensoraudit.checkpoints.schema import Entry, Part, StoredCheckpoint


def stored(*entries, **metadata):
    return StoredCheckpoint(Path("a"), Path(), "torch_ranks", "pytorch", ("a",), entries, metadata=metadata)


def whole(name, shape, group="model"):
    return Entry(name, "float32", shape, (Part("a", 0, 0),), group)


def cut(name, shape, axis, ranks=2):
    size = shape[axis] // ranks
    local = tuple(size if each == axis else length for each, length in enumerate(shape))
    starts = [tuple(rank * size if each == axis else 0 for each in range(len(shape))) for rank in range(ranks)]
    return Entry(name, "float32", shape, tuple(Part(f"{n}", 0, 0, at, local, (), n) for n, at in enumerate(starts)))


def observed(*entries, **metadata):
    return [(each.kind, each.subject, each.value) for each in slices.observe(stored(*entries, **metadata))]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("_flat_param", True),
        ("0._fsdp_wrapped_module._flat_param", True),
        ("block.flat_param_0", True),
        ("block.flat_parameters", False),
        ("my_flat_param", False),
        ("_flat_param.weight", False),
    ],
)
def test_flat_parameters(name, found):
    assert observed(whole(name, (52,))) == ([("flat_parameter", name, 52)] if found else [])
    assert observed(whole(name, (52,), "optimizer")) == []


def test_joining_a_fused_projection_mixes_its_parts():
    parts = [np.full((4, 6), value) for value in (0, 1, 2)]
    shards = [np.concatenate([part[2 * rank : 2 * rank + 2] for part in parts]) for rank in (0, 1)]
    right, joined = np.concatenate(parts), np.concatenate(shards)
    assert joined.shape == right.shape
    assert (joined == right).all(axis=1).mean() == pytest.approx(1 / 3)
    name = "h.0.attn.c_attn.weight"
    assert observed(cut(name, (12, 6), 0), tensor_parallel=2) == [("fused_shards", name, 2)]
    assert observed(cut(name, (12, 6), 0)) == []
    assert observed(whole(name, (12, 6)), tensor_parallel=2) == []


def test_ranks_that_stand_side_by_side_are_told_once():
    ranks = [whole("attn.qkv.weight", (12, 6))._replace(path=(f"mp_rank_0{rank}", "module")) for rank in (0, 1)]
    told = [("fused_shards", "mp_rank_00.module.attn.qkv.weight", 2)]
    assert observed(*ranks, tensor_parallel=2) == told
    assert observed(ranks[0], tensor_parallel=1) == []


@pytest.mark.parametrize(
    ("name", "axis", "found"),
    [
        ("h.0.self_attn.q_proj.weight", 0, None),
        ("h.0.self_attn.q_proj.weight", 1, [1, 0]),
        ("h.0.self_attn.o_proj.weight", 1, None),
        ("h.0.self_attn.o_proj.weight", 0, [0, 1]),
        ("h.0.mlp.dense_4h_to_h.weight", 0, [0, 1]),
        ("h.0.mlp.dense_h_to_4h.weight", 1, [1, 0]),
        ("h.0.mlp.experts.weight", 1, None),
    ],
)
def test_the_axis_of_a_layer(name, axis, found):
    expected = [("merge_axis", name, found)] if found else []
    assert observed(cut(name, (8, 4), axis), tensor_parallel=2) == expected


def test_pieces_of_no_known_place_say_nothing():
    parts = tuple(Part(str(rank), 0, 0, (), (), (), rank) for rank in range(2))
    entry = Entry("h.0.self_attn.o_proj.weight", "float32", (8, 4), parts)
    assert observed(entry, tensor_parallel=2) == []
    grid = tuple(Part(str(n), 0, 0, (n // 2 * 4, n % 2 * 2), (4, 2), (), n) for n in range(4))
    assert observed(Entry(entry.name, "float32", (8, 4), grid), tensor_parallel=4) == []


@pytest.mark.parametrize(
    ("rows", "tokens", "found"),
    [
        (50304, 50257, True),  # to a multiple of 128, by Megatron
        (51200, 50257, True),  # to one of 1024, for eight ranks
        (50257, 50257, False),
        (50258, 50257, False),  # a token that was added
        (50240, 50257, False),
        (32064, 32000, True),
        (64, 10, False),
    ],
)
def test_rows_beyond_the_vocabulary(rows, tokens, found):
    name = "transformer.wte.weight"
    expected = [("vocabulary_padded", name, [rows, tokens])] if found else []
    assert observed(whole(name, (rows, 8)), config={"vocab_size": tokens}) == expected
    assert observed(whole("transformer.wpe.weight", (rows, 8)), config={"vocab_size": tokens}) == []
    assert observed(whole(name, (rows, 8))) == []


def test_deepspeed_tells_the_vocabulary_itself():
    assert observed(whole("word_embeddings.weight", (128, 4)), original_vocab_size=100) == [
        ("vocabulary_padded", "word_embeddings.weight", [128, 100])
    ]
