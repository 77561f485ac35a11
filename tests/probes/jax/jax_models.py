"""Models in every form that the JAX worker takes, and some that must not pass. Only a worker with JAX imports this."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx

MLP_WEIGHT = (np.arange(32, dtype=np.float32).reshape(8, 4) - 15) / 16
MLP_BIAS = np.array([0.1, -0.2, 0.3, -0.4], np.float32)


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def sample_inputs():
    return (drawn(3, 8),)


def make_mlp():
    params = {"dense": {"kernel": jnp.asarray(MLP_WEIGHT), "bias": jnp.asarray(MLP_BIAS)}}

    def apply(params, x):
        return jnp.tanh(x @ params["dense"]["kernel"] + params["dense"]["bias"])

    return apply, params


def make_function():
    weight = jnp.asarray(MLP_WEIGHT)
    return lambda x: {"sum": (x @ weight).sum(-1), "logits": x @ weight}


class CNN(linen.Module):
    @linen.compact
    def __call__(self, x, train: bool = False):
        x = linen.Conv(4, (3, 3), strides=(2, 2))(x)
        x = linen.BatchNorm(use_running_average=not train)(x)
        x = linen.relu(x)
        x = linen.avg_pool(x, window_shape=(2, 2), strides=(2, 2))
        return linen.Dense(5)(x.reshape(x.shape[0], -1))


def make_cnn():
    module = CNN()
    return module, module.init(jax.random.key(0), jnp.zeros((1, 12, 12, 3)))


def make_cnn_sample_inputs():
    return (drawn(2, 12, 12, 3),)


def make_bound_cnn():
    module, variables = make_cnn()
    return module.bind(variables)


make_bound_cnn_sample_inputs = make_cnn_sample_inputs


def make_unbound_cnn():
    return CNN()


class PositionalPool(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.avg_pool(linen.Conv(2, (3, 3))(x), (2, 2), (2, 2))


def make_positional_pool():
    module = PositionalPool()
    return module, module.init(jax.random.key(0), jnp.zeros((1, 12, 12, 3)))


make_positional_pool_sample_inputs = make_cnn_sample_inputs


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(8, 16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.last = nnx.Linear(16, 3, rngs=rngs)

    def __call__(self, x):
        return self.last(self.dropout(nnx.gelu(self.norm(self.first(x)))))


def make_nnx():
    net = Net(nnx.Rngs(0))
    net.eval()
    return net


def make_training_nnx():
    return Net(nnx.Rngs(0))


def make_random():
    """One fixed key: the same numbers at every call in JAX."""

    def apply(x):
        return x + jax.random.normal(jax.random.key(7), x.shape)

    return apply


def make_numpy_random():
    """Another number at every trace."""
    return lambda x: x + np.random.random()


CALLS = {"count": 0}


def make_counter():
    """Frozen by jit at the first trace, another number at every call without it."""

    def apply(x):
        CALLS["count"] += 1
        return x * CALLS["count"]

    return apply


def make_ids():
    table = drawn(50, 6)
    return (lambda params, ids: params["embed"]["embedding"][ids].mean(1)), {"embed": {"embedding": jnp.asarray(table)}}


def make_ids_sample_inputs():
    return {"ids": np.arange(12, dtype=np.int64).reshape(3, 4)}


def make_bfloat16():
    weight = jnp.asarray(MLP_WEIGHT).astype(jnp.bfloat16)
    return lambda x: x.astype(jnp.bfloat16) @ weight


def make_strict():
    """Takes its own batch size only."""

    def apply(x):
        if x.shape[0] != 3:
            raise ValueError(f"the batch must be 3, not {x.shape[0]}")
        return jnp.tanh(x)

    return apply


def make_branching():
    """Python looks at a value: it runs, but cannot be traced."""

    def apply(x):
        if x.sum() > 0:
            return x * 2
        return -x

    return apply


def make_numpy():
    """Leaves JAX for NumPy."""
    return lambda x: np.tanh(np.asarray(x))


def make_other_under_jit():
    """A model whose Python asks whether it is traced."""

    def apply(x):
        return x * (2.0 if isinstance(x, jax.core.Tracer) else 3.0)

    return apply


def make_callback():
    """An operation that jax2onnx has no translation for."""
    return lambda x: jax.pure_callback(lambda a: np.asarray(a) * 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def make_eigenvalues():
    """An operation that jax2onnx translates for tiny matrices only."""
    return lambda x: jnp.linalg.eigvals(x[:, :3] @ x[:, :3].T + 5 * jnp.eye(3)).real


def make_compares_size():
    return lambda x: x if x.shape[0] > 3 else x + 1


def make_bits():
    return lambda x: x + jax.lax.bitcast_convert_type(x, jnp.int32)


def make_scatter():
    """scatter-add holds a function of its own, so its trace cannot be widened; traced anew it can."""
    return lambda x: x.at[0].add(0.5) / 3


def make_narrow_scatter():
    return lambda x: (x.at[0].apply(jnp.sin) * 3).astype(jnp.float16)


def make_wide_scatter():
    """Scatters whose function of two numbers is JAX's own."""
    return lambda x: x.at[0].set(0.1).at[1].add(0.2).at[1].subtract(0.3).at[0].multiply(0.7).at[0].max(0.01)


def make_loops():
    """Every kind of control flow, with casts to narrower floats in it."""

    def apply(x):
        def step(carry, row):
            carry = carry + jnp.sin(row.astype(jnp.float32))
            return carry, carry * 0.3

        end, rows = jax.lax.scan(step, jnp.zeros(x.shape[1], jnp.float32), x)
        looped = jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] / 3), (0, end))[1]
        chosen = jax.lax.cond(x[0, 0] > 0, lambda y: y / 7, lambda y: y / 5, looped)
        return jax.checkpoint(jnp.tanh)(chosen), jax.nn.relu(rows)

    return apply


def make_scaled():
    return lambda x, scale, *, power=1: (x * scale) ** power


def make_scaled_sample_inputs():
    return {"x": drawn(3, 8), "scale": 2.0, "power": 2}


def make_nested():
    return lambda pair, table: pair[0] + pair[1] * table["b"] - table["a"]


def make_nested_sample_inputs():
    x = drawn(3, 8)
    return {"pair": (x, 2 * x), "table": {"b": 3 * x, "a": x}}


def make_nothing():
    return lambda x: None


def needs_arguments(width):
    return lambda x: x * width


def make_list():
    return [1, 2]
