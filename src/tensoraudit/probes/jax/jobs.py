"""The jobs of the JAX worker, by name."""

from __future__ import annotations

from tensoraudit.probes.jax.describe import describe
from tensoraudit.probes.jax.export import export
from tensoraudit.probes.jax.run import accepts, run
from tensoraudit.probes.protocol import Job

JOBS: dict[str, Job] = {
    "jax.describe": describe,
    "jax.run": run,
    "jax.accepts": accepts,
    "jax.export": export,
}
