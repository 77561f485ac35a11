"""An ONNX file as a PyTorch module, by onnx2torch."""

from __future__ import annotations

from pathlib import Path

import torch

from tensoraudit.probes.converted import Declared
from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.pytorch.loaded import Loaded, Spec, remember
from tensoraudit.probes.pytorch.outputs import ROOT
from tensoraudit.routes.conversion_causes import ONNX2TORCH, refusal
from tensoraudit.routes.export_log import ExportLog
from tensoraudit.routes.onnx_to_torch_onnx2torch import convert, translating


def load_onnx2torch(spec: Spec) -> Loaded:
    """Load and convert. The module knows what its file declares (`declared`) and what onnx2torch said (`said`).

    Raises JobFailed with the operator that onnx2torch does not take.
    """
    return remember(lambda: _convert(str(spec["path"])))


def _convert(path: str) -> torch.nn.Module:
    log = ExportLog()
    try:
        with log.listen():
            found = convert(path)
    except Exception as problem:
        cause, details = refusal(problem, ONNX2TORCH, "translate", operator=translating(problem))
        raise JobFailed(f"{Path(path).name}: {cause}", **details, warnings=log.warnings) from problem
    module: torch.nn.Module = found.module.eval()
    outputs = {f"{ROOT}.{name}": dtype for name, dtype in found.outputs.items()}
    module.__dict__.update(declared=Declared(found.inputs, outputs, {}, found.called), said=log.warnings)
    return module
