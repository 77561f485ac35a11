"""The names that flax gives to lifted classes, and what apply does when one is switched; printed as JSON."""

import json

import flax.linen as nn
import jax
import jax.numpy as jnp

X = jnp.ones((2, 3))


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(x)


class Net(nn.Module):
    made: object
    name_of_it: str | None = None

    @nn.compact
    def __call__(self, x):
        return self.made(name=self.name_of_it)(x)


class Named(nn.Module):
    def setup(self):
        self.block = nn.remat(Block)()

    def __call__(self, x):
        return self.block(x)


def names(net):
    return list(net.init(jax.random.key(0), X)["params"])


plain = Net(Block)
weights = plain.init(jax.random.key(0), X)
try:
    Net(nn.remat(Block)).apply(weights, X)
    error = ""
except Exception as raised:
    error = type(raised).__name__
same = Net(nn.remat(Block), "Block_0").apply(weights, X)
print(
    "RESULT "
    + json.dumps(
        {
            "plain": names(plain),
            "remat": names(Net(nn.remat(Block))),
            "checkpoint": names(Net(nn.checkpoint(Block))),
            "jit": names(Net(nn.jit(Block))),
            "named": names(Net(nn.remat(Block), "Block_0")),
            "setup": names(Named()),
            "error": error,
            "equal": bool((same == plain.apply(weights, X)).all()),
        }
    )
)
