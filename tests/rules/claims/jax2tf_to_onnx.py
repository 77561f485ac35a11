"""A JAX function through jax2tf and tf2onnx, with the arguments that once gave ordinary TensorFlow operators."""

from converting import report


def measure(folder):
    import jax
    import jax.numpy as jnp
    import numpy as np
    import tensorflow as tf
    import tf2onnx
    from jax.experimental import jax2tf

    weight, spec = np.ones((3, 2), np.float32), [tf.TensorSpec((2, 3), tf.float32)]

    def attempt(**options):
        converted = jax2tf.convert(lambda x: jnp.tanh(x @ weight), **options)
        traced = tf.function(converted, input_signature=spec, autograph=False)
        operators = [each.type for each in traced.get_concrete_function().graph.get_operations()]
        try:
            tf2onnx.convert.from_function(traced, input_signature=spec, opset=17)
        except Exception as error:
            return {"operators": operators, "error": f"{type(error).__name__}: {error}"[:200]}
        return {"operators": operators}

    return {
        "jax": jax.__version__,
        "default": attempt(),
        "native_serialization": attempt(native_serialization=False),
        "enable_xla": attempt(enable_xla=False),
    }


report(measure)
