"""Settings under which a reference runs, and seeds."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np

from tensoraudit.probes.protocol import JobUnsupported

THREADS = 1
"""Threads of a run when TENSORAUDIT_THREADS does not say: sums then split the same way on every machine."""


def threads() -> int:
    """Return how many threads a run uses."""
    asked = os.environ.get("TENSORAUDIT_THREADS", "")
    return max(1, int(asked)) if asked.isdigit() else THREADS


def check_device(name: str) -> None:
    """Raise JobUnsupported for a device that this worker does not run on."""
    from tensoraudit.probes.tensorflow.hello import ONLY_CPU

    if name != "cpu":
        raise JobUnsupported(f"no {name} run: {ONLY_CPU}")


def seed_everything(seed: int) -> None:
    """Seed every generator that a model may draw from, Keras's included."""
    import tensorflow as tf

    random.seed(seed)
    np.random.seed(seed % 2**32)
    tf.random.set_seed(seed)
    try:
        import keras
    except ImportError:  # TensorFlow alone
        return
    keras.utils.set_random_seed(seed)


def pin() -> None:
    """Full float32 in products. TensorFlow's deterministic operators stay off: with them a random operator without a
    seed is an error, where the audit has to see that it is random; on the CPU a fixed number of threads is enough."""
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(False)


def settings() -> dict[str, Any]:
    """Return what a run is made with, as plain JSON."""
    import tensorflow as tf

    return {
        "tensorflow": str(tf.__version__),
        "device": "cpu",
        "mode": "training=False",
        "threads": tf.config.threading.get_intra_op_parallelism_threads(),
        "tf32": bool(tf.config.experimental.tensor_float_32_execution_enabled()),
        "deterministic_ops": False,
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "default"),
    }
