"""A model as the jobs see it: loaded, with its signature and its own samples; kept warm in the session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tensoraudit.probes.protocol import Session
from tensoraudit.probes.pytorch.arguments import Signature, signature_of
from tensoraudit.probes.pytorch.loaded import Loaded
from tensoraudit.probes.pytorch.loading import load
from tensoraudit.probes.pytorch.samples import Sample, containers, read_samples
from tensoraudit.probes.pytorch.tensors import get


@dataclass(frozen=True)
class Model:
    """`signature` knows the containers of the samples; `attribute` is the factory's name."""

    loaded: Loaded
    signature: Signature
    samples: tuple[Sample, ...]
    attribute: str


def open_model(session: Session, spec: Mapping[str, Any]) -> Model:
    """Load a spec's model, or take it from the session. Raises JobFailed."""
    loaded = load(session, spec)
    warm = session.cache.get("pytorch.opened")
    if warm is not None and warm.loaded is loaded:
        return warm  # type: ignore[no-any-return]
    signature = signature_of(loaded.module)
    attribute = str(spec.get("attribute") or "")
    samples = tuple(read_samples(loaded, signature, attribute))
    known = {**signature.containers, **containers(list(samples))}
    session.cache["pytorch.opened"] = Model(loaded, replace(signature, containers=known), samples, attribute)
    return session.cache["pytorch.opened"]  # type: ignore[no-any-return]


def read_input(session: Session, sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flat leaves of a sample as jobs carry it."""
    return {name: get(session, reference) for name, reference in sample["arrays"].items()}
