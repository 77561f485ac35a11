"""A folder with one file of `torch.save` under any name: `adapter_model.bin`, `last.ckpt`, `model.pth`.

Names do not decide, but for those of training state beside weights (`optimizer.pt`, `rng_state.pth`, ...). Of several
such files none is the checkpoint more than another: the user has to say which.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import Final

from tensoraudit.checkpoints import sharded_index, torch_file
from tensoraudit.checkpoints.hub_training import role_of
from tensoraudit.checkpoints.schema import StoredCheckpoint
from tensoraudit.errors import InputError

_ENDINGS: Final = (".bin", ".pt", ".pth", ".ckpt", ".tar", ".pkl")
_MOST_NAMES: Final = 200_000
_MOST_FILES: Final = 1_000
_MOST_NAMED: Final = 10


def recognises(path: Path) -> bool:
    """Whether the path is a folder with such a file. Never raises."""
    try:
        return path.is_dir() and any(torch_file.recognises(path / name) for name in _candidates(path))
    except OSError:
        return False


def read(path: Path) -> StoredCheckpoint:
    """Read the one file, with the state of training beside it. Raises InputError where there are several."""
    found = [name for name in _candidates(path) if torch_file.recognises(path / name)]
    if len(found) != 1:
        named = ", ".join(found[:_MOST_NAMED])
        named += f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        raise InputError(
            f"holds {len(found)} files of torch.save that are no shards of one checkpoint: {named}",
            where=str(path),
            remedy="Name one of them.",
        )
    return sharded_index.read_one(path, found[0])


def _candidates(path: Path) -> list[str]:
    with os.scandir(path) as there:
        names = sorted(each.name for each in islice(there, _MOST_NAMES))
    return [name for name in names if name.endswith(_ENDINGS) and not role_of(name)][:_MOST_FILES]
