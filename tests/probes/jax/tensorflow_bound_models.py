"""Models that leave for TensorFlow, and some that cannot. Only a worker with JAX imports this."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx

W = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
B = np.array([0.5, -0.25, 0.125], np.float32)
KERNEL = np.random.default_rng(0).normal(size=(3, 3, 3, 5)).astype(np.float32)


class Net(linen.Module):
    @linen.compact
    def __call__(self, image):
        x = linen.Conv(5, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)), use_bias=False, name="conv")(image)
        return {"features": linen.relu(x), "mean": linen.relu(x).mean((1, 2))}


def cnn():
    return Net(), {"params": {"conv": {"kernel": jnp.asarray(KERNEL)}}}


class Recurrent(nnx.Module):
    def __init__(self):
        self.cell = nnx.GRUCell(6, 5, rngs=nnx.Rngs(0))
        self.out = nnx.Linear(5, 3, rngs=nnx.Rngs(1))

    def __call__(self, tokens):
        state = jnp.zeros((tokens.shape[0], 5))
        for time in range(tokens.shape[1]):
            state, _ = self.cell(state, tokens[:, time])
        return self.out(state)


def gru():
    return Recurrent()


def two():
    def apply(p, x, ids):
        return x @ p["w"] + p["b"], p["w"][ids % 4].sum(-1)

    return apply, {"w": jnp.asarray(W), "b": jnp.asarray(B)}


def uint8():
    return lambda image: image.astype(jnp.float32).sum((1, 2)) / 255


def bfloat16():
    return lambda x: (x @ jnp.asarray(W)).astype(jnp.bfloat16)


def calls_python():
    return lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def depends_on_size():
    return lambda x: x * (1.0 if x.shape[0] > 3 else 2.0)
