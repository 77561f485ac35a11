"""The jobs of the TensorFlow Lite worker, by name."""

from __future__ import annotations

from tensoraudit.probes.litert.describe import describe
from tensoraudit.probes.litert.run import accepts, run
from tensoraudit.probes.litert.trace import trace
from tensoraudit.probes.protocol import Job

JOBS: dict[str, Job] = {
    "litert.describe": describe,
    "litert.run": run,
    "litert.accepts": accepts,
    "litert.trace": trace,
}
