"""Three-valued logic: no, unknown, yes. Knows nothing of facts or rules.

*and* is the least, *or* the greatest and *not* turns the ends round, in the order no < unknown < yes (Kleene's strong
logic).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class Truth(IntEnum):
    """An answer. Unknown is never read as a yes or a no."""

    NO = 0
    UNKNOWN = 1
    YES = 2


NO, UNKNOWN, YES = Truth.NO, Truth.UNKNOWN, Truth.YES
_NEGATED = (YES, UNKNOWN, NO)


def truth(value: bool) -> Truth:
    """Return yes for true and no for false."""
    return YES if value else NO


def negate(answer: Truth) -> Truth:
    """Turn yes and no round and leave unknown."""
    return _NEGATED[answer]


def all_of(answers: Iterable[Truth]) -> Truth:
    """Return the least answer; yes over nothing. Stops at the first no."""
    unknown = False
    for answer in answers:
        if answer is NO:
            return NO
        unknown |= answer is UNKNOWN
    return UNKNOWN if unknown else YES


def any_of(answers: Iterable[Truth]) -> Truth:
    """Return the greatest answer; no over nothing. Stops at the first yes."""
    unknown = False
    for answer in answers:
        if answer is YES:
            return YES
        unknown |= answer is UNKNOWN
    return UNKNOWN if unknown else NO
