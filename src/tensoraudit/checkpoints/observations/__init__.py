"""What is worth saying about a checkpoint, topic by topic, from its headers alone.

A topic is a module with `observe(stored)`, `observe_diff(diff)` for what only two checkpoints show, or both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from tensoraudit.checkpoints.observations import (
    dtypes,
    ema,
    imports,
    keras_order,
    layout,
    optimizer,
    orbax,
    prefixes,
    quantised,
    resume_state,
    slices,
    statistics,
    ties,
)
from tensoraudit.checkpoints.schema import Observation, StoredCheckpoint

if TYPE_CHECKING:
    from tensoraudit.checkpoints.diff import CheckpointDiff

_OF_ONE: Final[tuple[Callable[[StoredCheckpoint], Iterator[Observation]], ...]] = (
    statistics.observe,
    orbax.observe,
    ema.observe,
    resume_state.observe,
    quantised.observe,
    imports.observe,
    prefixes.observe,
    slices.observe,
    optimizer.observe,
    ties.observe,
    dtypes.observe,
)  # fmt: skip

_OF_TWO: Final[tuple[Callable[[CheckpointDiff], Iterator[Observation]], ...]] = (
    statistics.observe_diff,
    layout.observe_diff,
    keras_order.observe_diff,
    ema.observe_diff,
)  # fmt: skip


def observe_all(stored: StoredCheckpoint) -> Iterator[Observation]:
    """Yield what the topics see in a checkpoint, those of the reader left out."""
    for observe in _OF_ONE:
        yield from observe(stored)


def observe_diff_all(diff: CheckpointDiff) -> Iterator[Observation]:
    """Yield what the topics see in two checkpoints side by side."""
    for observe in _OF_TWO:
        yield from observe(diff)
