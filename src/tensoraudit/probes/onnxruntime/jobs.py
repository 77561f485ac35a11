"""The jobs that the ONNX Runtime worker answers, by full name."""

from __future__ import annotations

from tensoraudit.probes.installed import installed
from tensoraudit.probes.onnxruntime.describe import describe
from tensoraudit.probes.onnxruntime.forward import run
from tensoraudit.probes.onnxruntime.intermediates import intermediates
from tensoraudit.probes.onnxruntime.levels import levels
from tensoraudit.probes.onnxruntime.parameters import parameters
from tensoraudit.probes.onnxruntime.reference import reference
from tensoraudit.probes.onnxruntime.subgraph import subgraph
from tensoraudit.probes.onnxruntime.values import values
from tensoraudit.probes.protocol import Job

JOBS: dict[str, Job] = {
    "onnxruntime.describe": describe,
    "onnxruntime.run": run,
    "onnxruntime.levels": levels,
    "onnxruntime.values": values,
    "onnxruntime.parameters": parameters,
    "onnxruntime.intermediates": intermediates,
    "onnxruntime.subgraph": subgraph,
    "onnxruntime.reference": reference,
    "onnxruntime.installed": installed,
}
