"""Resume tests of a JAX program with optax, in a real worker."""

from pathlib import Path

import pytest

from tensoraudit.audit.resume_runs import Plan, Run, examine

RESUMABLE = (Path(__file__).parent / "resumable.py").read_text()
PARTS = {"params": "model", "opt_state": "optimizer", "key": "generator", "step": "value", "rng.numpy": "rng"}

pytestmark = pytest.mark.slow


@pytest.fixture
def tested(pool, tmp_path):
    """Test the resume of a program; its runs share the worker, which the program does not notice."""

    def make(text, save_after=4, steps=4):
        path = tmp_path / "program.py"
        path.write_text(text)

        def one(name, **parameters):
            given = {key: value for key, value in parameters.items() if value is not None}
            spec = {"path": str(path), "attribute": "train_step", "seed": 0, **given}
            outcome = pool.run("jax", "jax.resume", spec)
            assert outcome.status == "ok", outcome.reason
            return Run(**outcome.result)

        return examine(one, Plan(save_after, steps, tmp_path))

    return make


def row(verdict, metric):
    return {subject: value for name, subject, value, _ in verdict.rows if name == f"resume.{metric}"}


def test_a_right_program_resumes_in_every_bit(tested):
    verdict = tested(RESUMABLE)
    assert verdict.status == "equal" and row(verdict, "cold_difference")["training"] > 0.1
    assert {part: verdict.kinds[part] for part in PARTS} == PARTS


@pytest.mark.parametrize("part", PARTS)
def test_the_part_that_a_program_loses_is_named(tested, part):
    verdict = tested(RESUMABLE.replace('LOSE = ""', f'LOSE = "{part}"'))
    assert verdict.status == "differs" and row(verdict, "lost") == {part: PARTS[part]}


def test_without_hooks_the_state_that_a_save_needs_is_found(tested):
    verdict = tested(RESUMABLE[: RESUMABLE.index("def save_state")])
    assert verdict.status == "equal" and set(row(verdict, "needed")) == set(PARTS)


NNX = """
import jax, jax.numpy as jnp, optax
from flax import nnx

class Net(nnx.Module):
    def __init__(self, rngs):
        self.one, self.drop = nnx.Linear(4, 8, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)
        self.two = nnx.Linear(8, 1, rngs=rngs)

    def __call__(self, x):
        return self.two(self.drop(self.one(x)))

def make_state():
    net = Net(nnx.Rngs(0))
    return {"net": net, "optimizer": nnx.Optimizer(net, optax.adam(0.01), wrt=nnx.Param), "step": 0}

def train_step(state):
    state["step"] += 1
    x = jnp.full((3, 4), state["step"] / 10)
    loss, gradients = nnx.value_and_grad(lambda net: (net(x) ** 2).mean())(state["net"])
    state["optimizer"].update(state["net"], gradients)
    return loss
"""


def test_modules_of_nnx_are_parts(tested):
    verdict = tested(NNX)
    assert verdict.status == "equal"
    assert row(verdict, "needed") == {"net": "model", "optimizer": "optimizer", "step": "value"}
