"""From a model spec to a loaded model and its own samples, kept warm in the session."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tensoraudit.probes.calls import Signature
from tensoraudit.probes.protocol import JobUnsupported, Session
from tensoraudit.probes.samples import Beside, Dynamic, Sample, containers, dynamic_dims, own_samples
from tensoraudit.probes.tensorflow.keras_models import load_keras
from tensoraudit.probes.tensorflow.model import Model, narrowed
from tensoraudit.probes.tensorflow.python_objects import load_python_object
from tensoraudit.probes.tensorflow.replacement import with_weights
from tensoraudit.probes.tensorflow.saved_models import load_saved_model
from tensoraudit.probes.tensorflow.settings import seed_everything
from tensoraudit.probes.user_code import add_code

LOADERS: Mapping[str, Callable[[Mapping[str, Any]], Model]] = {
    "keras": load_keras,
    "keras_h5": load_keras,
    "saved_model": load_saved_model,
    "python_object": load_python_object,
}


@dataclass(frozen=True)
class Opened:
    """A model with the samples that stand beside its factory; the model's signature knows their containers."""

    model: Model
    samples: tuple[Sample, ...]
    dynamic: Dynamic


def open_model(session: Session, spec: Mapping[str, Any]) -> Opened:
    """Load a spec's model, or take it from the session. Raises JobFailed with what, where and what to do."""
    key = "tensorflow.model " + json.dumps([dict(spec), _stamp(spec)], sort_keys=True)
    if key not in session.cache:
        session.cache.clear()  # one model at a time: two large ones do not fit under the memory limit
        session.progress("loading the model")
        made, weights = _open(spec), spec.get("weights")
        session.cache[key] = replace(made, model=with_weights(made.model, weights, session)) if weights else made
    opened: Opened = session.cache[key]
    return opened


def _stamp(spec: Mapping[str, Any]) -> Any:
    path = Path(spec["path"]) if spec.get("path") else None
    return None if path is None or not path.exists() else (path.stat().st_mtime_ns, path.stat().st_size)


def _open(spec: Mapping[str, Any]) -> Opened:
    add_code(spec.get("code") or ())
    seed_everything(int(spec.get("seed") or 0))
    loader = LOADERS.get(spec["format"])
    if loader is None:
        raise JobUnsupported(f"TensorFlow runs no model of the format {spec['format']!r}")
    model = loader(spec)
    if model.home is None:
        return Opened(model, (), {})
    beside = Beside(model.home, model.factory, model.owner, str(spec.get("attribute") or ""), "tensorflow")
    samples = tuple(own_samples(beside, model.signature, to_leaf))
    known = {**model.signature.containers, **containers(list(samples))}
    signature = Signature(model.signature.arguments, known)
    return Opened(replace(model, signature=signature), samples, dynamic_dims(beside, list(samples)))


def to_leaf(value: Any) -> Any:
    """Return a leaf as jobs carry it: tensors become arrays, numpy scalars Python numbers.

    Raises TypeError for anything that is no leaf.
    """
    if tf.is_tensor(value) or isinstance(value, tf.Variable):
        return np.asarray(value)
    if isinstance(value, np.ndarray):
        return np.array(value, order="C")
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a {type(value).__name__} is no tensor, array, number, string or None")


def read_input(session: Session, sample: Mapping[str, Any], model: Model | None = None) -> dict[str, Any]:
    """Return the flat leaves of a sample: arrays of their own, and plain values; integers as the `model` takes them."""
    specs = model.specs if model else {}
    return {name: narrowed(_get(session, each), specs.get(name)) for name, each in sample["arrays"].items()}


def _get(session: Session, reference: Mapping[str, Any]) -> Any:
    if "value" in reference:
        return reference["value"]
    array = np.array(session.get(dict(reference)), order="C")
    logical = reference.get("logical")
    return array.astype(tf.as_dtype(logical).as_numpy_dtype) if logical else array
