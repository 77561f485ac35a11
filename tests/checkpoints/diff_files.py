"""Write one small model by Keras, TensorFlow and Flax from the weights of another framework.

    python diff_files.py FOLDER

FOLDER/weights.npz holds the arrays by PyTorch's names and layouts.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

DENSE = ("fc1", "fc2", "head")


def write_keras(folder: Path, weights: dict, named: bool) -> None:
    import keras
    import tensorflow as tf

    def layer(kind, name, *how):
        return kind(*how, name=name) if named else kind(*how)

    layers = keras.layers
    model = keras.Sequential([keras.Input((23, 23, 3))])
    model.add(layer(layers.Conv2D, "conv1", 5, 7))
    model.add(layer(layers.BatchNormalization, "bn1"))
    model.add(layer(layers.Conv2D, "conv2", 5, 5))
    model.add(layers.Flatten())
    for name, size in zip(DENSE, (11, 11, 13), strict=True):
        model.add(layer(layers.Dense, name, size))
    filled = [each for each in model.layers if each.weights]
    for name, each in zip(("conv1", "bn1", "conv2", *DENSE), filled, strict=True):
        each.set_weights(_keras_weights(name, weights))
    stem = "named" if named else "auto"
    model.save_weights(folder / f"{stem}.weights.h5")
    model.save(folder / f"{stem}.keras")
    tf.train.Checkpoint(model=model).write(str(folder / f"{stem}_bundle"))
    if named:
        model.export(folder / "saved_model", verbose=False)


def _keras_weights(name: str, weights: dict) -> list:
    if name.startswith("bn"):
        return [weights[f"{name}.{part}"] for part in ("weight", "bias", "running_mean", "running_var")]
    kernel = weights[f"{name}.weight"]
    return [kernel.transpose(2, 3, 1, 0) if kernel.ndim == 4 else kernel.T, weights[f"{name}.bias"]]


def write_flax(folder: Path, weights: dict, named: bool) -> None:
    from flax import serialization

    names = {"conv1": "Conv_0", "conv2": "Conv_1", "bn1": "BatchNorm_0"}
    names |= {name: f"Dense_{n}" for n, name in enumerate(DENSE)}
    params = {}
    for name, automatic in names.items():
        kernel, bias, *_ = _keras_weights(name, weights)
        kind = "scale" if name.startswith("bn") else "kernel"
        params[name if named else automatic] = {kind: np.ascontiguousarray(kernel), "bias": bias}
    statistics = {"mean": weights["bn1.running_mean"], "var": weights["bn1.running_var"]}
    tree = {"params": params, "batch_stats": {"bn1" if named else "BatchNorm_0": statistics}}
    (folder / ("named.msgpack" if named else "auto.msgpack")).write_bytes(serialization.to_bytes(tree))


if __name__ == "__main__":
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    target = Path(sys.argv[1])
    arrays = dict(np.load(target / "weights.npz"))
    for by_name in (True, False):
        write_flax(target, arrays, by_name)
        write_keras(target, arrays, by_name)
