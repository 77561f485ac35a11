"""Sharded weights: what transformers and PyTorch write, and every way in which index and files can disagree."""

from __future__ import annotations

import json
import struct
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tensoraudit.checkpoints import sharded_index
from tensoraudit.checkpoints.schema import StoredCheckpoint
from tensoraudit.errors import InputError

ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint of two shards, as transformers writes one."""
    place = tmp_path / "model"
    place.mkdir()
    save_file({"embed.weight": torch.ones(7, 5), "a.weight": torch.zeros(3)}, place / ONE, {"format": "pt"})
    save_file({"b.weight": torch.arange(6.0).reshape(2, 3)}, place / TWO, {"format": "pt"})
    write_index(place, {"embed.weight": ONE, "a.weight": ONE, "b.weight": TWO})
    return place


def write_index(place: Path, places: dict[str, object], total: object = (35 + 3 + 6) * 4) -> None:
    (place / INDEX).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": places}))


def change_index(place: Path, **changes: object) -> None:
    index = json.loads((place / INDEX).read_text())
    index["weight_map"] |= changes
    (place / INDEX).write_text(json.dumps(index))


def kinds(stored: StoredCheckpoint) -> list[tuple[str, str]]:
    return [(each.kind, each.subject) for each in stored.observations]


@pytest.mark.parametrize("name", ["", INDEX])
def test_folder_and_index_read_the_same(folder, name):
    path = folder / name
    assert sharded_index.recognises(path)
    stored = sharded_index.read(path)
    assert stored.format == "safetensors_sharded"
    assert stored.files == (INDEX, ONE, TWO)
    assert {entry.name: (entry.shape, entry.parts[0].file) for entry in stored.entries} == {
        "embed.weight": ((7, 5), ONE), "a.weight": ((3,), ONE), "b.weight": ((2, 3), TWO)
    }  # fmt: skip
    assert stored.observations == ()
    b = next(entry for entry in stored.entries if entry.name == "b.weight")
    data = (stored.root / b.parts[0].file).read_bytes()[b.parts[0].offset :][: b.parts[0].bytes]
    assert data == np.arange(6, dtype=np.float32).tobytes()


@pytest.mark.slow
def test_what_transformers_writes_has_no_fault(tmp_path):
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(vocab_size=97, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=37)
    model = BertModel(config)
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    stored = sharded_index.read(tmp_path)
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    assert {entry.name: entry.shape for entry in stored.entries} == expected
    assert len(stored.files) > 3
    assert stored.observations == ()
    assert stored.metadata["config"]["vocab_size"] == 97
    for entry in stored.entries:
        [part] = entry.parts
        data = (stored.root / part.file).read_bytes()[part.offset : part.offset + part.bytes]
        assert data == model.state_dict()[entry.name].numpy().tobytes()


def test_shards_of_torch_save(tmp_path):
    names = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
    torch.save({"a": torch.arange(3.0)}, tmp_path / names[0])
    torch.save({"b": torch.arange(6).reshape(2, 3)}, tmp_path / names[1])
    index = {"metadata": {"total_size": 60}, "weight_map": dict(zip("ab", names, strict=True))}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    stored = sharded_index.read(tmp_path)
    assert stored.format == "torch_sharded"
    assert {entry.name: (entry.dtype, entry.parts[0].file) for entry in stored.entries} == {
        "a": ("float32", names[0]), "b": ("int64", names[1])
    }  # fmt: skip
    assert stored.observations == ()


def test_a_missing_shard_is_said_and_the_rest_read(folder):
    (folder / ONE).unlink()
    stored = sharded_index.read(folder)
    assert kinds(stored) == [("file_missing", ONE)]
    assert [entry.name for entry in stored.entries] == ["b.weight"]


def test_a_missing_shard_without_an_index_is_known_by_its_number(folder):
    (folder / INDEX).unlink()
    (folder / ONE).unlink()
    stored = sharded_index.read(folder)
    assert kinds(stored) == [("file_missing", ONE)]
    assert stored.files == (TWO,)


def test_numbers_may_begin_at_zero(folder):
    (folder / INDEX).unlink()
    (folder / TWO).rename(folder / "model-00000-of-00002.safetensors")
    assert sharded_index.read(folder).observations == ()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../outside.safetensors", "file_outside"),
        ("x/../../outside.safetensors", "file_outside"),
        ("ABSOLUTE", "file_outside"),
        ("C:\\outside.safetensors", "file_outside"),
        ("link.safetensors", "file_outside"),
        ("linked/outside.safetensors", "file_outside"),
        ("loop.safetensors", "file_missing"),
        ("nothing.safetensors", "file_missing"),
        (".", "file_missing"),
        ("", "file_missing"),
        ("a\0b", "file_missing"),
        ("x" * 5000, "file_missing"),
        ("pipe.safetensors", "file_missing"),
    ],
)
def test_a_name_that_leads_out_or_nowhere_is_not_read(folder, name, kind):
    import os

    outside = folder.parent / "outside.safetensors"
    save_file({"secret": torch.ones(3)}, outside)
    (folder / "link.safetensors").symlink_to(outside)
    (folder / "linked").symlink_to(folder.parent)
    (folder / "loop.safetensors").symlink_to(folder / "loop.safetensors")
    os.mkfifo(folder / "pipe.safetensors")
    named = str(outside) if name == "ABSOLUTE" else name
    change_index(folder, secret=named)
    stored = sharded_index.read(folder)
    assert kinds(stored) == [(kind, named)]
    assert "secret" not in {entry.name for entry in stored.entries}


def test_the_cache_of_a_hub_links_files_to_their_content(folder):
    cache = folder.parent / "models--x"
    (cache / "blobs").mkdir(parents=True)
    snapshot = cache / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    for number, path in enumerate(sorted(folder.iterdir())):
        path.rename(cache / "blobs" / str(number))
        (snapshot / path.name).symlink_to(f"../../blobs/{number}")
    for path in (snapshot, snapshot / INDEX):
        stored = sharded_index.read(path)
        assert stored.observations == ()
        assert len(stored.entries) == 3
    (snapshot / INDEX).unlink()
    assert len(sharded_index.read(snapshot).entries) == 3


def test_a_shard_that_the_index_does_not_name(folder):
    save_file({"c": torch.ones(3)}, folder / "model-00003-of-00002.safetensors")
    save_file({"whole": torch.ones(3)}, folder / "consolidated.safetensors")
    stored = sharded_index.read(folder)
    assert kinds(stored) == [("file_unlisted", "model-00003-of-00002.safetensors")]
    assert stored.metadata["beside"] == ["consolidated.safetensors", "model-00003-of-00002.safetensors"]


def test_shards_of_two_saves(folder):
    save_file({"c": torch.ones(3)}, folder / "model-00003-of-00003.safetensors")
    stored = sharded_index.read(folder)
    assert ("shards_mixed", "model*.safetensors") in kinds(stored)
    assert ("file_unlisted", "model-00003-of-00003.safetensors") in kinds(stored)
    mixed = next(each for each in stored.observations if each.kind == "shards_mixed")
    assert mixed.value == [2, 3]


def test_a_tensor_that_the_file_does_not_hold(folder):
    change_index(folder, **{"gone.weight": TWO, "b.weight": ONE})
    stored = sharded_index.read(folder)
    values = {(each.kind, each.subject): each.value for each in stored.observations}
    assert values == {
        ("tensor_missing", "gone.weight"): {"file": TWO, "found_in": None},
        ("tensor_missing", "b.weight"): {"file": ONE, "found_in": TWO},
    }


def test_a_tensor_that_the_index_does_not_name(folder):
    write_index(folder, {"embed.weight": ONE, "b.weight": TWO})
    assert kinds(sharded_index.read(folder)) == [("tensor_unlisted", "a.weight")]


def test_a_tensor_in_two_files_is_taken_from_the_one_that_the_index_names(folder):
    save_file({"b.weight": torch.arange(6.0).reshape(2, 3), "a.weight": torch.ones(9)}, folder / TWO)
    stored = sharded_index.read(folder)
    assert kinds(stored) == [("tensor_twice", "a.weight")]
    assert stored.observations[0].value == [ONE, TWO]
    [a] = [entry for entry in stored.entries if entry.name == "a.weight"]
    assert (a.parts[0].file, a.shape) == (ONE, (3,))


@pytest.mark.parametrize(
    ("total", "is_wrong"),
    [
        (176, False),
        (176.0, False),
        (176 + 35 * 4, False),  # the embedding counted twice, as a tied head
        (176 - 35 * 4, False),
        (176 + 3 * 4, True),  # nothing ties a.weight
        (177, True),
        (0, True),
        ("many", False),
        (True, False),
        (None, False),
    ],
)
def test_the_total_size(folder, total, is_wrong):
    write_index(folder, {"embed.weight": ONE, "a.weight": ONE, "b.weight": TWO}, total)
    assert [kind for kind, _ in kinds(sharded_index.read(folder))] == ["size_mismatch"] * is_wrong


def test_a_damaged_shard_costs_only_itself(folder):
    data = (folder / ONE).read_bytes()
    (folder / ONE).write_bytes(data[:-4])
    assert kinds(sharded_index.read(folder)) == [("file_truncated", ONE)]
    (folder / ONE).write_bytes(data[:20])
    stored = sharded_index.read(folder)
    assert kinds(stored) == [("file_unread", ONE)]
    assert [entry.name for entry in stored.entries] == ["b.weight"]


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b'{"weight_map": []}',
        b'{"weight_map": {"a": 3}}',
        b'{"weight_map": {}}',
        b'{"metadata": {}}',
        b"[1]",
        b'{"weight_map": {"a": "x", "a": "y"}}',
        b'{"weight_map": ' + b"[" * 200_000,
        b'{"weight_map": {"a": "model.safetensors.index.json"}}',
    ],
)
def test_an_index_that_is_none_is_refused(folder, text):
    (folder / INDEX).write_bytes(text)
    assert sharded_index.recognises(folder)
    with pytest.raises(InputError):
        sharded_index.read(folder)


@pytest.mark.slow
def test_ten_million_names_are_refused_in_bounded_memory(folder):
    names = ",".join(f'"{number}":"m"' for number in range(100_000))
    (folder / INDEX).write_text('{"weight_map": {' + ",".join([names] * 100) + "}}")
    with pytest.raises(InputError, match="more than"):
        sharded_index.read(folder)


def test_other_folders_and_files_are_not_claimed(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.json").write_text('{"a": 1}')
    torch.save({"a": torch.zeros(2)}, tmp_path / "rank0.pt")
    for path in (tmp_path, *tmp_path.iterdir()):
        assert not sharded_index.recognises(path), path


def test_one_file_in_a_folder_is_read_as_what_it_is(tmp_path):
    save_file({"a": torch.ones(3)}, tmp_path / "model.safetensors")
    save_file({"a": torch.ones(3)}, tmp_path / "model.fp16.safetensors")
    stored = sharded_index.read(tmp_path)
    assert (stored.format, stored.files) == ("safetensors", ("model.safetensors",))
    assert stored.metadata["beside"] == ["model.fp16.safetensors"]


def sparse(folder: Path, shards: int) -> None:
    """A checkpoint of a hundred tensors and a gibibyte per shard, of which only the headers take space."""
    each = (1 << 30) // 100 // 4 * 4
    places = {}
    for shard in range(1, shards + 1):
        name = f"model-{shard:05}-of-{shards:05}.safetensors"
        table = {
            f"layers.{shard}.experts.{number}.weight": {
                "dtype": "F32", "shape": [each // 4], "data_offsets": [number * each, (number + 1) * each]
            }
            for number in range(100)
        }  # fmt: skip
        places |= dict.fromkeys(table, name)
        text = json.dumps(table).encode()
        with (folder / name).open("wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + 100 * each)
    write_index(folder, places, shards * 100 * each)


@pytest.mark.slow
def test_a_hundred_thousand_tensors_in_a_thousand_sparse_files(tmp_path):
    """It takes 1.2 s; the bound is wide, because what it guards against is a square or the reading of weights."""
    sparse(tmp_path, 1000)
    start = time.process_time()
    stored = sharded_index.read(tmp_path)
    assert time.process_time() - start < 10
    assert len(stored.entries) == 100_000
    assert stored.observations == ()


def test_the_memory_that_a_thousand_tensors_take(tmp_path):
    sparse(tmp_path, 10)
    tracemalloc.start()
    stored = sharded_index.read(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(stored.entries) == 1000
    assert peak < 1_500_000
