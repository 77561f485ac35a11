"""The two answers that are no values: known not to be there, and not known."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class _Absent(Enum):
    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent.ABSENT
"""The thing is known not to be there (an argument that was not passed). `None` stays an ordinary Python value."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that cannot be known statically, and why."""

    reason: str
