"""What refusals of converters become in words; tests/probes/*/test_convert*.py provoke the converters' own texts."""

import sys
import types

import pytest

from tensoraudit.routes import torch_to_jax_torchax as torchax_route
from tensoraudit.routes.conversion_causes import KERAS, ONNX2TORCH, ONNX_PROGRAM, TORCHAX, refusal
from tensoraudit.routes.keras_backend import BackendTakenError, keras_on
from tensoraudit.routes.onnx_to_torch_onnx2torch import identifiers, torchvision_stand_in


@pytest.mark.parametrize(
    ("table", "text", "operator", "cause"),
    [
        (
            ONNX2TORCH,
            "Converter is not implemented (OperationDescription(domain='', operation_type='LSTM', version=7))",
            "LSTM node 'a'",
            "onnx2torch has no translation for the operator LSTM (version 7)",
        ),
        (
            ONNX2TORCH,
            '"allowzero=1" is not implemented',
            "Reshape node 'r'",
            "onnx2torch translates Reshape node 'r' only in part",
        ),
        (
            ONNX_PROGRAM,
            "Could not guard on data-dependent expression Eq(u0, 1)",
            "Range node 'r'",
            "Range node 'r' takes a size",
        ),
        (
            TORCHAX,
            "Attempting to convert unknown type: torch.quint8 to jax type,",
            "",
            "torchax has no JAX dtype for torch.quint8",
        ),
        (
            TORCHAX,
            "aten.foo.default\n\nWhile executing %foo",
            "aten.foo.default",
            "torchax has no JAX translation for the operator",
        ),
        (
            TORCHAX,
            "An overflow was encountered while parsing an argument to a jitted computation, whose argument path is y. "
            "Got <class 'int'> with value 1099511627776",
            "",
            "the integer 1099511627776 of the program does not fit into int32",
        ),
        (
            TORCHAX,
            "'NoneType' object has no attribute 'get_and_rotate_prng_key'",
            "",
            "the program draws random numbers",
        ),
        (KERAS, "Could not locate class 'Mine'. Make sure", "", "the file names Mine, which is not Keras's own"),
        (KERAS, "keras was imported with the backend tensorflow, not torch", "", "Keras already runs on tensorflow"),
        (KERAS, "No module named 'h5py'", "", "Keras needs the package h5py"),
    ],
)
def test_known_causes(table, text, operator, cause):
    found, details = refusal(RuntimeError(text), table, "translate", operator=operator)
    assert found.startswith(cause)
    assert details["known"] and details["stage"] == "translate" and details["remedy"]


def test_an_unknown_cause_is_quoted():
    found, details = refusal(ValueError("something else"), KERAS, "load")
    assert found == "ValueError: something else" and not details["known"]


def test_keras_on_another_backend_is_refused(monkeypatch):
    taken = types.ModuleType("keras")
    taken.backend = types.SimpleNamespace(backend=lambda: "tensorflow")
    monkeypatch.setitem(sys.modules, "keras", taken)
    with pytest.raises(BackendTakenError, match="keras was imported with the backend tensorflow, not torch"):
        keras_on("torch")


def test_names_become_arguments():
    assert identifiers(["x", "a.b", "a:b", "1", "class"]) == ["x", "a_b", "a_b_", "input_1", "input_class"]


def test_the_stand_in_for_torchvision_does_not_stay(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.delitem(sys.modules, "torchvision.ops", raising=False)
    with torchvision_stand_in():
        from torchvision.ops import roi_align

        assert roi_align is None
    assert "torchvision.ops" not in sys.modules


def test_overloads_that_are_gone_have_a_stand_in_only_inside():
    import torch

    with torchax_route._gone_overloads():
        assert torch.ops.aten.add.dimname_that_never_was.name == "aten.add.dimname_that_never_was"
        assert torch.ops.aten.add.Tensor is not None
    with pytest.raises(AttributeError):
        torch.ops.aten.add.dimname_that_never_was  # noqa: B018
