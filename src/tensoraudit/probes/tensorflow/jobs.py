"""The jobs of the TensorFlow worker, by name."""

from __future__ import annotations

from tensoraudit.probes.coverage import coverage
from tensoraudit.probes.installed import installed
from tensoraudit.probes.protocol import Job
from tensoraudit.probes.tensorflow.convert import convert
from tensoraudit.probes.tensorflow.describe import describe
from tensoraudit.probes.tensorflow.export import export
from tensoraudit.probes.tensorflow.gradients import gradients
from tensoraudit.probes.tensorflow.operators import operators
from tensoraudit.probes.tensorflow.parameters import parameters
from tensoraudit.probes.tensorflow.run import accepts, run
from tensoraudit.probes.tensorflow.trace import trace

JOBS: dict[str, Job] = {
    "tensorflow.describe": describe,
    "tensorflow.run": run,
    "tensorflow.accepts": accepts,
    "tensorflow.trace": trace,
    "tensorflow.export": export,
    "tensorflow.convert": convert,
    "tensorflow.parameters": parameters,
    "tensorflow.operators": operators,
    "tensorflow.coverage": coverage,
    "tensorflow.gradients": gradients,
    "tensorflow.installed": installed,
}
