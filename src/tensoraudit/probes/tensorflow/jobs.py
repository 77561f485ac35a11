"""The jobs of the TensorFlow worker, by name."""

from __future__ import annotations

from tensoraudit.probes.protocol import Job
from tensoraudit.probes.tensorflow.describe import describe
from tensoraudit.probes.tensorflow.export import export
from tensoraudit.probes.tensorflow.run import accepts, run

JOBS: dict[str, Job] = {
    "tensorflow.describe": describe,
    "tensorflow.run": run,
    "tensorflow.accepts": accepts,
    "tensorflow.export": export,
}
