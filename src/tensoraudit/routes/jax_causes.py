"""Why exports from JAX fail, as data: see `causes`. The texts are those of JAX 0.10 and jax2onnx 0.17.

tests/probes/jax/test_export.py provokes most of them.
"""

from __future__ import annotations

import re

from tensoraudit.routes.causes import CAUSES as COMMON
from tensoraudit.routes.causes import Cause
from tensoraudit.routes.request import Request
from tensoraudit.routes.source import Place, chain, frames, is_machinery, place


def _cause(pattern: str, cause: str, remedy: str) -> Cause:
    return Cause(re.compile(pattern, re.DOTALL), cause, remedy)


_NO_DETOUR = (
    "There is no detour over TensorFlow: jax2tf makes one XlaCallModule operation, which tf2onnx does not translate."
)
_BRANCH = (
    "Choose with jnp.where, jax.lax.cond or jax.lax.while_loop instead of Python, or decide outside of the model and "
    "pass the result in."
)
_SHARED = ("No space left on device", "maximum recursion depth", "protobuf size")
_NAMED = r"No module named '?(?P<module>[\w.]+)'?"

CAUSES: tuple[Cause, ...] = (
    _cause(
        r"No plugins registered for primitive 'call_exported'",
        "a serialized jax.export program is one block of StableHLO, which jax2onnx does not translate",
        f"Export the function itself: name a factory that returns it, as file.py:make_fn. {_NO_DETOUR}",
    ),
    _cause(
        r"No plugins registered for primitive '(?P<name>[\w-]+)'",
        "jax2onnx has no translation for the operation {name}",
        f"Write that step with operations that it knows, or register a plugin for {{name}} with jax2onnx. {_NO_DETOUR}",
    ),
    _cause(
        r"(?P<name>[\w-]+) (?:currently )?(?:only supports|supports only) (?P<what>[^\n]+)",
        "jax2onnx translates {name} only for {what}",
        f"Write that step with other operations. {_NO_DETOUR}",
    ),
    _cause(
        r"Symbolic dimension comparison (?P<what>[^\n]+?) is inconclusive",
        "a size was to vary, but the code compares it ({what}), so the trace would have to know it",
        "In that line do not branch on the size, or export with a fixed size and serve only that one.",
    ),
    _cause(
        r"Cannot (?:compute|divide|evaluate)[^\n]*(?:evenly|symbolic|stride)|InconclusiveDim|UnexpectedDimVar",
        "a size was to vary, but the code computes with it in a way that needs a number",
        "In that line take sizes from the arrays' own shapes (x.shape[0], -1 in reshape), or export with a fixed size.",
    ),
    _cause(
        r"TracerBoolConversionError|Attempted boolean conversion of traced array",
        "the Python code branches on a value that is known only when the model runs",
        _BRANCH,
    ),
    _cause(
        r"TracerArrayConversionError|__array__\(\) was called on traced array",
        "the model leaves JAX for NumPy, where the exporter cannot follow",
        "Write that step with jax.numpy, or do it before or after the model.",
    ),
    _cause(
        r"Concretization|Abstract tracer value encountered|TracerIntegerConversion|NonConcreteBooleanIndex"
        r"|__index__\(\) method was called",
        "the code needs a value while it is traced that is known only when the model runs",
        "Keep the value in an array (jnp.where, jnp.take, masks) instead of turning it into a Python number or a size.",
    ),
    _cause(
        r"get_monkey_patch\.<locals>\.(?P<name>\w+)\(\) (?:takes|got|missing)",
        "jax2onnx replaces a function of Flax by its own while it traces, and its own does not take these arguments",
        "In that line pass the arguments by keyword, as in nn.avg_pool(x, window_shape=..., strides=...).",
    ),
    _cause(
        _NAMED,
        "the exporter needs the package {module}, which this environment lacks",
        "Install {module} into the environment of the JAX worker.",
    ),
    *(entry for entry in COMMON if any(word in entry.pattern.pattern for word in _SHARED)),
)
"""The first pattern that matches wins."""

_SYMBOLIC = ("InconclusiveDimensionOperation", "UnexpectedDimVar")


def fixed_by(problem: BaseException, request: Request) -> dict[str, dict[str, int]]:
    """Return the dimensions that were to vary, with the sizes of the sample, if their being symbols is what failed."""
    if not any(type(each).__name__ in _SYMBOLIC or "symbolic" in str(each).lower() for each in chain(problem)):
        return {}
    return {
        name: {str(axis): int(request.leaves[name].shape[axis]) for axis in axes}
        for name, axes in request.dynamic.items()
        if hasattr(request.leaves.get(name), "shape")
    }


def operation_place(problem: BaseException) -> Place | None:
    """Return the user's line of the operation that jax2onnx was translating, which its own message leaves out."""
    for cause in reversed(chain(problem)):
        for frame, _ in reversed(list(frames(cause.__traceback__))):
            trace = getattr(getattr(dict(frame.f_locals).get("eqn"), "source_info", None), "traceback", None)
            for each in getattr(trace, "frames", ()):
                if not is_machinery(each.file_name):
                    return place(each.file_name, each.line_num)
    return None
