"""Which reader a file or folder of weights belongs to: by content, never by name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

from tensoraudit.checkpoints.schema import StoredCheckpoint
from tensoraudit.errors import InputError

_READERS: Final = (
    "torch_distributed",
    "deepspeed",
    "keras_shards",
    "sharded_index",
    "torch_ranks",
    "orbax",
    "saved_model_weights",
    "tensorflow_bundle",
    "torch_folder",
    "safetensors_file",
    "torch_file",
    "keras_weights",
    "npz",
    "onnx_weights",
    "flax_msgpack",
)
"""Modules of this package, in the order in which they are asked: folders first, and what any bytes may look like last.
Each has `recognises(path) -> bool`, cheap and never raising, and `read(path) -> StoredCheckpoint`."""


def read_checkpoint(path: Path) -> StoredCheckpoint:
    """Read the headers of a checkpoint: a file, a folder of shards, or the index of one.

    Nothing stored is executed and no tensor's bytes are read. Raises InputError for what is no checkpoint or is damaged
    beyond reading; what can be read around is an observation of the result.
    """
    if not _is_there(path):
        raise InputError("does not exist", where=str(path), remedy="Check the path.")
    for name in _READERS:
        reader = import_module(f"tensoraudit.checkpoints.{name}")
        if reader.recognises(path):
            stored: StoredCheckpoint = reader.read(path)
            return stored
    raise InputError(
        "is no checkpoint that tensoraudit knows",
        where=str(path),
        remedy="Name a file of weights (.pt, .safetensors, .h5, .npz, .msgpack, .onnx) or the folder of a checkpoint.",
    )


def _is_there(path: Path) -> bool:
    """Whether a path exists, or is the beginning of its files' names, which is how TensorFlow names a checkpoint."""
    try:
        return path.exists() or path.with_name(f"{path.name}.index").is_file()
    except (OSError, ValueError):  # too long a name, or a NUL in it
        return False
