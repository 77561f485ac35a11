"""Write checkpoints with TensorFlow, Keras and h5py: `tensorflow_files.py FOLDER`. Runs where those are installed.

Beside each goes what the framework itself reads from it: `expected.json` maps a checkpoint to its tensors (name, dtype,
shape, key), `expected.npz` holds their bytes under those keys.
"""

import json
import os
import sys
from pathlib import Path

os.environ.update(CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3")

import h5py
import keras
import ml_dtypes
import numpy as np
import tensorflow as tf

ROOT = Path(sys.argv[1])
TABLE: dict[str, list[list]] = {}
BYTES: dict[str, np.ndarray] = {}


def expect(checkpoint, name, value):
    value = np.asarray(value, order="C")
    key = f"t{len(BYTES)}"
    BYTES[key] = np.frombuffer(value.tobytes(), np.uint8)
    TABLE.setdefault(checkpoint, []).append([name, str(value.dtype), list(value.shape), key])


def expect_bundle(checkpoint, prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    for name, dtype in reader.get_variable_to_dtype_map().items():
        if dtype == tf.variant:
            TABLE.setdefault(checkpoint, []).append([name, "variant", reader.get_variable_to_shape_map()[name], ""])
        elif dtype == tf.string:
            TABLE.setdefault(checkpoint, []).append([name, "string", reader.get_variable_to_shape_map()[name], ""])
        else:
            expect(checkpoint, name, reader.get_tensor(name))


def expect_h5(checkpoint, file, base=""):
    def one(path, item):
        if isinstance(item, h5py.Dataset):
            value = item[()]
            value = value.view(ml_dtypes.bfloat16) if item.attrs.get("dtype") == "bfloat16" else value
            if item.shape is None:
                TABLE.setdefault(checkpoint, []).append([path, str(item.dtype), [], ""])
            elif item.dtype.kind in "OS":
                TABLE.setdefault(checkpoint, []).append([path, "string", list(item.shape), ""])
            else:
                expect(checkpoint, path, value)

    file.visititems(one)


def by_name():
    rng = np.random.default_rng(0)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        kernel = tf.compat.v1.get_variable("dense/kernel", initializer=rng.normal(size=(4, 3)).astype("f"))
        for rows in (10, 200, 40_000):
            tf.compat.v1.get_variable(
                f"part{rows}",
                shape=(rows, 2),
                initializer=tf.compat.v1.random_normal_initializer(),
                partitioner=tf.compat.v1.fixed_size_partitioner(3),
                use_resource=False,
            )
        tf.compat.v1.get_variable("words", initializer=np.array([b"ab", b"c"]), use_resource=False)
        step = tf.compat.v1.train.get_or_create_global_step()
        train = tf.compat.v1.train.AdamOptimizer().minimize(tf.reduce_sum(kernel**2), step, [kernel])
        average = tf.train.ExponentialMovingAverage(0.9).apply([kernel])
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(3):
            session.run([train, average])
        saved = tf.compat.v1.train.Saver().save(session, str(ROOT / "names/model.ckpt"), global_step=step)
        (ROOT / "first").mkdir()
        tf.compat.v1.train.Saver(write_version=1).save(session, str(ROOT / "first/model.ckpt"))
    expect_bundle("names", saved)


class Layer(tf.Module):
    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(1)
        self.w = tf.Variable(rng.normal(size=(3, 4)).astype("f"), name="w")
        self.again = self.w
        self.half = tf.Variable(rng.normal(size=5).astype(np.float16))
        self.brain = tf.Variable(rng.normal(size=(2, 5)).astype(ml_dtypes.bfloat16), name="brain")
        self.count = tf.Variable(np.arange(6, dtype=np.int32).reshape(2, 3))
        self.flag = tf.Variable([True, False])


def by_object():
    layer, optimizer = Layer(), tf.compat.v1.train.AdamOptimizer()
    optimizer.minimize(lambda: tf.reduce_sum(layer.w**2), var_list=[layer.w])
    words = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    words.insert(["a"], [1])
    iterator = iter(tf.data.Dataset.range(10))
    whole = tf.train.Checkpoint(
        model=layer, optimizer=optimizer, epoch=tf.Variable(3), random=tf.random.Generator.from_seed(1),
        words=words, data=iterator,
    )  # fmt: skip
    manager = tf.train.CheckpointManager(whole, str(ROOT / "objects"), max_to_keep=2)
    for _ in range(3):
        saved = manager.save()
    expect_bundle("objects", saved)
    policy = tf.train.experimental.MaxShardSizePolicy(max_shard_size=40)
    options = tf.train.CheckpointOptions(experimental_sharding_callback=policy)
    expect_bundle("shards", tf.train.Checkpoint(w=layer.w, opt=optimizer).save(str(ROOT / "shards/ckpt"), options))
    tf.saved_model.save(layer, str(ROOT / "saved"))
    expect_bundle("saved", ROOT / "saved/variables/variables")


def model():
    keras.utils.set_random_seed(0)
    return keras.Sequential([
        keras.layers.Input((4, 4, 2)),
        keras.layers.Conv2D(3, 2, name="first"),
        keras.layers.BatchNormalization(),
        keras.layers.Flatten(),
        *[keras.layers.Dense(4, name=f"wide{number}") for number in range(12)],
        keras.layers.Dropout(0.5),
    ])  # fmt: skip


def with_keras():
    net = model()
    net.compile(optimizer=keras.optimizers.Adam(0.01, use_ema=True), loss="mse")
    net.fit(np.ones((8, 4, 4, 2), "f"), np.ones((8, 4), "f"), verbose=0, epochs=2, batch_size=8)
    saved = tf.train.Checkpoint(model=net, optimizer=net.optimizer).save(str(ROOT / "trained/ckpt"))
    expect_bundle("trained", saved)
    net.export(str(ROOT / "exported"), verbose=False)
    expect_bundle("exported", ROOT / "exported/variables/variables")
    net.save(ROOT / "net.keras")
    net.save(ROOT / "old.h5")
    net.save_weights(ROOT / "net.weights.h5")
    net.save_weights(ROOT / "shards.weights.json", max_shard_size=600 / 1024**3)
    for name in ("net.weights.h5", "old.h5"):
        with h5py.File(ROOT / name) as file:
            expect_h5(name, file)
    for variable in net.weights:
        expect("model", variable.path, variable.numpy())
    keras.config.set_dtype_policy("bfloat16")
    half = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)])
    half.save_weights(ROOT / "half.weights.h5")
    with h5py.File(ROOT / "half.weights.h5") as file:
        expect_h5("half.weights.h5", file)


