"""From a model spec to a loaded model, kept warm in the session.

A spec is {"format", "path", "module", "attribute", "state_dict", "state_key", "trust", "seed", "code"}: enough for a
restarted worker to load the model again. `weights` ({name: tensor reference}) replaces weights of a loaded model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tensoraudit.probes.protocol import JobUnsupported, Session
from tensoraudit.probes.pytorch.devices import seed_everything
from tensoraudit.probes.pytorch.factories import load_python_object
from tensoraudit.probes.pytorch.keras_models import load_keras
from tensoraudit.probes.pytorch.loaded import Loaded, Spec
from tensoraudit.probes.pytorch.model_files import load_exported_program, load_pickled_module, load_torchscript
from tensoraudit.probes.pytorch.onnx_models import load_onnx2torch
from tensoraudit.probes.pytorch.replacement import with_weights
from tensoraudit.probes.pytorch.user_code import add_code

LOADERS: Mapping[str, Callable[[Spec], Loaded]] = {
    "torchscript": load_torchscript,
    "exported_program": load_exported_program,
    "pickled_module": load_pickled_module,
    "python_object": load_python_object,
    "onnx2torch": load_onnx2torch,
    "keras": load_keras,
    "keras_h5": load_keras,
}


def load(session: Session, spec: Spec) -> Loaded:
    """Return the model of a spec, from the session's cache when it was loaded before and its files are unchanged.

    Raises JobFailed with what, where and what to do.
    """
    key = "pytorch.model " + json.dumps([dict(spec), _stamps(spec)], sort_keys=True)
    if key not in session.cache:
        for old in [name for name in session.cache if name.startswith("pytorch.")]:
            del session.cache[old]  # one model at a time: two large ones do not fit under the memory limit
        session.progress("loading the model")
        made, weights = _load(spec), spec.get("weights")
        session.cache[key] = with_weights(made, weights, session) if weights else made
    loaded: Loaded = session.cache[key]
    return loaded


def _stamps(spec: Spec) -> list[Any]:
    files = [Path(path) for path in (spec.get("path"), spec.get("state_dict")) if path]
    return [(file.stat().st_mtime_ns, file.stat().st_size) if file.is_file() else None for file in files]


def _load(spec: Spec) -> Loaded:
    add_code(spec.get("code") or ())
    seed_everything(int(spec.get("seed") or 0))  # untrained weights are the same in every worker, however they are made
    loader = LOADERS.get(spec["format"])
    if loader is None:
        raise JobUnsupported(f"PyTorch runs no model of the format {spec['format']!r}")
    return loader(spec)
