"""Kinds of Keras models and opsets with tf2onnx.convert.from_keras, and the recurrent layers of Keras."""

from converting import compared, report


def measure(folder):
    import keras
    import numpy as np
    import tensorflow as tf
    import tf2onnx

    layers, spec = keras.layers, [tf.TensorSpec((None, 4), tf.float32, name="x")]

    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(2)

        def call(self, x):
            return self.dense(x)

    def attempt(model, opset=17, signature=None):
        model(np.zeros((2, 4), np.float32))
        try:
            made, _ = tf2onnx.convert.from_keras(model, input_signature=signature, opset=opset)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"[:200]}
        return {"nodes": [node.op_type for node in made.graph.node]}

    def recurrent(layer):
        model = keras.Sequential([layers.Input((5, 3)), layer])
        x = np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32)
        return compared(model, [x], folder / f"{layer.name}.onnx")

    x = layers.Input((4,))
    sequential = keras.Sequential([layers.Input((4,)), layers.Dense(2)])
    functional = keras.Model(x, layers.Dense(2)(x))
    return {
        "keras": keras.__version__,
        "sequential": attempt(sequential),
        "sequential_signature": attempt(sequential, signature=spec),
        "functional": attempt(functional),
        "functional_18": attempt(functional, 18),
        "functional_19": attempt(functional, 19),
        "subclassed": attempt(Subclassed()),
        "subclassed_signature": attempt(Subclassed(), signature=spec),
        "from_function": compared(sequential, [np.ones((2, 4), np.float32)], folder / "function.onnx"),
        "gru": recurrent(layers.GRU(4, name="gru")),
        "gru_before": recurrent(layers.GRU(4, reset_after=False, name="gru_before")),
        "lstm": recurrent(layers.LSTM(4, name="lstm")),
    }


report(measure)
