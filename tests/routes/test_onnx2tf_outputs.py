from types import SimpleNamespace

import numpy as np
import pytest

from tensoraudit.routes import onnx_to_tensorflow_onnx2tf as route

ONE, TWO = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
SOURCE = route.Source(None, {"x": ONE}, {"first": ONE, "second": TWO}, {})
MODEL = SimpleNamespace(inputs=[SimpleNamespace(dtype=np.dtype("float32"))])
ATTEMPT = route.Attempt("file", simplify=False)


@pytest.fixture
def gives(monkeypatch):
    monkeypatch.setattr(route, "_tensor", lambda array: array)
    return lambda values: monkeypatch.setattr(route, "call", lambda model, tensors: values)


@pytest.mark.parametrize("values", [[], [TWO], [ONE, ONE, TWO]])
def test_a_model_with_another_number_of_outputs_is_no_conversion(gives, values):
    gives(values)
    with pytest.raises(route.ConversionError, match=f"has {len(values)} outputs, the file 2"):
        route._measured(MODEL, SOURCE, ATTEMPT)


def test_a_model_with_all_outputs_is_measured(gives):
    gives([ONE, TWO])
    assert route._measured(MODEL, SOURCE, ATTEMPT).distance == 0.0
