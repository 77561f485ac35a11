"""Zarr arrays that TensorStore wrote, chunk by chunk, where chunks do not fit into the array."""

from __future__ import annotations

import numpy as np
import pytest

from tensoraudit.checkpoints.zarr_arrays import NAMES, ZarrError, read_array, read_chunk

SHAPE = (20, 23)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zarr_zstd", "zarr_plain", "zarr_zlib", "zarr3_shards"])
def test_chunks_put_together_are_the_array(jax_files, name):
    folder = jax_files.root / name
    description = NAMES["zarr3" in name]
    array = read_array((folder / description).read_bytes(), description, name)
    assert array.shape == SHAPE
    whole = np.full(SHAPE, np.nan)
    for place in array.places(100):
        start, shape = array.box(place)
        data = read_chunk(array, place, (folder / array.key(place)).read_bytes())
        box = tuple(slice(begin, begin + size) for begin, size in zip(start, shape, strict=True))
        whole[box] = np.frombuffer(data, array.dtype).reshape(shape)
    _, _, expected = jax_files.expected[name]["a"]
    assert whole.tobytes() == expected


PLAIN = b'{"zarr_format": 2, "shape": [3], "chunks": [2], "dtype": "<f4", "compressor": null, "filters": null}'


def test_a_chunk_of_another_size_is_refused():
    array = read_array(PLAIN, ".zarray", "x")
    assert read_chunk(array, (1,), bytes(8)) == bytes(4)
    with pytest.raises(ZarrError, match="7 bytes where 8"):
        read_chunk(array, (0,), bytes(7))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"shape": [3]', b'"shape": [3, 3]'),
        (b'"shape": [3]', b'"shape": [true]'),
        (b'"chunks": [2]', b'"chunks": [0]'),
        (b'"<f4"', b'"<f5"'),
        (b'"<f4"', b'"O"'),
        (b"null}", b'null, "order": "F"}'),
        (b'"compressor": null, ', b""),
        (b'"zarr_format": 2', b'"zarr_format": 2, "zarr_format": 2'),
        (PLAIN, b"[" * 100_000),
        (PLAIN, b"3"),
    ],
)
def test_what_cannot_be_is_refused(old, new):
    assert old in PLAIN
    with pytest.raises(ZarrError):
        array = read_array(PLAIN.replace(old, new), ".zarray", "x")
        read_chunk(array, (0,), bytes(8))


def test_a_shard_whose_index_leads_out_is_refused():
    text = b"""{"zarr_format": 3, "shape": [4], "data_type": "uint8", "chunk_key_encoding": {"name": "default"},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "codecs": [{"name": "sharding_indexed",
        "configuration": {"chunk_shape": [2], "codecs": [{"name": "bytes"}]}}]}"""
    array = read_array(text, "zarr.json", "x")
    index = np.array([[0, 2], [2, 2]], "<u8").tobytes() + bytes(4)
    assert read_chunk(array, (0,), b"abcd" + index) == b"abcd"
    for offset in (3, 1 << 60):
        wrong = np.array([[0, 2], [offset, 2]], "<u8").tobytes() + bytes(4)
        with pytest.raises(ZarrError, match="leads out"):
            read_chunk(array, (0,), b"abcd" + wrong)
    with pytest.raises(ZarrError, match="too short"):
        read_chunk(array, (0,), b"abcd")
