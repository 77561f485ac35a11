"""JAX to ONNX by jax2onnx: a trace to a jaxpr, translated operation by operation, then an optimiser.

The road over TensorFlow (jax2tf, then tf2onnx) is none: jax2tf writes the whole model as one `XlaCallModule` operation,
which tf2onnx does not translate (jax 0.10, tf2onnx 1.17).
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

from tensoraudit.routes.request import Request


def export(request: Request, *, wide: bool = False) -> dict[str, Any]:
    """Write the ONNX file and return the options used.

    1. The model is called through its arrays alone, with the other arguments bound; so inputs and outputs have the
       names of the flat arguments and results.
    2. Dynamic dimensions are asked for by name; equal names are one symbol.
    3. `wide` asks for double precision. jax2onnx has one switch for the width of all types: with it every float
       becomes a double, without it 64-bit integers become 32-bit ones.

    Raises whatever jax2onnx and the traced model raise.
    """
    import jax
    from jax2onnx import to_onnx

    def flat(*tensors: Any) -> list[Any]:
        args, kwargs = request.refill(tensors)
        return list(jax.tree_util.tree_leaves(request.model(*args, **kwargs)))

    options: dict[str, Any] = {"enable_double_precision": wide, "export_mode": "standard"}
    if request.opset is not None:
        options["opset"] = request.opset
    to_onnx(
        flat,
        inputs=[_spec(request, name, leaf) for name, leaf in request.tensors.items()],
        input_names=list(request.tensors),
        output_names=list(request.outputs),
        return_mode="file",
        output_path=request.path,
        **options,
    )
    return {**options, "exporter": f"jax2onnx {metadata.version('jax2onnx')}"}


def _spec(request: Request, name: str, leaf: Any) -> Any:
    import jax

    dims = dict(enumerate(leaf.shape))
    dims.update({axis: label for axis, label in request.dynamic.get(name, {}).items() if axis in dims})
    return jax.ShapeDtypeStruct(tuple(dims.values()), leaf.dtype)


def more(request: Request, problem: BaseException) -> BaseException | None:
    """What jax2onnx and JAX raise says all that there is."""
    return None
