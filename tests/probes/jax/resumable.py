"""A JAX program that resumes exactly: optax's Adam with a schedule, dropout from a key, batches from numpy's generator.
`LOSE` names one part that loading leaves out; tests write copies of this file with other values."""

import pickle
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

LOSE = ""
OPTIMIZER = optax.adam(optax.exponential_decay(0.05, 3, 0.5))
DATA = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
LABELS = DATA.sum(1, keepdims=True)


def make_state():
    np.random.seed(1)
    key = jax.random.key(2)
    params = {"w": jax.random.normal(key, (6, 1)), "b": jnp.zeros(1)}
    return {"params": params, "opt_state": OPTIMIZER.init(params), "key": key, "step": 0}


def _loss(params, key, x, y):
    kept = jax.random.bernoulli(key, 0.8, x.shape)
    return jnp.mean((jnp.where(kept, x, 0) @ params["w"] + params["b"] - y) ** 2)


def train_step(state):
    key, used = jax.random.split(state["key"])
    rows = np.random.permutation(len(DATA))[:8]
    x = DATA[rows] * (1 + 0.01 * state["step"])
    loss, gradients = jax.value_and_grad(_loss)(state["params"], used, x, LABELS[rows])
    updates, moments = OPTIMIZER.update(gradients, state["opt_state"])
    params = optax.apply_updates(state["params"], updates)
    return {"params": params, "opt_state": moments, "key": key, "step": state["step"] + 1}, loss


def save_state(state, path):
    held = {**state, "key": jax.random.key_data(state["key"]), "rng.numpy": np.random.get_state()}
    Path(path).write_bytes(pickle.dumps(jax.device_get(held)))


def load_state(path):
    held = pickle.loads(Path(path).read_bytes())
    held["key"] = jax.random.wrap_key_data(held["key"])
    numbers = held.pop("rng.numpy")
    state = make_state() | {name: value for name, value in held.items() if name != LOSE}
    if LOSE != "rng.numpy":
        np.random.set_state(numbers)
    return state
