"""Models that the tests of TensorFlow run: each function makes one, good or with a known fault."""

import keras
import numpy as np
import tensorflow as tf


def cnn():
    """NHWC, sizes that are distinct primes."""
    return keras.Sequential(
        [
            keras.Input((17, 19, 3), name="image"),
            keras.layers.Conv2D(7, 3, strides=2, padding="same", activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.MaxPool2D(),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(5, activation="softmax"),
        ]
    )


def recurrent():
    """Two outputs by name; batch and time vary."""
    tokens = keras.Input((None, 6), name="tokens")
    hidden = keras.layers.LSTM(7, return_sequences=True)(tokens)
    hidden = keras.layers.GRU(5)(hidden)
    return keras.Model(tokens, {"score": keras.layers.Dense(2)(hidden), "logits": keras.layers.Dense(3)(hidden)})


def exact_gelu():
    """tf2onnx leaves its Erfc in the file."""
    return keras.Sequential([keras.Input((11,)), keras.layers.Dense(7, activation="gelu"), keras.layers.Dense(3)])


class AlwaysDropped(keras.Model):
    """Dropout that ignores training=False."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(6)
        self.drop = keras.layers.Dropout(0.5)

    def call(self, x):
        return self.drop(self.dense(x), training=True)


dropped = AlwaysDropped


def dropped_sample_inputs():
    return (np.random.default_rng(0).random((3, 5), dtype=np.float32),)


class Counter(tf.Module):
    """Every call changes the next."""

    def __init__(self):
        self.count = tf.Variable(0.0, name="count")

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def __call__(self, x):
        self.count.assign_add(1.0)
        return x * self.count


class Two(keras.Model):
    """Its code alone knows its inputs: two of them, and two outputs in a tuple."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(6)

    def call(self, x, y, training=None):
        return self.dense(x) + y, tf.reduce_sum(y, -1)


def two():
    return Two()


def two_sample_inputs():
    numbers = np.random.default_rng(0)
    return {"y": numbers.random((3, 6), dtype=np.float32), "x": numbers.random((3, 5), dtype=np.float32)}


@tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32), tf.TensorSpec([None], tf.int32)])
def pick(table, ids):
    return tf.gather(table, ids % tf.shape(table)[0])


class Constant(tf.Module):
    """A large constant, which a saved function captures instead of holding it."""

    def __init__(self):
        self.table = tf.constant(np.arange(4 * 300, dtype=np.float32).reshape(4, 300) / 1201)
        self.norm = tf.Variable(np.array([0.5, 2.0, 3.0], np.float32))

    @tf.function(input_signature=[tf.TensorSpec([None, 2, 2, 3], tf.float32, name="x")])
    def __call__(self, x):
        mean, variance = tf.constant([0.1, 0.2, 0.3]), tf.constant([1.0, 4.0, 0.5])
        y, *_ = tf.compat.v1.nn.fused_batch_norm(x, self.norm, mean, mean, variance, epsilon=1e-3, is_training=False)
        return {"y": tf.reshape(y, [-1, 12])[:, :4] @ self.table}


class Branch(tf.Module):
    """A Python `if` on a tensor's value, which tf.function turns into tf.cond."""

    def __call__(self, x):
        if tf.reduce_sum(x) > 0:
            return x * 2.0
        return x * -3.0


class Leaves(tf.Module):
    """Goes through NumPy in its call."""

    def __call__(self, x):
        return tf.constant(np.cumsum(x.numpy(), -1))


def number():
    return 3


def needs(width):
    return keras.layers.Dense(width)


class FixedModel(keras.Model):
    """Needs an argument, and has no get_config to say so."""

    def __init__(self, width):
        super().__init__()
        self.dense = keras.layers.Dense(width)

    def call(self, x):
        return self.dense(x)


def Fixed():
    return FixedModel(3)
