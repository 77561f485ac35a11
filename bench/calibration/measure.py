"""Run one calibration case: PyTorch on the CPU as reference, its double-precision twin as oracle, ONNX Runtime as
candidate."""

from __future__ import annotations

import copy
import io
import warnings
from dataclasses import dataclass

import numpy as np
import onnxruntime
import torch
from cases import Case, exported_module
from torch import nn

from tensoraudit.equivalence.floor import noise_floor
from tensoraudit.equivalence.inputs import perturb
from tensoraudit.equivalence.metrics import measure

DRAWS = 3


@dataclass(frozen=True)
class Measured:
    """L-infinity between the two sides and the error ratio with an oracle and without one."""

    case: str
    right: bool
    seed: int
    linf: float
    ratio: float
    ratio_without_oracle: float


def run(case: Case, dtype: str, seed: int) -> Measured:
    """Measure one case with one seed; raises what torch or ONNX Runtime raise where they do not support the dtype."""
    torch.manual_seed(seed)
    kind = getattr(torch, dtype)
    # Weights are drawn in float32, then widened or rounded, so that all dtypes see the same model.
    reference = case.build().eval().to(kind)
    inputs = [x.to(kind).numpy() for x in case.inputs()]
    a = forward(reference, inputs)
    oracle = forward(copy.deepcopy(reference).double(), [x.astype(np.float64) for x in inputs])
    named = {str(i): x for i, x in enumerate(inputs)}
    draws = [forward(reference, list(perturb(named, seed=k).values())) for k in range(DRAWS)]
    b = candidate(exported_module(case, reference), inputs)
    if not all(np.isfinite(x).all() for x in (a, b, oracle)):
        raise RuntimeError(f"{case.name}: a result is not finite; the case measures nothing")
    metrics = measure(a, b)
    with_oracle = noise_floor(a, b, dtype, metrics, oracle=oracle, perturbed=draws)
    without = noise_floor(a, b, dtype, metrics, perturbed=draws)
    return Measured(case.name, case.right, seed, metrics.linf, with_oracle.error_ratio, without.error_ratio)


def forward(module: nn.Module, inputs: list[np.ndarray]) -> np.ndarray:
    with torch.no_grad():
        return module(*(torch.from_numpy(x) for x in inputs)).numpy()


def candidate(module: nn.Module, inputs: list[np.ndarray]) -> np.ndarray:
    """Export with the TorchScript exporter (a tenth of the time of the other) and run on ONNX Runtime's CPU."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(torch.from_numpy(x) for x in inputs), file, dynamo=False, opset_version=17)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
    feeds = {spec.name: x for spec, x in zip(session.get_inputs(), inputs, strict=True)}
    return session.run(None, feeds)[0]
