"""Keras files against what h5py and Keras read from them; shards, damage and hostile files."""

from __future__ import annotations

import contextlib
import json
import shutil
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensoraudit.artifacts.hdf5 import Hdf5Error
from tensoraudit.artifacts.hdf5_chunks import read_chunks
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.checkpoints import keras_shards
from tensoraudit.checkpoints.keras_weights import read, recognises
from tensoraudit.checkpoints.read import read_checkpoint
from tensoraudit.errors import InputError

FIXTURES = Path(__file__).parents[2] / "fixtures" / "tensorflow"
PACKED = {
    **dict.fromkeys(("chunks", "edges", "lone", "shuffled"), "chunks"),
    "big": "big_endian",
    "text": "strings",
    "unwritten": "fill",
    "none": "empty",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["net.weights.h5", "half.weights.h5", "old.h5", "plain.h5", "latest.h5", "ordered.h5"])
def test_names_types_shapes_and_bytes(tensorflow_files, name, stored_bytes):
    path = tensorflow_files.root / name
    stored = read(path)
    expected = tensorflow_files.expected[name]
    found = {"/".join((*entry.path, entry.name)): entry for entry in stored.entries if not entry.same_as}
    first = {"whole": "tied", "tied": "whole"}
    renamed = {key if key in found else first[key]: value for key, value in expected.items()}
    assert found.keys() == renamed.keys() and recognises(path)
    for key, (dtype, shape, content) in renamed.items():
        entry = found[key]
        stated = {"|V2": "void16", ">f4": "float32"}.get(dtype, dtype)
        assert (entry.dtype, entry.shape) == (stated, shape), key
        if key in PACKED:
            assert (entry.parts[0].codec.partition(":")[0], entry.parts[0].offset) == (PACKED[key], None)
        else:
            assert content is not None and stored_bytes(stored, entry) == content, key


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain.h5", "ordered.h5"])
def test_chunks_are_read_where_their_codec_says(tensorflow_files, name):
    stored = read(tensorflow_files.root / name)
    view = map_file(tensorflow_files.root / name)
    packed = {entry.name: entry.parts[0] for entry in stored.entries if entry.parts[0].codec.startswith("chunks:")}
    assert packed.keys() == {"chunks", "edges", "lone", "shuffled"}
    for key, part in packed.items():
        header, base = map(int, part.codec.split(":")[1:])
        assert read_chunks(view[base:], header, 1 << 20) == tensorflow_files.expected[name][key][2], key
        with pytest.raises(Hdf5Error, match=f"{part.bytes:,} bytes"):
            read_chunks(view[base:], header, part.bytes - 1)


@pytest.mark.slow
def test_chunks_of_the_newest_form(tensorflow_files):
    """One chunk is read, an index of several is refused in words."""
    path = tensorflow_files.root / "latest.h5"
    codecs = {entry.name: entry.parts[0].codec for entry in read(path).entries}
    expected = tensorflow_files.expected["latest.h5"]
    assert read_chunks(map_file(path), int(codecs["lone"].split(":")[1]), 1 << 20) == expected["lone"][2]
    with pytest.raises(Hdf5Error, match="an index of the newest form"):
        read_chunks(map_file(path), int(codecs["chunks"].split(":")[1]), 1 << 20)


@pytest.mark.slow
def test_links(tensorflow_files):
    for name in ("plain.h5", "latest.h5", "ordered.h5"):
        stored = read(tensorflow_files.root / name)
        [tied] = [entry for entry in stored.entries if entry.same_as]
        assert {tied.name, tied.same_as} == {"whole", "tied"} and tied.stored_bytes == 0
        assert [(each.kind, each.subject) for each in stored.observations] == [("file_outside", "elsewhere")]
        assert (stored.format, stored.framework, stored.writer) == ("hdf5", "numpy", "")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "format_"), [("net.weights.h5", "keras_weights"), ("net.keras", "keras")])
