"""What jax.checkpoint does with effects, with prevent_cse=False and with names nobody attached. Prints JSON.

Runs under any interpreter that has JAX; test_gck_effects.py reads what it prints.
"""

import contextlib
import io
import json

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name, print_saved_residuals
from jax.experimental import io_callback

X = jnp.linspace(-1.0, 1.0, 7)
W = jnp.full((7, 7), 0.1)
POLICIES = jax.checkpoint_policies
LAYERS = 8


def gradient_calls(callback, wrap, jit):
    """Run one gradient; return how often the callback ran, or the name of the error and its text."""
    seen = []
    gradient = jax.grad(wrap(lambda w: layer(callback, seen, w)))
    try:
        jax.block_until_ready((jax.jit(gradient) if jit else gradient)(W))
        jax.effects_barrier()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return len(seen)


def layer(callback, seen, w):
    """One layer that calls `callback`, which nothing that is differentiated may reach: JAX refuses that with or without
    remat."""
    y = jnp.sin(X @ w)
    told = callback(seen, jax.lax.stop_gradient(y.sum()))
    return y.sum() * (1.0 if told is None else told)


def pure(seen, value):
    """A pure callback whose result is used; JAX leaves out one that is not."""
    return jax.pure_callback(lambda v: seen.append(1) or v, jax.ShapeDtypeStruct(value.shape, value.dtype), value)


def debug(ordered):
    return lambda seen, value: jax.debug.callback(lambda _: seen.append(1), value, ordered=ordered)


def host(ordered):
    def callback(seen, value):
        io_callback(lambda _: seen.append(1), None, value, ordered=ordered)

    return callback


CALLBACKS = {
    "debug.callback": debug(False),
    "debug.callback, ordered": debug(True),
    "io_callback": host(False),
    "io_callback, ordered": host(True),
    "pure_callback": pure,
}
WRAPS = {
    "plain": lambda f: f,
    "checkpoint": jax.checkpoint,
    "everything_saveable": lambda f: jax.checkpoint(f, policy=POLICIES.everything_saveable),
    "dots_saveable": lambda f: jax.checkpoint(f, policy=POLICIES.dots_saveable),
}


def effects():
    return {
        callback: {
            name: {"eager": gradient_calls(call, wrap, False), "jit": gradient_calls(call, wrap, True)}
            for name, wrap in WRAPS.items()
        }
        for callback, call in CALLBACKS.items()
    }


def modules():
    """Count the callback of a rematerialised module of Flax, in both of its interfaces; None without Flax."""
    try:
        import flax.linen as linen
        from flax import nnx
    except ImportError:
        return None
    seen = []

    class Layer(linen.Module):
        @linen.compact
        def __call__(self, x):
            debug(False)(seen, x.sum())
            return linen.Dense(7)(x)

    class Other(nnx.Module):
        def __init__(self):
            self.dense = nnx.Linear(7, 7, rngs=nnx.Rngs(0))

        def __call__(self, x):
            debug(False)(seen, x.sum())
            return self.dense(x)

    rematerialised = linen.remat(Layer)()
    weights = rematerialised.init(jax.random.key(0), X)
    call = nnx.remat(lambda module, x: module(x))
    gradients = {
        "flax.linen": lambda: jax.grad(lambda w: jnp.sin(rematerialised.apply(w, X)).sum())(weights),
        "flax.nnx": lambda: nnx.grad(lambda module: jnp.sin(call(module, X)).sum())(Other()),
    }
    found = {}
    for name, gradient in gradients.items():
        seen.clear()
        gradient()
        jax.effects_barrier()
        found[name] = len(seen)
    return found


def undifferentiated():
    """Count the io_callback of a checkpointed function that is only called."""
    seen = []
    jax.block_until_ready(jax.jit(jax.checkpoint(lambda w: layer(host(False), seen, w)))(W))
    jax.effects_barrier()
    return len(seen)


def barriers(wrap, scan):
    """Count the optimisation barriers in the lowered gradient of three layers."""

    step = wrap(lambda w, x: jnp.sin(x @ w))

    def loss(ws, x):
        if scan:
            return jax.lax.scan(lambda x, w: (step(w, x), None), x, ws)[0].sum()
        for w in ws:
            x = step(w, x)
        return x.sum()

    lowered = jax.jit(jax.grad(loss)).lower(jnp.stack([W] * 3), X)
    return lowered.as_text().count("optimization_barrier")


def cse():
    wraps = {"default": jax.checkpoint, "false": lambda f: jax.checkpoint(f, prevent_cse=False), "plain": lambda f: f}
    return {name: {"loop": barriers(wrap, False), "scan": barriers(wrap, True)} for name, wrap in wraps.items()}


def residuals(policy, attach):
    """Return the lines of print_saved_residuals, without those of the arguments."""

    def f(x):
        y = jnp.sin(x @ W)
        y = checkpoint_name(y, "attention") if attach else y
        return jnp.cos(y @ W).sum()

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print_saved_residuals(jax.checkpoint(f, policy=policy), X)
    return [line for line in text.getvalue().splitlines() if "from the argument" not in line and "constant" not in line]


def names():
    only, but = POLICIES.save_only_these_names, POLICIES.save_any_names_but_these
    offload = POLICIES.save_and_offload_only_these_names(
        names_which_can_be_saved=["attn"],
        names_which_can_be_offloaded=[],
        offload_src="device",
        offload_dst="pinned_host",
    )
    cases = {
        "no policy": (None, True),
        "right name": (only("attention"), True),
        "misspelt name": (only("attn"), True),
        "misspelt name, offloading": (offload, True),
        "no name attached": (only("attention"), False),
        "any but, no name attached": (but("attention"), False),
        "any but another name": (but("attn"), True),
    }
    return {case: len(residuals(policy, attach)) for case, (policy, attach) in cases.items()}


def measured(region):
    """Compile the gradient of a scan of layers; return temporary bytes and FLOPs. `region`: what is checkpointed."""
    body = jax.checkpoint(_layer) if region == "body" else _layer

    def loss(ws, x):
        return jax.lax.scan(body, x, ws)[0].sum()

    loss = jax.checkpoint(loss) if region == "loss" else loss
    ws, x = jnp.full((LAYERS, 61, 61), 0.01), jnp.full((1009, 61), 0.5)
    compiled = jax.jit(jax.grad(loss)).lower(ws, x).compile()
    cost = compiled.cost_analysis()
    return {"temp": compiled.memory_analysis().temp_size_in_bytes, "flops": cost["flops"]}


def _layer(x, w):
    return jnp.sin(x @ w), None


def main():
    trade = {region: measured(region) for region in ("nothing", "body", "loss")}
    found = {
        "effects": effects(),
        "modules": modules(),
        "undifferentiated": undifferentiated(),
        "cse": cse(),
        "names": names(),
    }
    print(json.dumps({"version": jax.__version__, **found, "trade": trade}))


if __name__ == "__main__":
    main()
