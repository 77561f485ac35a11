"""What tf.recompute_grad does with dropout, closures, keywords and second derivatives. Prints JSON.

Runs under any interpreter that has TensorFlow; test_gck_effects.py reads what it prints.
"""

import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf

UNITS = 61
X = tf.ones((1, 31))


def mismatch(make, graph):
    """Return the share of units whose output and weight gradient disagree on whether dropout kept them."""
    tf.random.set_seed(7)
    w = tf.Variable(tf.ones((31, UNITS)))
    f = make(w)

    def step():
        with tf.GradientTape() as tape:
            y = f(X)
        return y, tape.gradient(y, w)

    y, gradient = (tf.function(step) if graph else step)()
    return float(np.mean((y.numpy()[0] != 0) != (gradient.numpy()[0] != 0)))


def dropped(drop, wrap=tf.recompute_grad):
    return lambda w: wrap(lambda a: drop(tf.nn.relu(a @ w)))


def keras_dropped(w):
    layer = tf.keras.layers.Dropout(0.5)
    return dropped(lambda h: layer(h, training=True))(w)


MAKES = {
    "dropout": dropped(lambda h: tf.nn.dropout(h, 0.5)),
    "dropout with a seed": dropped(lambda h: tf.nn.dropout(h, 0.5, seed=3)),
    "keras dropout": keras_dropped,
    "stateless dropout": dropped(lambda h: tf.nn.experimental.stateless_dropout(h, 0.5, seed=[3, 5])),
    "dropout, not wrapped": dropped(lambda h: tf.nn.dropout(h, 0.5), wrap=lambda f: f),
}


def gradient_of(call):
    """Return whether the second tensor gets a gradient: `call(wrapped, x, t)`, with t = x * 2 computed outside."""
    x = tf.Variable(X)
    with tf.GradientTape() as tape:
        t = x * 2
        tape.watch(t)
        y = call(x, t)
    return tape.gradient(y, t) is not None


def closed_over(wrap):
    def call(x, t):
        return tf.reduce_sum(wrap(lambda a: a * t)(x))

    return call


def by_keyword(wrap):
    return lambda x, t: tf.reduce_sum(wrap(lambda a, b: a * b)(x, b=t))


def by_position(wrap):
    return lambda x, t: tf.reduce_sum(wrap(lambda a, b: a * b)(x, t))


def tried(call, wrap):
    try:
        return gradient_of(call(wrap))
    except Exception as error:
        return [type(error).__name__, str(error)[:200]]


def second_order(wrap):
    x = tf.Variable([2.0])
    try:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                y = wrap(lambda a: a**3)(x)
            first = inner.gradient(y, x)
        second = outer.gradient(first, x)
        return None if second is None else second.numpy().tolist()
    except Exception as error:
        return [type(error).__name__, str(error)[:200]]


def main():
    calls = {"closed over": closed_over, "by keyword": by_keyword, "by position": by_position}
    wraps = {"recompute_grad": tf.recompute_grad, "plain": lambda f: f}
    print(
        json.dumps(
            {
                "version": tf.__version__,
                "mismatch": {
                    name: {"eager": mismatch(make, False), "graph": mismatch(make, True)}
                    for name, make in MAKES.items()
                },
                "gradient": {
                    name: {each: tried(call, wrap) for each, wrap in wraps.items()} for name, call in calls.items()
                },
                "second order": {each: second_order(wrap) for each, wrap in wraps.items()},
            }
        )
    )


if __name__ == "__main__":
    main()
