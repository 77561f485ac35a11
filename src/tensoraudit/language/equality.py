"""What it means that a value of a fact equals a constant of a rule. Knows nothing of YAML.

A value that is absent equals nothing; one that is not known may equal anything; a name equals no constant when it says
which object it is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from tensoraudit.facts import ABSENT, Name, Unknown
from tensoraudit.facts.store import FactStore
from tensoraudit.language.kleene import NO, UNKNOWN, Truth, all_of, truth

Test = Callable[[Any, FactStore], Truth]
"""Asks one value; the store tells names of outside modules from local ones."""

EXACT = frozenset({str, int, bool})
"""Types that are equal or not, with nothing between."""


def known(answer: Callable[[Any], Truth]) -> Test:
    """Return the test that answers no on an absent value, unknown on one not known, and else asks `answer`."""

    def test(value: Any, store: FactStore) -> Truth:
        if value is ABSENT:
            return NO
        if isinstance(value, Unknown | Name):
            return UNKNOWN
        return answer(value)

    return test


def equal(value: Any, wanted: Any, symbolic: bool = False) -> Truth:
    """Compare by value and type. `symbolic`: a text stands for a number that is not known (a dimension's name).

    Floats are compared after rounding to float32, the precision in which graphs store attributes: 0.1 in a rule is
    0.100000001 in a file.
    """
    kind = type(value)
    if kind is type(wanted) and kind in EXACT:
        return truth(value == wanted)
    if kind is Unknown or kind is Name:
        return UNKNOWN
    if isinstance(wanted, tuple):
        if not isinstance(value, list | tuple) or len(value) != len(wanted):
            return NO
        return all_of(equal(one, other, symbolic) for one, other in zip(value, wanted, strict=True))
    if symbolic and isinstance(value, str) and type(wanted) is int:
        return UNKNOWN
    if kind is not type(wanted):
        return NO
    return truth(value == wanted or (kind is float and _rounded(value) == _rounded(wanted)))


def _rounded(number: float) -> bytes:
    try:
        return struct.pack("<f", number)
    except OverflowError:  # finite, but too large for float32
        return struct.pack("<d", number)


def equal_to(wanted: Any, symbolic: bool) -> Test:
    """Return the test for equality with one constant (see `equal`)."""

    def test(value: Any, store: FactStore) -> Truth:
        if value is ABSENT or (isinstance(value, Name) and says_which(value, store)):
            return NO
        return equal(value, wanted, symbolic)

    return test


def among(words: frozenset[tuple[type, Any]]) -> Test:
    """Test for one of several constants by a look-up: lists of operators and dtypes are long and asked often."""

    def test(value: Any, store: FactStore) -> Truth:
        kind = type(value)
        if kind in EXACT:
            return truth((kind, value) in words)
        if kind is Name:
            return NO if says_which(value, store) else UNKNOWN
        return UNKNOWN if kind is Unknown else NO

    return test


def says_which(name: Name, store: FactStore) -> bool:
    """Tell whether a name says which object it is: an attribute of a module from outside the project, or a function or
    class of the project. A variable, the result of a call or an item may be any object."""
    plain = not {"(", "["} & set(name.name)
    return plain and (store.code.is_external(name.name) or store.code.is_defined(name.name))
