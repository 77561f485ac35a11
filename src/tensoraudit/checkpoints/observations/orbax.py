"""What a restore of an orbax checkpoint without a target does not bring back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tensoraudit.checkpoints.schema import Observation, StoredCheckpoint

_OPTAX: Final = re.compile(r"^(?:(?P<tree>.*?)\.)?\d+\.(?P<field>mu|nu|trace)(\.|$)")
"""A field of an optax state: it stands in a namedtuple, which is an item of a tuple."""
_TORCH: Final = re.compile(r"^(?P<tree>.*?)\.?state\.\d+\.(?P<field>exp_avg|exp_avg_sq|momentum_buffer|step)$")
"""State of a torch optimiser, whose keys are integers."""


def observe(stored: StoredCheckpoint) -> Iterator[Observation]:
    """Yield `orbax_containers` and `orbax_digit_keys`, one for each subtree, and `orbax_devices`."""
    if stored.format != "orbax":
        return
    yield from _subtrees(
        stored, _OPTAX, "orbax_containers",
        "{tree} is an optax state ({fields}) without its classes: restored without a target it is lists of dicts.",
    )  # fmt: skip
    yield from _subtrees(
        stored, _TORCH, "orbax_digit_keys",
        "{tree} is the state of a torch optimiser ({fields}), whose integer keys are stored as texts.",
    )  # fmt: skip
    devices = stored.metadata.get("devices")
    if isinstance(devices, int) and devices > 1:
        told = f"The arrays were saved on {devices} devices, and their shardings name all of them."
        yield Observation("orbax_devices", "checkpoint", devices, told)


def _subtrees(stored: StoredCheckpoint, pattern: re.Pattern[str], kind: str, told: str) -> Iterator[Observation]:
    trees: dict[str, dict[str, None]] = {}
    for entry in stored.entries:
        found = pattern.match(entry.full_name)
        if found:
            trees.setdefault(found["tree"] or "checkpoint", {})[found["field"]] = None
    for tree, fields in trees.items():
        yield Observation(kind, tree, sorted(fields), told.format(tree=tree, fields=", ".join(sorted(fields))))
