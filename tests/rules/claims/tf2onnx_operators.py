"""Operators that tf2onnx has no mapping for, beside the way of writing that it has, and normalisations."""

from converting import compared, report


def measure(folder):
    import math

    import keras
    import numpy as np
    import tensorflow as tf

    x = [np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)]
    fake = tf.quantization.fake_quant_with_min_max_args
    ways = {
        "gelu": tf.nn.gelu,
        "gelu_keras": keras.activations.gelu,
        "gelu_tanh": lambda a: tf.nn.gelu(a, approximate=True),
        "gelu_erf": lambda a: 0.5 * a * (1.0 + tf.math.erf(a / math.sqrt(2.0))),
        "rfft_abs": lambda a: tf.abs(tf.signal.rfft(a)),
        "rfft_real": lambda a: tf.math.real(tf.signal.rfft(a)),
        "irfft": lambda a: tf.signal.irfft(tf.signal.rfft(a)),
        "fake_8": lambda a: fake(a, -1, 1, num_bits=8),
        "fake_5": lambda a: fake(a, -1, 1, num_bits=5),
        "fake_narrow": lambda a: fake(a, -1, 1, narrow_range=True),
        "l2_normalize": lambda a: tf.nn.l2_normalize(a, -1),
        "divided": lambda a: a / tf.maximum(tf.norm(a, axis=-1, keepdims=True), 1e-6),
    }
    rows = {name: compared(way, x, folder / f"{name}.onnx") for name, way in ways.items()}
    wide = tf.linspace(-6.0, 6.0, 1201)
    tanh_gap = tf.reduce_max(tf.abs(tf.nn.gelu(wide) - tf.nn.gelu(wide, approximate=True)))
    return {**rows, "tanh_gap": float(tanh_gap)}


report(measure)
