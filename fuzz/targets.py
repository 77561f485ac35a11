"""The readers that are fuzzed, by name, and what must hold for whatever they return.

A target takes bytes and an empty folder. It raises nothing but what it may refuse with: anything else is a finding.
"""

from __future__ import annotations

import contextlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.hdf5 import Hdf5Error
from tensoraudit.artifacts.hdf5_chunks import read_chunks
from tensoraudit.artifacts.hdf5_tree import read_tree
from tensoraudit.artifacts.pickle_interpreter import interpret
from tensoraudit.artifacts.pickle_nodes import Wishes
from tensoraudit.artifacts.pickle_stream import BrokenPickleError, Stream
from tensoraudit.artifacts.pickles import describe_pickle
from tensoraudit.artifacts.protobuf import WireError
from tensoraudit.artifacts.saved_model import read_saved_model
from tensoraudit.artifacts.zstd import ZstdError, decompress
from tensoraudit.checkpoints.observations import observe_all
from tensoraudit.checkpoints.schema import StoredCheckpoint
from tensoraudit.checkpoints.sstable import TableError, items
from tensoraudit.checkpoints.tensorflow_index import read_index
from tensoraudit.checkpoints.tensorflow_objects import kept_states, read_graph
from tensoraudit.checkpoints.values import UnreadableValues, read_entry, word_blocks
from tensoraudit.checkpoints.zarr_arrays import NAMES, ZarrError, read_array
from tensoraudit.errors import InputError

NOTHING: Final[Mapping[str, Path | bytes]] = {}
_MODELS: Final = Path(__file__).parents[1] / "fixtures" / "tensorflow"
_VARIABLES: Final = _MODELS / "affine" / "variables"
_HEADER: Final = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
_SHARD: Final = len(_HEADER).to_bytes(8, "little") + _HEADER + bytes(8)
"""A shard as safetensors writes it."""

_STORAGES: Final[Mapping[str, Path | bytes]] = {
    "archive/version": b"3\n", "archive/byteorder": b"little",
    **{f"archive/data/{number}": bytes(64) for number in range(20)},
}  # fmt: skip
_KERAS: Final[Mapping[str, Path | bytes]] = {
    "metadata.json": b'{"keras_version": "3.15.1"}',
    "model.weights.h5": _MODELS / "dense.h5",
}

_SMALL: Final = 4_096
_READ: Final = 20
"""Elements of a tensor whose values are read, and how many such tensors of a file."""

Target = Callable[[bytes, Path], Any]
REFUSALS: Final = (InputError, Hdf5Error, TableError, WireError, BrokenPickleError, ZarrError, ZstdError)


def _pickle(data: bytes, folder: Path) -> None:
    wishes = Wishes()
    describe_pickle(interpret(Stream(memoryview(data)), wishes), wishes)


def _object_graph(data: bytes, folder: Path) -> None:
    list(kept_states(read_graph(data, "graph"), "graph"))


def _hdf5(data: bytes, folder: Path) -> None:
    view = memoryview(data)
    for header in read_tree(view).chunked.values():
        with contextlib.suppress(Hdf5Error):
            read_chunks(view, header, 1 << 20)


def _saved_model(data: bytes, folder: Path) -> None:
    (folder / "saved_model.pb").write_bytes(data)
    read_saved_model(folder)


def _file(reader: str, name: str, asked: str = "", beside: Mapping[str, Path | bytes] = NOTHING) -> Target:
    """A reader of checkpoints on a file of that name; `asked` is what it is asked for, "" the file itself. `beside` are
    honest files, or fixtures, that the fuzzed one speaks of."""
    module = import_module(f"tensoraudit.checkpoints.{reader}")  # at once, while imports are instrumented

    def read(data: bytes, folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for other, content in beside.items():
            if not (folder / other).exists():
                (folder / other).write_bytes(content if isinstance(content, bytes) else content.read_bytes())
        path.write_bytes(data)
        asked_for = folder / asked if asked else path
        if module.recognises(asked_for):
            check(module.read(asked_for))

    return read


def _member(reader: str, name: str, member: str, others: Mapping[str, Path | bytes]) -> Target:
    """A reader of archives, one member of which is fuzzed: a mutated archive fails by its checksums already."""
    read = _file(reader, name)

    def wrapped(data: bytes, folder: Path) -> None:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for other, content in {member: data, **others}.items():
                archive.writestr(other, content if isinstance(content, bytes) else content.read_bytes())
        read(out.getvalue(), folder)

    return wrapped


TARGETS: Final[dict[str, Target]] = {
    "pickle": _pickle,
    "sstable": lambda data, folder: list(items(memoryview(data))),
    "tensorflow_index": lambda data, folder: read_index(memoryview(data)),
    "object_graph": _object_graph,
    "saved_model": _saved_model,
    "hdf5": _hdf5,
    "tensorflow_bundle": _file(
        "tensorflow_bundle",
        "c.index",
        beside={"c.data-00000-of-00001": _VARIABLES / "variables.data-00000-of-00001"},
    ),
    "checkpoint_state": _file(
        "tensorflow_bundle",
        "checkpoint",
        asked=".",
        beside={
            "c-1.index": _VARIABLES / "variables.index",
            "c-1.data-00000-of-00001": _VARIABLES / "variables.data-00000-of-00001",
        },
    ),
    "keras_weights": _file("keras_weights", "m.h5"),
    "keras_shards": _file("keras_shards", "m.weights.json", beside={"m_0.weights.h5": _MODELS / "dense.h5"}),
    "torch_file": _file("torch_file", "m.pt"),
    "torch_pickle": _member("torch_file", "m.pt", "archive/data.pkl", _STORAGES),
    "torch_distributed": _file("torch_distributed", "c/.metadata", asked="c"),
    "safetensors": _file("safetensors_file", "m.safetensors"),
    "safetensors_index": _file("sharded_index", "model.safetensors.index.json", beside={"m-1.safetensors": _SHARD}),
    "flax_msgpack": _file("flax_msgpack", "m.msgpack"),
    "npz": _file("npz", "m.npz"),
    "zstd": lambda data, folder: decompress(data, 1 << 20),
    "zarr_2": lambda data, folder: read_array(data, NAMES[0], "array"),
    "zarr_3": lambda data, folder: read_array(data, NAMES[1], "array"),
    "npy": _member("npz", "m.npz", "a.npy", NOTHING),
    "keras_config": _member("keras_weights", "m.keras", "config.json", _KERAS),
    "onnx": _file("onnx_weights", "m.onnx"),
}


def check(stored: StoredCheckpoint) -> None:
    """Raise AssertionError where an answer is not what the rest of the program may rely on."""
    json.dumps(dict(stored.metadata), allow_nan=True)
    told = bool(stored.observations)
    for entry in stored.entries:
        assert entry.numel >= 0 and entry.full_name is not None
        for part in entry.parts:
            assert part.bytes >= 0
            if part.offset is not None and not told:
                size = (stored.root / part.file).stat().st_size
                assert part.offset >= 0 and part.offset + part.bytes <= size, (entry, size)
    for entry in [entry for entry in stored.entries if entry.numel <= _SMALL][:_READ]:
        with contextlib.suppress(UnreadableValues):
            assert read_entry(stored, entry).shape == tuple(entry.shape)
            assert sum(words.size for words in word_blocks(stored, entry, most=64)) == entry.numel
    for observation in (*stored.observations, *observe_all(stored)):
        json.dumps(observation.value)
        assert observation.message and observation.kind


if __name__ == "__main__":
    print(*TARGETS)
