"""TensorFlow checkpoints against what TensorFlow reads from them; damaged and hostile ones."""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensoraudit.checkpoints.read import read_checkpoint
from tensoraudit.checkpoints.tensorflow_bundle import read, recognises
from tensoraudit.errors import InputError

END = "/.ATTRIBUTES/VARIABLE_VALUE"
GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
BUNDLES = ("names", "objects", "shards", "trained")


def kinds(stored):
    return [(each.kind, each.subject) for each in stored.observations]


@pytest.fixture(scope="module")
def made(tensorflow_files):
    return tensorflow_files


@pytest.mark.slow
@pytest.mark.parametrize("name", BUNDLES)
def test_names_types_shapes_and_bytes(made, name, stored_bytes):
    stored = read(made.root / name)
    expected = {key.removesuffix(END): value for key, value in made.expected[name].items() if key != GRAPH}
    assert {entry.name: (entry.dtype, entry.shape) for entry in stored.entries} == {
        key: value[:2] for key, value in expected.items()
    }
    for entry in stored.entries:
        content = expected[entry.name][2]
        if content is None:
            assert entry.parts[0].codec in ("strings", "variants") and entry.parts[0].offset is None
        else:
            assert stored_bytes(stored, entry) == content, entry.name
    assert stored.observations == () and recognises(made.root / name)


@pytest.mark.slow
def test_name_based(made):
    stored = read(made.root / "names")
    assert (stored.format, stored.framework, stored.training.step) == ("tensorflow_names", "tensorflow", 3)
    assert stored.files == ("model.ckpt-3.index", "model.ckpt-3.data-00000-of-00001", "checkpoint")
    [adam] = stored.training.optimizers
    assert (adam.kind, adam.keyed, adam.fields, adam.parameters) == ("adam", "name", ("Adam", "Adam_1"), 1)
    assert adam.groups[0]["params"] == ["dense/kernel"]
    assert adam.groups[0]["beta1_power"] == pytest.approx(0.9**4) and adam.groups[0]["beta2_power"] > 0.99
    groups = {entry.name: entry.group for entry in stored.entries}
    assert groups["dense/kernel"] == "model" and groups["dense/kernel/Adam_1"] == "optimizer"
    assert groups["dense/kernel/ExponentialMovingAverage"] == "ema" and groups["global_step"] == "other"
    sliced = {entry.name: entry for entry in stored.entries}["part40000"]
    assert [part.start for part in sliced.parts] == [(0, 0), (13_334, 0), (26_667, 0)]


@pytest.mark.slow
def test_object_based(made):
    stored = read(made.root / "objects")
    assert (stored.format, stored.metadata["newest"], stored.metadata["others"]) == (
        "tensorflow_objects", "ckpt-3", ["ckpt-2"],
    )  # fmt: skip
    state = stored.training
    assert (state.epoch, state.rng, list(state.loader)) == (3, ("tensorflow",), ["data/.ATTRIBUTES/ITERATOR_STATE"])
    [adam] = state.optimizers
    assert (adam.path, adam.kind, adam.keyed, adam.fields) == (("optimizer",), "adam", "name", ("m", "v"))
    assert adam.groups[0]["params"] == ["model/w"]
    entries = {entry.name: entry for entry in stored.entries}
    assert entries["model/w"].alias == "w" and entries["model/half"].alias == ""
    assert entries["model/w/.OPTIMIZER_SLOT/optimizer/m"].group == "optimizer"


