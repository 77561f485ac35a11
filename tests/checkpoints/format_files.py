"""The same tensors, each larger than a block, in every format that has a writer here; run by conftest.py.

    python format_files.py FOLDER

`expected.json` has {name: [dtype, shape, SHA-256 of the bytes in C order]}.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import warnings
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import flax.serialization
import h5py
import jax
import ml_dtypes
import numpy as np
import onnx
import orbax.checkpoint as ocp
import tensorflow as tf
import torch
import torch.distributed.checkpoint as dcp
from onnx import helper, numpy_helper
from safetensors.torch import save_file

rng = np.random.default_rng(0)
ARRAYS = {
    "float": rng.normal(size=(1500, 1001)).astype(np.float32),
    "half": rng.normal(size=(1201, 1003)).astype(np.float16),
    "brain": rng.normal(size=(1201, 1003)).astype(ml_dtypes.bfloat16),
    "double": rng.normal(size=(800, 1003)),
    "whole": rng.integers(-(2**60), 2**60, size=(700, 1003)),
    "flags": rng.integers(0, 2, size=(1203, 1001)).astype(bool),
    "small": rng.integers(0, 255, size=(3, 1203, 1001)).astype(np.uint8),
    "complex": (rng.normal(size=(600, 1003)) + 1j).astype(np.complex64),
    "cube": rng.normal(size=(17, 31, 37, 63)).astype(np.float32),
    "number": np.array(3.5, np.float32),
}
PLAIN = {name: array for name, array in ARRAYS.items() if name != "brain"}
"""Those of numpy's own types."""


def main(root: Path) -> None:
    for write in (numpy_files, torch_files, hdf5_files, onnx_files, tensorflow_files, jax_files):
        write(root)
    expected = {
        name: [array.dtype.name, list(array.shape), hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()]
        for name, array in ARRAYS.items()
    }
    (root / "expected.json").write_text(json.dumps(expected))


def numpy_files(root: Path) -> None:
    np.savez(root / "plain.npz", **PLAIN)
    np.savez_compressed(root / "deflate.npz", **PLAIN)
    np.savez(root / "fortran.npz", **{name: array.copy(order="F") for name, array in PLAIN.items()})


def torch_files(root: Path) -> None:
    state = {name: torch_tensor(array) for name, array in ARRAYS.items()}
    torch.save(state, root / "zip.pt")
    torch.save(state, root / "legacy.pt", _use_new_zipfile_serialization=False)
    turned = {name: tensor.t().contiguous().t() if tensor.dim() == 2 else tensor for name, tensor in state.items()}
    torch.save(turned, root / "strides.pt")
    save_file(state, root / "one.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is one process
        dcp.save(state, checkpoint_id=str(root / "dcp"))


def torch_tensor(array: np.ndarray) -> torch.Tensor:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def hdf5_files(root: Path) -> None:
    ways = {"plain": {}, "gzip": {"compression": "gzip", "shuffle": True}, "fletcher": {"fletcher32": True}}
    for name, way in ways.items():
        with h5py.File(root / f"{name}.h5", "w") as file:
            for key, array in PLAIN.items():
                file.create_dataset(key, data=array, **({"chunks": True, **way} if array.ndim and way else {}))
            file.attrs["layer_names"] = []


def onnx_files(root: Path) -> None:
    tensors = [numpy_helper.from_array(array, name) for name, array in PLAIN.items()]
    model = helper.make_model(helper.make_graph([], "g", [], [], tensors))
    onnx.save(model, root / "inside.onnx")
    onnx.save(model, root / "outside.onnx", save_as_external_data=True, location="outside.data", size_threshold=100)


def tensorflow_files(root: Path) -> None:
    variables = {name: tf.Variable(array) for name, array in ARRAYS.items()}
    tf.train.Checkpoint(**variables).write(str(root / "by_object"))
    tf.raw_ops.SaveV2(
        prefix=str(root / "by_name"),
        tensor_names=list(ARRAYS),
        shape_and_slices=[""] * len(ARRAYS),
        tensors=[tf.constant(array) for array in ARRAYS.values()],
    )


def jax_files(root: Path) -> None:
    (root / "flax.msgpack").write_bytes(flax.serialization.msgpack_serialize(dict(ARRAYS)))
    narrow = {name: jax.numpy.asarray(a) for name, a in ARRAYS.items() if a.dtype not in (np.float64, np.int64)}
    ocp.PyTreeCheckpointer().save(root / "ocdbt", narrow)
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=False)
    ocp.Checkpointer(handler).save(root / "zarr", {name: array for name, array in ARRAYS.items() if array.ndim})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
