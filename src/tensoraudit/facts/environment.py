"""Facts about the two environments of a migration."""

from __future__ import annotations

from dataclasses import dataclass

from tensoraudit.facts.site import Side


@dataclass(frozen=True, slots=True)
class Package:
    """An installed distribution, under its normalised name."""

    name: str
    version: str
    side: Side


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable that frameworks read."""

    name: str
    value: str
    side: Side


@dataclass(frozen=True, slots=True)
class Device:
    """A device that a worker saw. `kind` is "cpu" or "cuda"."""

    kind: str
    name: str
    capability: str
    driver: str
    side: Side
