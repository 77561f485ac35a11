"""What a pickled checkpoint wants to import beyond tensors and plain containers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tensoraudit.artifacts.globals import is_safe_for_torch
from tensoraudit.checkpoints.schema import Observation, StoredCheckpoint

_FORMATS: Final = frozenset({"torch_zip", "torch_legacy", "torch_sharded"})
"""Files that are read by `torch.load`; those of parallel jobs have globals of their own, which their loaders know."""
_MODULES: Final = "torch.nn.modules."
_MOST: Final = 100
_SHOWN: Final = 3


def observe(stored: StoredCheckpoint) -> Iterator[Observation]:
    """Yield `refused_imports` where `torch.load(weights_only=True)` refuses the file; the value are the globals."""
    if stored.format not in _FORMATS:
        return
    refused = [name for name in stored.all_imports if not is_safe_for_torch(name)]
    if refused:
        yield Observation("refused_imports", "checkpoint", refused[:_MOST], _told(refused))


def _told(refused: Sequence[str]) -> str:
    shown = ", ".join(refused[:_SHOWN])
    more = f" and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
    pickled = "a pickled module: " if any(name.startswith(_MODULES) for name in refused) else ""
    return f"The file holds {pickled}{shown}{more}, which torch.load refuses by default from 2.6 on"
