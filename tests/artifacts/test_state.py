from __future__ import annotations

from pathlib import Path

import pytest

from tensoraudit.artifacts.artifact import Artifact, Format
from tensoraudit.artifacts.state import describe_weights, require_model
from tensoraudit.errors import InputError

WEIGHTS = {"tensors": 24, "parameters": 1_423_616, "state_key": "model_state"}


def artifact(format_: Format, imports: tuple[str, ...] = ()) -> Artifact:
    return Artifact("m.pt", format_, "pytorch", Path("m.pt"), imports=imports, details=WEIGHTS)


def test_a_state_dict_names_the_option_that_it_needs() -> None:
    with pytest.raises(InputError) as caught:
        require_model(artifact("state_dict"), None, trust=True)
    assert str(caught.value) == (
        "m.pt: holds weights only (24 tensors, 1,423,616 parameters under key 'model_state'), no model. "
        "Name the function that builds the model with --model file.py:name; what the file holds is shown by "
        "`tensoraudit checkpoint show`."
    )
    require_model(artifact("state_dict"), "model.py:build", trust=False)


def test_a_pickled_module_lists_what_it_imports() -> None:
    with pytest.raises(InputError) as caught:
        require_model(artifact("pickled_module", ("net.Net", "torch.nn.modules.linear.Linear")), None, trust=False)
    assert "it asks for net.Net, torch.nn.modules.linear.Linear" in str(caught.value)
    assert "--trust" in caught.value.remedy
    require_model(artifact("pickled_module", ("net.Net",)), None, trust=True)
    with pytest.raises(InputError, match="pickled module"):
        require_model(artifact("pickled_module"), None, trust=False)


def test_a_long_list_is_cut() -> None:
    names = tuple(f"a.b{i}" for i in range(30))
    with pytest.raises(InputError, match=r"a\.b11 and 18 more"):
        require_model(artifact("pickled_module", names), None, trust=False)


@pytest.mark.parametrize("format_", ["torchscript", "onnx", "python_object", "python_source", "exported_program"])
def test_what_runs_as_it_is(format_: Format) -> None:
    require_model(artifact(format_), None, trust=False)


def test_weights_in_words() -> None:
    plain = Artifact("m.pt", "state_dict", "pytorch", details={"tensors": 1, "parameters": 2, "state_key": None})
    assert describe_weights(plain) == "1 tensors, 2 parameters"