def test_weights_of_keras_3(tensorflow_files, name, format_, stored_bytes):
    """Every variable of the model is found under its own name, with its bytes, the layers' counters left aside."""
    stored = read(tensorflow_files.root / name)
    expected = {path.removeprefix("sequential/"): value for path, value in tensorflow_files.expected["model"].items()}
    model = {entry.alias: entry for entry in stored.entries if entry.group == "model"}
    assert {alias: stored_bytes(stored, entry) for alias, entry in model.items()} == {
        path: value[2] for path, value in expected.items() if "seed" not in path
    }
    assert (model["first/kernel"].axes, model["wide3/kernel"].axes, model["wide3/bias"].axes) == ("HWIO", "IO", "")
    assert stored.format == format_ and stored.files == (name,) and stored.imports == ()
    names = list(stored.metadata["layer_names"].items())
    assert names[:2] == [("layers/batch_normalization", "batch_normalization"), ("layers/conv2d", "first")]
    assert names[2:5] == [("layers/dense", "wide0"), ("layers/dense_1", "wide1"), ("layers/dense_2", "wide2")]
    [adam] = stored.training.optimizers
    assert (adam.kind, adam.keyed, stored.training.step, adam.parameters) == ("adam", "position", 2, 28)
    averages = [entry.shape for entry in stored.entries if entry.group == "ema"]
    assert sorted(averages) == sorted(value[1] for path, value in expected.items() if "moving" not in path)


@pytest.mark.slow
def test_the_archive_tells_the_order_of_the_layers(tensorflow_files):
    stored = read(tensorflow_files.root / "net.keras")
    assert stored.writer.startswith("Keras 3.")
    assert stored.metadata["config_layers"][2:5] == [
        ["first", "conv2d"], ["batch_normalization", "batch_normalization"], ["flatten", "flatten"],
    ]  # fmt: skip


@pytest.mark.slow
def test_the_older_form(tensorflow_files, stored_bytes):
    stored = read(tensorflow_files.root / "old.h5")
    expected = tensorflow_files.expected["model"]
    model = {entry.alias: entry for entry in stored.entries if entry.group == "model" and entry.parts[0].bytes}
    assert {alias: stored_bytes(stored, entry) for alias, entry in model.items() if "seed" not in alias} == {
        path: value[2] for path, value in expected.items() if "seed" not in path
    }
    assert [entry.alias for entry in stored.entries][:2] == ["sequential/first/kernel", "sequential/first/bias"]
    assert stored.format == "keras_h5" and stored.writer.startswith("Keras 3.")
    assert stored.entries[0].path == ("model_weights",) and model["sequential/wide0/kernel"].axes == "IO"
    assert list(stored.metadata["layer_names"])[:2] == ["first", "batch_normalization"]
    assert sum(entry.group == "ema" for entry in stored.entries) == 28
    [adam] = stored.training.optimizers
    assert (adam.kind, adam.keyed, adam.fields) == ("adam", "name", ("momentums", "velocities"))
    assert (adam.parameters, stored.training.step) == (28, 2)
    assert adam.groups[0]["learning_rate"] == pytest.approx(0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "format_"),
    [("net.keras", "keras"), ("shards.weights.json", "keras_weights"), ("old.h5", "keras_h5"), ("plain.h5", "hdf5"),
     ("names", "tensorflow_names"), ("trained", "tensorflow_objects"), ("exported", "saved_model")],
)  # fmt: skip
def test_each_is_read_by_its_own_reader(tensorflow_files, name, format_):
    assert read_checkpoint(tensorflow_files.root / name).format == format_


@pytest.fixture
def shards(tensorflow_files, tmp_path):
    for path in tensorflow_files.root.glob("shards*"):
        if path.is_file():
            shutil.copy(path, tmp_path)
    return tmp_path / "shards.weights.json"


