"""The jobs of the PyTorch worker, by name."""

from __future__ import annotations

from tensoraudit.probes.protocol import Job
from tensoraudit.probes.pytorch.describe import describe
from tensoraudit.probes.pytorch.export import export
from tensoraudit.probes.pytorch.run import accepts, run
from tensoraudit.probes.pytorch.trace import trace
from tensoraudit.probes.pytorch.training import training

JOBS: dict[str, Job] = {
    "pytorch.describe": describe,
    "pytorch.run": run,
    "pytorch.accepts": accepts,
    "pytorch.export": export,
    "pytorch.trace": trace,
    "pytorch.training": training,
}
