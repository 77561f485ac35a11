"""Why exports from JAX fail, from the texts of its exceptions; tests/probes/jax/test_export.py provokes them."""

from types import SimpleNamespace

import numpy as np
import pytest

from tensoraudit.routes.failure import understand
from tensoraudit.routes.jax_causes import CAUSES, fixed_by

SYMBOLIC = "Symbolic dimension comparison 'batch' > '3' is inconclusive.\nThis error arises for comparison operations"


class InconclusiveDimensionOperation(Exception):
    pass


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "[custom_vjp] No plugins registered for primitive 'call_exported'",
            "a serialized jax.export program is one block",
        ),
        (
            "[converter] No plugins registered for primitive 'pure_callback'",
            "no translation for the operation pure_callback",
        ),
        ("eig currently supports only 1x1 (full) and 2x2 values-only matrices", "jax2onnx translates eig only for 1x1"),
        (SYMBOLIC, "the code compares it ('batch' > '3')"),
        ("Attempted boolean conversion of traced array with shape bool[].", "the Python code branches on a value"),
        (
            "The numpy.ndarray conversion method __array__() was called on traced array",
            "the model leaves JAX for NumPy",
        ),
        ("The __index__() method was called on traced array with shape int32[].", "known only when the model runs"),
        ("Abstract tracer value encountered where concrete value is expected", "known only when the model runs"),
        (
            "AvgPoolPlugin.get_monkey_patch.<locals>.patched() takes 1 positional argument but 3 were given",
            "replaces a function of Flax by its own",
        ),
        ("No module named 'jax2onnx'", "the exporter needs the package jax2onnx"),
        ("[Errno 28] No space left on device", "the disk is full"),
    ],
)
def test_known_texts(text, cause):
    failure = understand(Exception(text), table=CAUSES)
    assert failure.known and cause in failure.cause
    assert failure.remedy and "{" not in failure.cause + failure.remedy


def test_the_operation_is_named():
    failure = understand(Exception("No plugins registered for primitive 'pure_callback'"), table=CAUSES)
    assert failure.operator == "pure_callback"
    assert "register a plugin for pure_callback with jax2onnx" in failure.remedy


def test_an_unknown_text_is_quoted():
    failure = understand(ValueError("something new"), table=CAUSES)
    assert (failure.known, failure.cause) == (False, "ValueError: something new")


def test_dimensions_are_only_blamed_for_what_symbols_broke():
    request = SimpleNamespace(dynamic={"x": {0: "batch"}, "n": {0: "batch"}}, leaves={"x": np.zeros((3, 8)), "n": 2})
    assert fixed_by(InconclusiveDimensionOperation("a > b"), request) == {"x": {"0": 3}}
    assert fixed_by(ValueError("something else"), request) == {}
