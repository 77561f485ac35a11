"""Values that do not stand in their file as they are, read as any other: `read_entry` against the frameworks."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from tensoraudit.checkpoints import keras_weights, npz, onnx_weights, orbax
from tensoraudit.checkpoints.diff import diff_checkpoints
from tensoraudit.checkpoints.digests import digest_entry
from tensoraudit.checkpoints.stored_parts import UnreadableValues
from tensoraudit.checkpoints.values import blocks, read_entry

HDF5 = Path(__file__).parents[2] / "fixtures" / "hdf5"


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_numpy(tmp_path, save):
    arrays = {
        "zeros": np.zeros(1_000_000),
        "Fortran": np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
        "fortran": np.ones(2),
        "big": np.arange(5, dtype=">i4"),
        "folder/flags": np.array([True, False]),
    }
    save(tmp_path / "x.npz", **arrays)
    stored = npz.read(tmp_path / "x.npz")
    for entry in stored.entries:
        assert np.array_equal(read_entry(stored, entry), arrays[entry.name]), entry.name


@pytest.mark.parametrize("most", [4, 1_000, 4_000_000])
def test_blocks_of_a_compressed_array_are_as_long_as_those_of_any_other(tmp_path, most):
    array = np.arange(3_003, dtype=np.float32).reshape(3, 7, 143)
    np.savez_compressed(tmp_path / "x.npz", w=array)
    stored = npz.read(tmp_path / "x.npz")
    found = list(blocks(stored, stored.entries[0], most))
    assert {block.nbytes for block in found[:-1]} <= {most}
    assert np.array_equal(np.concatenate(found), array.reshape(-1))


def test_a_compressed_array_of_many_blocks_is_the_same_as_one_that_is_not(tmp_path):
    array = np.random.default_rng(0).normal(size=(1_200, 1_001)).astype(np.float32)
    other = array.copy()
    other[-1, -1] += 1
    np.savez_compressed(tmp_path / "packed.npz", w=array)
    np.savez(tmp_path / "plain.npz", w=array)
    np.savez_compressed(tmp_path / "other.npz", w=other)
    packed, plain, changed = (npz.read(tmp_path / f"{name}.npz") for name in ("packed", "plain", "other"))
    digest = hashlib.sha256(array.tobytes()).hexdigest()
    assert digest_entry(packed, packed.entries[0]) == digest
    (pair,) = diff_checkpoints(packed, plain, values=True).pairs
    assert (pair.status, pair.digests) == ("equal", (digest, digest))
    (pair,) = diff_checkpoints(plain, changed, values=True).pairs
    assert (pair.status, pair.digests) == ("different", (digest, hashlib.sha256(other.tobytes()).hexdigest()))
    assert pair.linf == pytest.approx(1.0, abs=1e-6)


FOUR_BITS = [("INT4", "INT8", -8, 8), ("UINT4", "UINT8", 0, 16)]


def onnx_of(path, kind, numbers):
    values = numbers.reshape(-1).tolist()
    tensor = helper.make_tensor("w", getattr(TensorProto, kind), list(numbers.shape), values)
    path.write_bytes(helper.make_model(helper.make_graph([], "g", [], [], [tensor])).SerializeToString())
    return onnx_weights.read(path)


@pytest.mark.parametrize(("narrow", "wide", "least", "end"), FOUR_BITS)
@pytest.mark.parametrize("shape", [(3, 5), (4, 6), (1_001, 701)])
def test_two_elements_of_one_byte_against_one_of_each(tmp_path, narrow, wide, least, end, shape):
    numbers = np.random.default_rng(0).integers(least, end, shape)
    packed, plain = (onnx_of(tmp_path / kind, kind, numbers) for kind in (narrow, wide))
    assert packed.entries[0].parts[0].bytes == -(-numbers.size // 2)
    assert np.array_equal(read_entry(packed, packed.entries[0]), numbers)
    codes = hashlib.sha256((numbers & 15).astype(np.uint8).tobytes()).hexdigest()
    for one, other in ((packed, plain), (plain, packed)):
        (pair,) = diff_checkpoints(one, other, values=True).pairs
        assert (pair.status, pair.verdict, pair.linf) == ("cast", "identical", 0.0)
        assert codes in pair.digests
    changed = numbers.copy()
    changed[-1, -1] = least if numbers[-1, -1] > least else least + 1
    (pair,) = diff_checkpoints(packed, onnx_of(tmp_path / "other", wide, changed), values=True).pairs
    assert (pair.status, pair.linf) == ("different", abs(changed[-1, -1] - numbers[-1, -1]))
    (pair,) = diff_checkpoints(packed, onnx_of(tmp_path / "turned", narrow, numbers.T), values=True).pairs
    assert (pair.status, pair.permutation) == ("permuted", (1, 0))


def test_numbers_of_onnx_in_varints(tmp_path):
    tensor = helper.make_tensor("a", TensorProto.INT32, [2, 2], [1, -2, 300, -(2**31)])
    half = helper.make_tensor("h", TensorProto.FLOAT16, [3], [0.5, -2.0, 65504.0])
    model = helper.make_model(helper.make_graph([], "g", [], [], [tensor, half]))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    stored = onnx_weights.read(tmp_path / "m.onnx")
    values = {entry.name: read_entry(stored, entry).tolist() for entry in stored.entries}
    assert values == {"a": [[1, -2], [300, -(2**31)]], "h": [0.5, -2.0, 65504.0]}


def test_datasets_of_hdf5_in_chunks():
    stored = keras_weights.read(HDF5 / "chunked.h5")
    values = {entry.name: read_entry(stored, entry) for entry in stored.entries}
    assert values.keys() == {"plain", "packed"}
    for array in values.values():
        assert array.dtype == np.float32 and np.array_equal(array, np.arange(60).reshape(6, 10))


def test_damaged_chunks_are_unreadable(tmp_path):
    content = bytearray((HDF5 / "chunked.h5").read_bytes())
    at = content.index(b"TREE", content.index(b"TREE", content.index(b"TREE") + 1) + 1)
    content[at : at + 4] = b"EERT"
    (tmp_path / "m.h5").write_bytes(content)
    stored = keras_weights.read(tmp_path / "m.h5")
    refused = 0
    for entry in stored.entries:
        with contextlib.suppress(UnreadableValues):
            read_entry(stored, entry)
            continue
        refused += 1
    assert refused == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["database_zarr", "folders_zarr", "database_zarr3", "folders_zarr3", "chunks"])
def test_arrays_of_orbax(jax_files, name):
    stored = orbax.read(jax_files.root / name)
    compared = 0
    for entry in stored.entries:
        dtype, shape, data = jax_files.expected[name][entry.full_name]
        values = read_entry(stored, entry)
        assert values.shape == shape
        if values.dtype == dtype:
            assert values.tobytes() == data
            compared += 1
    assert compared >= 2


@pytest.mark.slow
def test_a_chunk_of_orbax_that_is_damaged_is_unreadable(jax_files, tmp_path):
    import shutil

    folder = shutil.copytree(jax_files.root / "folders_zarr", tmp_path / "c")
    chunk = folder / "params.dense.kernel" / "0.1"
    chunk.write_bytes(chunk.read_bytes()[:-3])
    stored = orbax.read(folder)
    kernel = next(entry for entry in stored.entries if entry.full_name == "params.dense.kernel")
    with pytest.raises(UnreadableValues, match="damaged chunk"):
        read_entry(stored, kernel)
