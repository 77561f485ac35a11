"""The jobs of the PyTorch worker, by name."""

from __future__ import annotations

from tensoraudit.probes.coverage import coverage
from tensoraudit.probes.installed import installed
from tensoraudit.probes.protocol import Job
from tensoraudit.probes.pytorch.convert import convert
from tensoraudit.probes.pytorch.describe import describe
from tensoraudit.probes.pytorch.export import export
from tensoraudit.probes.pytorch.gradients import gradients
from tensoraudit.probes.pytorch.operators import operators
from tensoraudit.probes.pytorch.parameters import parameters
from tensoraudit.probes.pytorch.resume import resume
from tensoraudit.probes.pytorch.run import accepts, run
from tensoraudit.probes.pytorch.trace import trace
from tensoraudit.probes.pytorch.training import training

JOBS: dict[str, Job] = {
    "pytorch.describe": describe,
    "pytorch.run": run,
    "pytorch.accepts": accepts,
    "pytorch.export": export,
    "pytorch.convert": convert,
    "pytorch.trace": trace,
    "pytorch.parameters": parameters,
    "pytorch.training": training,
    "pytorch.resume": resume,
    "pytorch.gradients": gradients,
    "pytorch.operators": operators,
    "pytorch.coverage": coverage,
    "pytorch.installed": installed,
}
