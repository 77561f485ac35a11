"""The variables of a SavedModel: a TensorFlow checkpoint in its folder `variables`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from tensoraudit.artifacts.saved_model import PROTO, read_saved_model
from tensoraudit.checkpoints.schema import Observation, StoredCheckpoint
from tensoraudit.checkpoints.tensorflow_bundle import contents, read_bundle

_VARIABLES: Final = "variables"


def recognises(path: Path) -> bool:
    """Whether a folder is a SavedModel, or the file its `saved_model.pb`."""
    return (path / PROTO).is_file() or (path.name == PROTO and path.is_file())


def read(path: Path) -> StoredCheckpoint:
    """Read the headers of a SavedModel's variables. Raises InputError for damage.

    A SavedModel whose weights are constants of its graph has no tensors here, which is an observation.
    """
    root = path if path.is_dir() else path.parent
    model = read_saved_model(root)
    prefix = root / _VARIABLES / _VARIABLES
    about = {"signatures": sorted(model.signatures)[:100], "tags": model.tags[:100]}
    writer = f"TensorFlow {model.version}".strip()
    stored = StoredCheckpoint(path, root, "saved_model", "tensorflow", (PROTO,), (), writer=writer, metadata=about)
    if not prefix.parent.is_dir() or not any(prefix.parent.iterdir()):
        return replace(stored, observations=(_none(bool(model.operators)),))
    bundle = read_bundle(prefix, root)
    found = contents(bundle)
    return replace(stored, **{**found, "metadata": {**about, **found["metadata"]}, "files": (PROTO, *bundle.files)})


def _none(graph: bool) -> Observation:
    words = "its weights are constants of the graph, if it has any" if graph else "its graph is empty too"
    return Observation("no_tensors", "checkpoint", 0, f"The SavedModel has no variables; {words}.", PROTO)
