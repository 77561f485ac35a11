"""Small honest files of every format that is fuzzed, written by the libraries that own the formats."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import pickle
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "fixtures"
MODELS = FIXTURES / "tensorflow"


def seeds(target: str) -> Iterator[bytes]:
    """Yield honest files of a target, then what was found before."""
    yield from SEEDS[target]()
    yield from (path.read_bytes() for path in sorted((ROOT / "fuzz" / "found" / target).glob("*")))


def _fixtures(*patterns: str) -> Callable[[], Iterator[bytes]]:
    return lambda: (path.read_bytes() for pattern in patterns for path in sorted(FIXTURES.glob(pattern)))


def _torch() -> Iterator[bytes]:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    whole = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 1, "rng": torch.get_rng_state()}
    for content in (model.state_dict(), whole):
        for zipped in (True, False):
            out = io.BytesIO()
            torch.save(content, out, _use_new_zipfile_serialization=zipped)
            yield out.getvalue()
    yield from _fixtures("broken/*.pt")()


def _torch_pickles() -> Iterator[bytes]:
    for content in _torch():
        if content[:2] == b"PK":
            with contextlib.suppress(Exception), zipfile.ZipFile(io.BytesIO(content)) as archive:  # some are broken
                yield from (archive.read(name) for name in archive.namelist() if name.endswith("data.pkl"))


def _members(*patterns: str, end: str) -> Callable[[], Iterator[bytes]]:
    """Members of archives among the fixtures, by how their names end."""

    def read() -> Iterator[bytes]:
        for content in _fixtures(*patterns)():
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                yield from (archive.read(name) for name in archive.namelist() if name.endswith(end))

    return read


def _npy() -> Iterator[bytes]:
    for content in _npz():
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            yield from map(archive.read, archive.namelist())


def _torch_distributed() -> Iterator[bytes]:
    import torch
    import torch.distributed.checkpoint as dcp

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        dcp.save({"a": {"w": torch.ones(3, 2), "n": 3}, "b": [torch.zeros(2)]}, checkpoint_id=folder, no_dist=True)
        yield (Path(folder) / ".metadata").read_bytes()


def _safetensors() -> Iterator[bytes]:
    from safetensors.numpy import save

    yield save({"a": np.ones((2, 3), np.float32), "b.c": np.zeros(0, np.int8)}, {"format": "pt"})
    yield save({"x": np.ones((), np.float64)})


def _npz() -> Iterator[bytes]:
    for save in (np.savez, np.savez_compressed):
        out = io.BytesIO()
        save(out, a=np.arange(6).reshape(2, 3), b=np.ones(4, np.float16), c=np.asfortranarray(np.ones((2, 3))))
        yield out.getvalue()


def _flax() -> Iterator[bytes]:
    """{"params": {"w": an array as Flax packs it, "n": 1}, "step": 3} in MessagePack."""
    array = b"\x93\x92\x02\x03\xa7float32\xc4\x18" + bytes(24)
    packed = b"\xa1w\xc7" + bytes((len(array), 1)) + array
    yield b"\x82\xa6params\x82" + packed + b"\xa1n\x01" + b"\xa4step\x03"
    yield b"\x81\xa6params\x81\xa1w\x83\xb3__msgpack_chunked_array__\xc3\xa5shape\x81\xa10\x02\xa6chunks\x80"


def _zstd() -> Iterator[bytes]:
    """Sixty lines of text as `zstd -19` packs them, and a frame of plain blocks."""
    yield base64.b85decode(
        "D77#B0BGd{0Aj`w5wPp$Yqs|i<JrkArIb2iI1u3ad}-GF4H<iVzBFt8hK#*FUz#<4L&jd8FU^|2Av<*c6mRiSxR+HAGMu**OHib6"
        "DWVods1ZPW{|&HNh64~3B{1=P2&SN}49V*1L5kvPfeQ8?a0YaH<%=F3y`$jw36KK23I"
    )
    yield b"\x28\xb5\x2f\xfd\x00\x58\x18\x00\x00abc\x53\x00\x00x"


_ZARR_2 = {
    "zarr_format": 2,
    "shape": [3, 4],
    "chunks": [2, 4],
    "dtype": "<f4",
    "compressor": {"id": "zstd"},
    "order": "C",
}
_ZARR_3 = {
    "zarr_format": 3,
    "shape": [4],
    "data_type": "uint8",
    "chunk_key_encoding": {"name": "default"},
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
    "codecs": [
        {
            "name": "sharding_indexed",
            "configuration": {"chunk_shape": [2], "codecs": [{"name": "bytes"}, {"name": "zstd"}]},
        }
    ],
}


def _pickles() -> Iterator[bytes]:
    for protocol in range(6):
        yield pickle.dumps({"a": [1, 2.5, (None, True)], "b": {3}, "c": b"x" * 300, "d": -(1 << 70)}, protocol)
    yield from _fixtures("broken/*.pkl")()


def _onnx() -> Iterator[bytes]:
    import onnx

    table = [onnx.numpy_helper.from_array(np.ones((2, 3), np.float32), "w")]
    value = onnx.helper.make_tensor_value_info("x", 1, [2, 3])
    out = onnx.helper.make_tensor_value_info("y", 1, [2, 3])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "w"], ["y"])], "g", [value], [out], table)
    yield onnx.helper.make_model(graph).SerializeToString()


def _graphs() -> Iterator[bytes]:
    """The object graphs of the SavedModels: in their data files, behind the length and a checksum of it."""
    for path in sorted(MODELS.glob("*/variables/variables.data-*")):
        raw = path.read_bytes()
        yield raw[raw.find(b"\x0a") :]
    yield b"\x0a\x0a\x0a\x05\x08\x01\x12\x01w\x1a\x01\x00" + b"\x0a\x0b\x12\x09\x0a\x01V\x12\x01w\x1a\x01k"


_STATE = b'model_checkpoint_path: "c-1"\nall_model_checkpoint_paths: "c-1"\nall_model_checkpoint_paths: "/a\\302/b"\n'
_INDEX = {"metadata": {"total_size": 12}, "weight_map": {"a": "m-1.safetensors", "b": "../x.safetensors"}}
_SHARDS = {"metadata": {"total_size": 12.0}, "weight_map": {"/layers/dense/vars": ["m_0.weights.h5"], "/v": "x.h5"}}

SEEDS: dict[str, Callable[[], Iterator[bytes]]] = {
    "pickle": _pickles,
    "sstable": _fixtures("tensorflow/*/variables/*.index"),
    "tensorflow_index": _fixtures("tensorflow/*/variables/*.index"),
    "tensorflow_bundle": _fixtures("tensorflow/*/variables/*.index"),
    "object_graph": _graphs,
    "saved_model": _fixtures("tensorflow/*/saved_model.pb"),
    "hdf5": _fixtures("tensorflow/*.h5", "hdf5/*.h5"),
    "keras_weights": _fixtures("tensorflow/*.h5", "hdf5/*.h5", "tensorflow/*.keras"),
    "checkpoint_state": lambda: iter((_STATE,)),
    "keras_shards": lambda: iter((json.dumps(_SHARDS).encode(),)),
    "torch_file": _torch,
    "torch_pickle": _torch_pickles,
    "torch_distributed": _torch_distributed,
    "safetensors": _safetensors,
    "safetensors_index": lambda: iter((json.dumps(_INDEX).encode(),)),
    "flax_msgpack": _flax,
    "npz": _npz,
    "npy": _npy,
    "keras_config": _members("tensorflow/*.keras", end="config.json"),
    "zstd": _zstd,
    "zarr_2": lambda: iter((json.dumps(_ZARR_2).encode(),)),
    "zarr_3": lambda: iter((json.dumps(_ZARR_3).encode(),)),
    "onnx": _onnx,
}
