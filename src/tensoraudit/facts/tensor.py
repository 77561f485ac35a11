"""Facts about stored weights, read from headers alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensoraudit.facts.record import record
from tensoraudit.facts.site import Side, Site


@record
class Tensor:
    """One stored tensor. `offset` and `bytes` count in `file`; `location` is "inline", "external", "zip" or "shard".

    Of one that is stored in several pieces `file` holds the first, `bytes` counts all, and `offset` is None.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: str
    offset: int | None
    bytes: int
    location: str
    at: Site
    side: Side


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A file or folder of weights. `imports` are the globals that its pickle wants to import."""

    format: str
    files: tuple[str, ...]
    imports: tuple[str, ...]
    metadata: Mapping[str, Any]
    at: Site
    side: Side
