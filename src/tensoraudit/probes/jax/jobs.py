"""The jobs of the JAX worker, by name."""

from __future__ import annotations

from tensoraudit.probes.coverage import coverage
from tensoraudit.probes.installed import installed
from tensoraudit.probes.jax.convert import convert
from tensoraudit.probes.jax.describe import describe
from tensoraudit.probes.jax.export import export
from tensoraudit.probes.jax.gradients import gradients
from tensoraudit.probes.jax.operators import operators
from tensoraudit.probes.jax.parameters import parameters
from tensoraudit.probes.jax.resume import resume
from tensoraudit.probes.jax.run import accepts, run
from tensoraudit.probes.jax.trace import trace
from tensoraudit.probes.protocol import Job

JOBS: dict[str, Job] = {
    "jax.describe": describe,
    "jax.run": run,
    "jax.accepts": accepts,
    "jax.trace": trace,
    "jax.export": export,
    "jax.convert": convert,
    "jax.parameters": parameters,
    "jax.operators": operators,
    "jax.coverage": coverage,
    "jax.gradients": gradients,
    "jax.resume": resume,
    "jax.installed": installed,
}
