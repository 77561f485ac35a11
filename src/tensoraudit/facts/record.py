"""How facts are declared when there are hundreds of thousands of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Make a dataclass with slots that is frozen for type checkers and hashed by its values.

    A dataclass that is frozen at run time takes eight times as long to make, which was a fifth of reading a project.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