@pytest.mark.slow
def test_shards(shards, tensorflow_files, stored_bytes):
    stored = keras_shards.read(shards)
    one = read(tensorflow_files.root / "net.weights.h5")
    assert keras_shards.recognises(shards) and not recognises(shards) and stored.observations == ()
    assert [entry[:3] for entry in stored.entries] == [entry[:3] for entry in one.entries]
    for entry, other in zip(stored.entries, one.entries, strict=True):
        assert stored_bytes(stored, entry) == stored_bytes(one, other)
    assert len({entry.parts[0].file for entry in stored.entries}) > 5 and stored.training.step == 2


@pytest.mark.slow
def test_shards_that_are_missing_damaged_or_elsewhere(shards):
    content = json.loads(shards.read_text())
    content["weight_map"]["/layers/none/vars"] = ["../other.weights.h5", "shards_00000.weights.h5"]
    shards.write_text(json.dumps(content))
    (shards.parent / "shards_00001.weights.h5").unlink()
    damaged = shards.parent / "shards_00002.weights.h5"
    damaged.write_bytes(damaged.read_bytes()[:900])
    shutil.copy(shards.parent / "shards_00003.weights.h5", shards.parent / "shards_00099.weights.h5")
    stored = keras_shards.read(shards)
    found = {(each.kind, each.file) for each in stored.observations}
    assert found == {
        ("file_missing", "shards_00001.weights.h5"), ("file_unread", "shards_00002.weights.h5"),
        ("file_outside", "../other.weights.h5"), ("tensor_missing", "shards_00000.weights.h5"),
        ("file_unlisted", "shards_00099.weights.h5"), ("size_mismatch", ""),
    }  # fmt: skip


def test_a_deflated_archive_and_one_without_weights(tmp_path):
    packed = tmp_path / "packed.keras"
    with zipfile.ZipFile(FIXTURES / "dense.keras") as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    stored, plain = read(packed), read(FIXTURES / "dense.keras")
    assert [entry[:3] for entry in stored.entries] == [entry[:3] for entry in plain.entries]
    assert {(part.codec, part.offset) for entry in stored.entries for part in entry.parts} == {("zip", None)}
    assert all(entry.parts[0].offset for entry in plain.entries)
    empty = tmp_path / "npz.keras"
    with zipfile.ZipFile(empty, "w") as new:
        for name in ("config.json", "metadata.json"):
            new.writestr(name, "{}")
        new.writestr("model.weights.npz", "x")
    with pytest.raises(InputError, match="which is no HDF5 file"):
        read(empty)


def test_code_that_a_configuration_stores_is_listed():
    assert "bytecode of a lambda" in read(FIXTURES / "lambda.keras").imports
    assert "bytecode of a lambda" in read(FIXTURES / "lambda.h5").imports


def test_damage_is_an_input_error(tmp_path):
    raw = (FIXTURES / "dense.h5").read_bytes()
    for content, words in ((raw[:200], "truncated HDF5"), (raw[:96] + b"\xff" * 900 + raw[996:], "damaged HDF5")):
        path = tmp_path / "m.h5"
        path.write_bytes(content)
        with pytest.raises(InputError, match=words):
            read(path)
    assert not recognises(tmp_path) and not recognises(tmp_path / "none")


@pytest.mark.slow
def test_mutated_files(tensorflow_files, tmp_path):
    names = ("latest.h5", "net.weights.h5", "old.h5", "net.keras", "half.weights.h5")
    originals = {name: (tensorflow_files.root / name).read_bytes() for name in names}
    head = {name: [place for place, byte in enumerate(raw) if byte] for name, raw in originals.items()}

    @settings(max_examples=300, deadline=60_000, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def one(draw):
        name = draw.draw(st.sampled_from(names))
        content = bytearray(originals[name])
        for _ in range(draw.draw(st.integers(1, 3))):
            content[draw.draw(st.sampled_from(head[name]))] = draw.draw(st.integers(0, 255))
        path = tmp_path / name
        path.write_bytes(bytes(content))
        with contextlib.suppress(InputError):
            assert read(path).root == tmp_path

    one()
