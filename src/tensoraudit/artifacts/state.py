"""Whether an artifact can be run as it is: which of them are no model, and which would run code that they store."""

from __future__ import annotations

from typing import Final

from tensoraudit.artifacts.artifact import Artifact
from tensoraudit.errors import InputError

_SHOWN: Final = 12


def require_model(artifact: Artifact, model_option: str | None, trust: bool) -> None:
    """Raise InputError when the artifact is no model, or would run code of its own without leave.

    1. A state_dict needs `--model FACTORY`, whatever else it is.
    2. A pickled module runs the code that it names, so it needs `--trust`.
    3. So does a state_dict or an ExportedProgram whose pickles import more than tensors need.
    """
    if artifact.format == "state_dict" and model_option is None:
        raise InputError(
            f"holds weights only ({describe_weights(artifact)}), no model",
            where=str(artifact.path),
            remedy="Name the function that builds the model with --model file.py:name; what the file holds is shown by "
            "`tensoraudit checkpoint show`.",
        )
    if trust or not (artifact.format == "pickled_module" or artifact.imports):
        return
    what, remedy = _UNTRUSTED[artifact.format]
    raise InputError(
        f"is {what}, and it asks for {_listed(artifact.imports)}",
        where=str(artifact.path),
        remedy=f"If you trust where it comes from, add --trust; else {remedy}.",
    )


_STATE: Final = "save model.state_dict() alone and name its factory with --model file.py:name"
_SOURCE: Final = "build the model from its own source, file.py:name"
_RUNS: Final = ": loading it can run any code"
_UNTRUSTED: Final = {
    "pickled_module": (f"a pickled module{_RUNS}", _STATE),
    "state_dict": (f"a checkpoint that holds more than tensors{_RUNS}", _STATE),
    "exported_program": (f"an ExportedProgram that holds more than tensors{_RUNS}", "export the model again"),
    "keras": (f"a Keras model with more than Keras's own layers{_RUNS}", _SOURCE),
    "saved_model": ("a SavedModel whose operators use files: running it can read and write them", _SOURCE),
}


def describe_weights(artifact: Artifact) -> str:
    """Return the weights of a checkpoint in words: `24 tensors, 1,423,616 parameters under key 'model_state'`."""
    details = artifact.details
    words = f"{details['tensors']:,} tensors, {details['parameters']:,} parameters"
    key = details.get("state_key")
    return f"{words} under key {key!r}" if key else words


def _listed(imports: tuple[str, ...]) -> str:
    names = ["a name that it computes" if name == "?" else name for name in imports]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "nothing") + more
