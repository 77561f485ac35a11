"""Models whose results tell in which mode they ran."""

import numpy as np
import tensorflow as tf


class Told(tf.Module):
    """x + 1 operation by operation, x + 2 as a graph."""

    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def __call__(self, x):
        return x + (1.0 if tf.executing_eagerly() else 2.0)


class Python(tf.Module):
    """Halves x in Python, which XLA cannot compile."""

    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def __call__(self, x):
        y = tf.py_function(lambda value: np.asarray(value) / 2, [x], tf.float32)
        return tf.ensure_shape(y, [None, 3])


class Scaled(tf.Module):
    """Not compiled by itself; `factor` is no tensor."""

    def __init__(self):
        super().__init__()
        self.weight = tf.Variable(3.0)

    def __call__(self, x, factor=2.0):
        return x * self.weight * factor