@pytest.mark.slow
def test_weights_that_stand_under_their_optimiser(made):
    """Keras: the shortest path to a kernel leads through the optimiser, and it is a weight all the same."""
    stored = read(made.root / "trained")
    weights = {entry.alias: entry for entry in stored.entries if entry.group == "model"}
    expected = {name: value for name, value in made.expected["model"].items() if "seed" not in name}
    assert {name: entry.shape for name, entry in weights.items()} == {n: value[1] for n, value in expected.items()}
    assert weights["sequential/first/kernel"].name.startswith("optimizer/_trainable_variables/")
    averages = [entry for entry in stored.entries if entry.group == "ema"]
    assert sorted(entry.shape for entry in averages) == sorted(
        entry.shape for name, entry in weights.items() if "moving" not in name
    )
    [adam] = stored.training.optimizers
    assert (adam.kind, adam.keyed, adam.fields) == ("adam", "position", ("momentums", "velocities"))
    assert adam.parameters == len(averages) and stored.training.step == 2
    assert adam.groups[0]["learning_rate"] == pytest.approx(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ckpt-2", "ckpt-2.index", "ckpt-2.data-00000-of-00001"])
def test_one_of_several_is_named(made, name):
    path = made.root / "objects" / name
    assert recognises(path) and read_checkpoint(path).metadata["prefix"] == "ckpt-2"


@pytest.fixture
def copied(made, tmp_path):
    def copy(name):
        return Path(shutil.copytree(made.root / name, tmp_path / name))

    return copy


@pytest.mark.slow
def test_missing_truncated_and_foreign_data_files(copied):
    folder = copied("shards")
    (folder / "ckpt-1.data-00001-of-00005").unlink()
    cut = folder / "ckpt-1.data-00002-of-00005"
    whole = cut.read_bytes()
    cut.write_bytes(whole[:-10])
    (folder / "ckpt-1.data-00000-of-00002").write_bytes(b"x")
    (folder / "ckpt-1_temp").mkdir()
    stored = read(folder)
    assert kinds(stored) == [
        ("file_missing", "ckpt-1.data-00001-of-00005"),
        ("file_truncated", "ckpt-1.data-00002-of-00005"),
        ("file_unlisted", "ckpt-1.data-00000-of-00002"),
        ("unfinished", "ckpt-1_temp"),
    ]
    assert stored.observations[1].value == 10 and stored.observations[1].message.endswith(f"need {len(whole)}.")


@pytest.mark.slow
def test_the_data_file_with_the_graph_is_missing(copied):
    folder = copied("objects")
    (folder / "ckpt-3.data-00000-of-00001").unlink()
    stored = read(folder)
    assert ("file_unread", "checkpoint") in kinds(stored) and len(stored.entries) > 10


@pytest.mark.slow
def test_the_state_file_names_what_is_not_there(copied):
    folder = copied("objects")
    state = folder / "checkpoint"
    state.write_text(state.read_text().replace("ckpt-3", "ckpt-9").replace("ckpt-2", "/elsewhere/ckpt-2"))
    stored = read(folder)
    assert kinds(stored) == [("file_missing", "ckpt-9"), ("file_outside", "/elsewhere/ckpt-2")]
    assert stored.metadata["prefix"] == "ckpt-3"
    for path in folder.glob("*.index"):
        path.unlink()
    with pytest.raises(InputError, match=r"names 'ckpt-9' as the newest checkpoint, and no checkpoint is there"):
        read(folder)
    with pytest.raises(InputError, match="is a data file of a checkpoint without its index"):
        read(folder / "ckpt-3.data-00000-of-00001")


@pytest.mark.slow
def test_a_link_that_leads_out(copied, tmp_path):
    folder = copied("objects")
    data = folder / "ckpt-3.data-00000-of-00001"
    data.rename(tmp_path / "elsewhere")
    data.symlink_to(tmp_path / "elsewhere")
    assert kinds(read(folder)) == [("file_outside", data.name)]


@pytest.mark.slow
def test_the_first_form_is_told(made):
    for path in (made.root / "first", made.root / "first/model.ckpt"):
        assert recognises(path)
        with pytest.raises(InputError, match="first form"):
            read(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["objects/ckpt-3", "names/model.ckpt-3", "shards/ckpt-1"])
def test_mutated_indexes_and_data(made, name, tmp_path):
    source = made.root / name
    folder = tmp_path / "c"
    shutil.copytree(source.parent, folder)
    index = folder / f"{source.name}.index"
    data = max(folder.glob(f"{source.name}.data*"), key=lambda path: path.stat().st_size)
    originals = {path: path.read_bytes() for path in (index, data)}

    @settings(max_examples=150, deadline=5_000, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def one(draw):
        path = draw.draw(st.sampled_from(list(originals)))
        content = bytearray(originals[path])
        for _ in range(draw.draw(st.integers(1, 4))):
            content[draw.draw(st.integers(0, len(content) - 1))] = draw.draw(st.integers(0, 255))
        path.write_bytes(bytes(content[: draw.draw(st.sampled_from([None, None, None, 5, 100, -10]))]))
        with contextlib.suppress(InputError):
            assert read(index).entries is not None
        path.write_bytes(originals[path])

    one()


def number(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def entry(dtype, shape, shard, offset, size):
    """A BundleEntryProto."""
    sizes = b"".join(b"\x12" + number(len(inner)) + inner for inner in (b"\x08" + number(axis) for axis in shape))
    fields = b"\x08" + number(dtype) + b"\x12" + number(len(sizes)) + sizes
    return fields + b"\x18" + number(shard) + b"\x20" + number(offset) + b"\x28" + number(size)


@pytest.fixture
def bundle(make_table, tmp_path):
    def make(entries, shards=1):
        pairs = [(b"", b"\x08" + number(shards)), *sorted(entries.items())]
        (tmp_path / "c.index").write_bytes(make_table(pairs))
        return tmp_path / "c.index"

    return make


@pytest.mark.slow
def test_a_terabyte_in_a_thousand_files(bundle, tmp_path):
    """100,000 tensors: only the index is read, and it is read at once."""
    size = (1 << 40) // 100_000 // 4
    shape = (size // 1_024, 1_024)
    width = shape[0] * shape[1] * 4
    entries = {
        b"model/layer_%05d/w%d" % (layer, place): entry(1, shape, layer // 10, (layer % 10 * 10 + place) * width, width)
        for layer in range(10_000)
        for place in range(10)
    }
    path = bundle(entries, shards=1_000)
    for shard in range(1_000):
        with (tmp_path / f"c.data-{shard:05d}-of-01000").open("wb") as file:
            file.truncate(100 * width)
    start = time.process_time()
    stored = read(path)
    assert time.process_time() - start < 15  # 1.5 s where nothing else runs
    assert len(stored.entries) == 100_000 and stored.observations == ()
    assert sum(each.stored_bytes for each in stored.entries) > 0.99 * (1 << 40)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (entry(1, (3,), 0, 0, 8), "tensor_size"),
        (entry(1, (1 << 40, 1 << 40), 0, 0, 8), "tensor_size"),
        (entry(1, (2,), 0, 1 << 60, 8), "file_truncated"),
        (entry(1, (2,), 7, 0, 8), "file_missing"),
        (entry(1, (2,), 1 << 62, 0, 8), "file_missing"),
    ],
)
def test_impossible_entries_are_told(bundle, tmp_path, value, kind):
    path = bundle({b"x": value})
    (tmp_path / "c.data-00000-of-00001").write_bytes(bytes(8))
    stored = read(path)
    assert [each.kind for each in stored.observations] == [kind] and len(stored.entries) == 1


@pytest.mark.parametrize(
    ("entries", "shards", "words"),
    [
        ({b"x": entry(1, ((1 << 64) - 1,), 0, 0, 8)}, 1, "an axis of -1 elements"),
        ({b"x": entry(1, (1,) * 65, 0, 0, 4)}, 1, "more than 64 axes"),
        ({b"x": b"\x12\x7f"}, 1, "damaged index"),
        ({b"x": entry(1, (), 0, 0, 4)}, 1 << 40, "declares 1,099,511,627,776 data files"),
        ({b"x": b"\x08\x01" + b"\x3a\x00" * 1_000_001}, 1, "more than 1,000,000 slices"),
    ],
)
def test_impossible_indexes_are_refused(bundle, entries, shards, words):
    with pytest.raises(InputError, match=words):
        read(bundle(entries, shards))


def test_a_slice_that_is_nowhere(bundle, tmp_path):
    path = bundle({b"x": b"\x08\x01\x12\x04\x12\x02\x08\x04" + b"\x3a\x06\x0a\x04\x08\x00\x10\x02"})
    (tmp_path / "c.data-00000-of-00001").write_bytes(bytes(8))
    [observation] = read(path).observations
    assert (observation.kind, observation.subject, observation.value) == ("tensor_hole", "x", [(0, 2)])


def test_a_checkpoint_without_tensors(bundle, tmp_path):
    path = bundle({})
    (tmp_path / "c.data-00000-of-00001").write_bytes(b"")
    assert [each.kind for each in read(path).observations] == ["no_tensors"]
    path.write_bytes(b"nothing of the kind")
    assert recognises(path)
    with pytest.raises(InputError, match="is a damaged index of a checkpoint: it does not end as a table does"):
        read(path)
    (tmp_path / "c.data-00000-of-00001").unlink()
    assert not recognises(path) and not recognises(tmp_path)
