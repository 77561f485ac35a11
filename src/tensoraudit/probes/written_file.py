"""What a file that an exporter wrote says, beside what it was asked for. The export jobs of all frameworks share it."""

from __future__ import annotations

from typing import Any

from tensoraudit.probes.protocol import JobFailed
from tensoraudit.routes.onnx_header import dynamic_written, read_header
from tensoraudit.routes.request import Request


def describe_written(request: Request, remedy: str) -> dict[str, Any]:
    """Return opsets, names of inputs and outputs, and the dynamic dimensions as requested, as written, and as lost.

    Raises JobFailed, with `remedy`, when the file cannot be read back.
    """
    try:
        header = read_header(request.path)
    except Exception as problem:
        raise JobFailed(
            f"the exporter wrote a file that cannot be read back: {type(problem).__name__}: {problem}",
            stage="serialise",
            remedy=remedy,
        ) from problem
    requested = {name: {str(axis): label for axis, label in axes.items()} for name, axes in request.dynamic.items()}
    written = dynamic_written(header["inputs"])
    lost = {
        name: {axis: dim for axis, dim in axes.items() if axis not in written.get(name, {})}
        for name, axes in requested.items()
    }
    return {
        "path": request.path,
        "opset": header["opset"],
        "opset_written": header["opset"],
        "opsets": header["opsets"],
        "input_names": list(header["inputs"]),
        "inputs_dropped": [name for name in request.leaves if name not in header["inputs"]],
        "file_output_names": list(header["outputs"]),
        "dynamic_requested": requested,
        "dynamic_written": written,
        "dynamic_lost": {name: axes for name, axes in lost.items() if axes},
    }
