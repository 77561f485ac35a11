"""Write checkpoints with Orbax and Flax, chunks with TensorStore, and what they restore to; run by conftest.py.

    python jax_files.py FOLDER

`expected.json` has {checkpoint: [[name, dtype, shape, key]]} and `expected.npz` the bytes of each array under its key,
as the framework itself gives them back.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import tensorstore
from flax.training.train_state import TrainState
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Expected = dict[str, list[tuple[str, str, list[int], str]]]


def main(root: Path) -> None:
    expected: Expected = {}
    arrays: dict[str, np.ndarray] = {}
    for write in (orbax_checkpointers, orbax_managers, orbax_types, zarr_arrays, flax_files):
        for name, tree in write(root):
            expected[name] = []
            for place, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
                if isinstance(leaf, str):
                    continue
                array, key = np.asarray(leaf), f"{name}:{len(expected[name])}"
                arrays[key] = np.frombuffer(array.tobytes(), np.uint8)
                expected[name].append((dotted(place), array.dtype.name, list(array.shape), key))
    zstandard(root / "zstandard")
    database(root / "database")
    (root / "expected.json").write_text(json.dumps(expected))
    np.savez(root / "expected.npz", **arrays)


def dotted(place: tuple) -> str:
    return ".".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", None)))) for key in place)


def state() -> dict:
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
    kernel = jnp.arange(48, dtype=jnp.float32).reshape(8, 6)
    params = {
        "dense": {
            "kernel": jax.device_put(kernel, NamedSharding(mesh, PartitionSpec("x", "y"))),
            "bias": jnp.arange(6, dtype=jnp.bfloat16),
        },
        "blocks": [jnp.ones(3), (jnp.arange(4, dtype=jnp.int8).reshape(2, 2),)],
    }
    tree = {"params": params, "opt_state": optax.adam(1e-3).init(params), "step": 7, "rng": jax.random.PRNGKey(3)}
    return {**tree, "name": "seven", "empty": {}, "nothing": None}


def orbax_checkpointers(root: Path):
    writers = {
        "database_zarr": ocp.PyTreeCheckpointer(),
        "folders_zarr": ocp.PyTreeCheckpointer(use_ocdbt=False),
        "database_zarr3": ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=True)),
        "folders_zarr3": ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=False, use_zarr3=True)),
    }
    for name, writer in writers.items():
        writer.save(root / name, state())
        yield name, writer.restore(root / name)
    with ocp.StandardCheckpointer() as standard:
        params = {"dense": {"kernel": jnp.ones((3, 4))}}
        optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
        train_state = TrainState.create(apply_fn=None, params=params, tx=optimizer)
        standard.save(root / "train_state", train_state.apply_gradients(grads=params))
    yield "train_state", ocp.PyTreeCheckpointer().restore(root / "train_state")
    # Chunks smaller than the array, with a rest at the edges, and too large to stand in the tree itself.
    random = np.random.default_rng(0)
    large = {"w": random.standard_normal((70, 41)).astype(np.float32), "v": np.arange(1000)}
    plain = ocp.PyTreeCheckpointer()
    sizes = jax.tree.map(lambda _: ocp.SaveArgs(chunk_byte_size=4000), large)
    plain.save(root / "chunks", jax.tree.map(jnp.asarray, large), save_args=sizes)
    yield "chunks", plain.restore(root / "chunks")


def orbax_managers(root: Path):
    tree = {key: value for key, value in state().items() if key in ("params", "step")}
    options = ocp.CheckpointManagerOptions(max_to_keep=2)
    with ocp.CheckpointManager(root / "manager", options=options) as manager:
        for step in (3, 5, 7):
            manager.save(step, args=ocp.args.StandardSave({**tree, "step": step}))
        manager.wait_until_finished()
    yield "manager", ocp.PyTreeCheckpointer().restore(root / "manager" / "7" / "default")
    options = ocp.CheckpointManagerOptions(step_prefix="ckpt", step_format_fixed_length=8)
    with ocp.CheckpointManager(root / "composite", options=options) as manager:
        items = {"model": ocp.args.StandardSave(tree["params"]), "dataset": ocp.args.JsonSave({"position": 12})}
        manager.save(12, args=ocp.args.Composite(**items))
        manager.wait_until_finished()
    yield "composite", {"model": ocp.PyTreeCheckpointer().restore(root / "composite" / "ckpt_00000012" / "model")}


def orbax_types(root: Path):
    types = ("float8_e4m3fn", "float8_e5m2", "float16", "bool", "complex64", "int4", "uint8", "int64", "bfloat16")
    tree = {name: jnp.arange(5).astype(name) for name in types}
    tree["mlp/~/linear"] = {"w.x": jnp.ones((2, 3))}
    for name, database_ in (("types_database", True), ("types_folders", False)):
        writer = ocp.PyTreeCheckpointer(use_ocdbt=database_)
        writer.save(root / name, tree)
        yield name, writer.restore(root / name)


def zarr_arrays(root: Path):
    """Arrays that chunks do not fit into, in folders of their own; with a chunk that is not stored."""
    sharding = {"chunk_shape": [5, 4], "codecs": [{"name": "bytes"}, {"name": "zstd"}]}
    layouts = {
        "zarr_zstd": ("zarr", {"chunks": [7, 10], "dtype": "<f8", "compressor": {"id": "zstd", "level": 3}}),
        "zarr_plain": ("zarr", {"chunks": [7, 10], "dtype": "<f8", "compressor": None}),
        "zarr_zlib": ("zarr", {"chunks": [7, 10], "dtype": ">f8", "compressor": {"id": "zlib", "level": 3}}),
        "zarr3_shards": (
            "zarr3",
            {
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10, 12]}},
                "data_type": "float64",
                "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
            },
        ),
    }
    values = np.random.default_rng(0).standard_normal((20, 23))
    values[5:10, 4:8] = 0  # a whole inner chunk of the fill value, which is left out
    for name, (driver, metadata) in layouts.items():
        store = {"driver": "file", "path": str(root / name)}
        spec = {"driver": driver, "kvstore": store, "create": True, "metadata": {"shape": [20, 23], **metadata}}
        array = tensorstore.open(spec).result()
        array.write(values).result()
        yield name, {"a": array.read().result()}


def flax_files(root: Path):
    params = {
        key: np.asarray(value) for key, value in {"kernel": np.ones((3, 5), np.float32), "bias": np.arange(5)}.items()
    }
    params["half"] = jnp.arange(6, dtype=jnp.bfloat16)
    params["scalar"], params["complex"] = np.float32(3), np.complex64(1 + 2j)
    save(root / "params.msgpack", params)
    yield "params.msgpack", flax.serialization.msgpack_restore((root / "params.msgpack").read_bytes())
    tree = {
        "params": {
            "dense": {"kernel": np.arange(60, dtype=np.float32).reshape(6, 10), "bias": np.zeros(77, np.float64)}
        },
        "batch_stats": {"norm": {"mean": np.zeros(3)}},
        "opt_state": optax.sgd(0.1, momentum=0.9).init({"w": jnp.ones(3)}),
        "rng": np.asarray(jax.random.PRNGKey(0)),
        "step": 5,
        "epoch": 2,
    }
    usual, flax.serialization.MAX_CHUNK_SIZE = flax.serialization.MAX_CHUNK_SIZE, 100
    save(root / "state.msgpack", tree)
    flax.serialization.MAX_CHUNK_SIZE = usual
    restored = flax.serialization.msgpack_restore((root / "state.msgpack").read_bytes())
    yield "state.msgpack", {key: value for key, value in restored.items() if key not in ("step", "epoch")}


def save(path: Path, tree: dict) -> None:
    path.write_bytes(flax.serialization.to_bytes(tree))


def zstandard(folder: Path) -> None:
    """Frames of TensorStore's own encoder, `NAME-LEVEL.zst` beside `NAME.raw`."""
    random = np.random.default_rng(0)
    samples = {
        "one_byte": b"a" * 100_000,
        "noise": random.integers(0, 256, 5_000, np.uint8).tobytes(),
        "four_symbols": random.integers(0, 4, 300_000, np.uint8).tobytes(),
        "phrase": b"hello world " * 1_000 + b"x",
        "source": Path(__file__).read_bytes(),
        "weights": random.standard_normal(20_000).astype(np.float32).tobytes(),
        "names": json.dumps([f"layer.{number}.weight" for number in range(5_000)]).encode(),
        "short": b"ab",
        "counters": (random.integers(0, 3, 20_000) * 7).astype("<i8").tobytes(),
        "long_runs": b"".join(bytes([number % 7]) * (number * number) for number in range(300)),
    }
    for name, data in samples.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.raw").write_bytes(data)
        for level in (1, 3, 9, 19):
            place = folder / f"{name}.{level}"
            array = tensorstore.open(
                {
                    "driver": "zarr",
                    "kvstore": {"driver": "file", "path": str(place)},
                    "create": True,
                    "store_data_equal_to_fill_value": True,
                    "metadata": {
                        "shape": [len(data)],
                        "chunks": [len(data)],
                        "dtype": "|u1",
                        "compressor": {"id": "zstd", "level": level},
                    },
                }
            ).result()
            array.write(np.frombuffer(data, np.uint8)).result()
            (folder / f"{name}-{level}.zst").write_bytes((place / "0").read_bytes())


def database(folder: Path) -> None:
    """A database of many small nodes, so that the tree is deep, and `values.json` with what is in it."""
    config = {"max_decoded_node_bytes": 2_000, "max_inline_value_bytes": 20}
    store = tensorstore.KvStore.open({"driver": "ocdbt", "base": f"file://{folder}/", "config": config}).result()
    values = {f"layer.{number}.weight/.zarray": f"v{number}" * (number % 12) for number in range(2_000)}
    with tensorstore.Transaction() as transaction:
        for key, value in values.items():
            store.with_transaction(transaction).write(key, value.encode()).result()
    (folder / "values.json").write_text(json.dumps(values))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