def with_h5py(name, **options):
    rng = np.random.default_rng(2)
    with h5py.File(ROOT / name, "w", **options) as file:
        for number in range(700):
            file.create_dataset(f"many/layer_{number:03}_kernel", data=rng.normal(size=(2, number % 5)).astype("f"))
        for number in range(20):
            file["many"].attrs[f"text{number}"] = f"value {number}"
        file["whole"] = np.arange(5, dtype=np.int16)
        file["tied"] = file["whole"]
        file["by_name"] = h5py.SoftLink("/whole")
        file["elsewhere"] = h5py.ExternalLink("other.h5", "/x")
        file["bool"], file["complex"] = np.array([True, False]), np.ones(2, np.complex64)
        file["half"], file["brain"] = np.ones(2, np.float16), np.ones(2, ml_dtypes.bfloat16)
        file["big"], file["text"] = np.arange(3, dtype=">f4"), "words"
        file["scalar"], file["none"] = np.float64(2.5), h5py.Empty("f4")
        file.create_dataset("chunks", data=rng.normal(size=(10, 100)), chunks=(5, 50), compression="gzip")
        file.create_dataset("edges", data=rng.normal(size=(7, 1_100)), chunks=(2, 3), maxshape=(None, None))
        file.create_dataset("lone", data=np.arange(12.0).reshape(3, 4), chunks=(3, 4), compression="gzip")
        file.create_dataset(
            "shuffled", data=rng.normal(size=(9, 5)).astype("f"), chunks=(4, 5), compression=4, shuffle=True,
            fletcher32=True,
        )  # fmt: skip
        file.create_dataset("unwritten", shape=(3, 3), dtype="u1")
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        space, data = h5py.h5s.create_simple((7,)), np.arange(7, dtype=np.int64)
        h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I64LE, space, compact).write(h5py.h5s.ALL, h5py.h5s.ALL, data)
    with h5py.File(ROOT / name) as file:
        expect_h5(name, file)


by_name()
by_object()
with_keras()
with_h5py("plain.h5")
with_h5py("latest.h5", libver="latest")
with_h5py("ordered.h5", track_order=True)
(ROOT / "expected.json").write_text(json.dumps(TABLE))
np.savez(ROOT / "expected.npz", **BYTES)
