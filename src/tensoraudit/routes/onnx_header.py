"""Read back what a route wrote: inputs, outputs, opset. The file is what counts, not what was asked for."""

from __future__ import annotations

from typing import Any

Dims = dict[str, list[Any]]


def read_header(path: str) -> dict[str, Any]:
    """Return {"opset", "opsets", "ir_version", "inputs", "outputs"}; inputs and outputs map names to their dimensions
    (int, name, or None when it is not known). Weights are not read. Raises what onnx.load raises."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    initializers = {each.name for each in model.graph.initializer}
    opsets = {each.domain: int(each.version) for each in model.opset_import}
    return {
        "opset": opsets.get("", opsets.get("ai.onnx")),
        "opsets": opsets,
        "ir_version": int(model.ir_version),
        "inputs": {each.name: _dims(each) for each in model.graph.input if each.name not in initializers},
        "outputs": {each.name: _dims(each) for each in model.graph.output},
    }


def _dims(value: Any) -> list[Any]:
    dims = value.type.tensor_type.shape.dim
    return [int(each.dim_value) if each.HasField("dim_value") else each.dim_param or None for each in dims]


def dynamic_written(inputs: Dims) -> dict[str, dict[str, str]]:
    """Return the dimensions of inputs that the file leaves open, as {name: {axis: label}}."""
    found = {
        name: {str(axis): str(dim or "?") for axis, dim in enumerate(dims) if not isinstance(dim, int)}
        for name, dims in inputs.items()
    }
    return {name: axes for name, axes in found.items() if axes}
