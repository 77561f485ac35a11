"""A model that asks for 64-bit types."""

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)


def make_wide():
    weight = jnp.asarray((np.arange(32, dtype=np.float64).reshape(8, 4) - 15) / 17)
    return lambda x: x @ weight


def make_wide_sample_inputs():
    return (np.random.default_rng(0).normal(size=(3, 8)),)


def make_sum():
    return lambda ids: ids * 2


def make_sum_sample_inputs():
    return (np.array([[2**40, 1], [3, 4], [5, 6]], np.int64),)
