"""What the TensorFlow worker says of itself when it starts."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

PACKAGES = (
    *("tensorflow", "tensorflow-cpu", "keras", "tf_keras", "tf2onnx", "onnx", "numpy", "h5py", "ml_dtypes", "protobuf"),
    *("tensorflow-hub", "tensorflow-text", "keras-hub", "transformers", "onnx2tf"),
)

ONLY_CPU = "TensorFlow is audited on the CPU in this version"


def hello() -> dict[str, Any]:
    """Import TensorFlow, fix its threads, and return version, devices, and the packages that its jobs use.

    Threads and devices can only be chosen before the first operation. Raises ImportError when TensorFlow is missing.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import tensorflow as tf

    from tensoraudit.probes.tensorflow.settings import threads

    tf.config.threading.set_intra_op_parallelism_threads(threads())
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.set_visible_devices([], "GPU")
    return {
        "framework": "tensorflow",
        "version": str(tf.__version__),
        "devices": [
            {"kind": "cpu", "name": platform.processor() or platform.machine(), "capability": "", "driver": ""}
        ],
        "inactive": {"cuda": ONLY_CPU},
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
