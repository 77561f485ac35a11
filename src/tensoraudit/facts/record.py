"""How facts are declared when there are hundreds of thousands of them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Make a dataclass with slots that is frozen for type checkers and hashed by its values.

    A dataclass that is frozen at run time takes eight times as long to make, which was a fifth of reading a project.
    """
    made = dataclass(slots=True, unsafe_hash=True)(cls)
    first, *more = (field.name for field in fields(made))  # type: ignore[arg-type]
    values = attrgetter(first, *more) if more else (lambda fact: (getattr(fact, first),))

    def reduce(fact: Any) -> tuple[type[T], tuple[Any, ...]]:
        """Pickled as a call with its values: half the time of a state that is set slot by slot."""
        return made, values(fact)

    made.__reduce__ = reduce  # type: ignore[assignment, method-assign]
    return made
