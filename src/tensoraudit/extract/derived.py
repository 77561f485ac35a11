"""Facts derived from facts by other packages: the entry points of the group `tensoraudit.extractors`.

An extractor is a function `(store: FactStore) -> Iterable[Fact]`. It is for what a rule cannot ask, such as a pattern
of nodes that branches and joins again: the function finds it and yields one Node that stands for it, and the rule
names that. Every extractor sees what was read, never what another one derived, so that their order changes nothing.
One that fails or yields something else than facts is an error of the installation, with the place in its code: a scan
without its facts would be silent about what its rules are there to find.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from itertools import islice
from pathlib import Path
from typing import Any, Final, get_args

from tensoraudit.errors import InputError
from tensoraudit.facts import Fact, Measurement, Side, Site
from tensoraudit.facts.store import KINDS, FactStore

GROUP: Final = "tensoraudit.extractors"
MAX_FACTS: Final = 1_000_000
"""Facts of one extractor. The largest graphs have some 100,000 nodes; a generator without an end must not take all
memory."""


@dataclass(frozen=True, slots=True)
class Extractor:
    """A function that derives facts; `origin` names it and its package for people."""

    origin: str
    function: Callable[[FactStore], Iterable[Fact]]


@cache
def installed_extractors() -> tuple[Extractor, ...]:
    """Load what is installed, in the order of names. Raises InputError for one that cannot be loaded."""
    found = sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    return tuple(_loaded(point) for point in found)


def _loaded(point: EntryPoint) -> Extractor:
    package = f" of {point.dist.name} {point.dist.version}" if point.dist is not None else ""
    origin = f"extractor '{point.name}'{package}"
    try:
        function = point.load()
    except (Exception, SystemExit) as error:
        raise _refused(origin, f"cannot be loaded from '{point.value}': {_told(error)}") from error
    if not callable(function):
        raise _refused(origin, f"is no function: '{point.value}' is a {type(function).__name__}")
    return Extractor(origin, function)


def complete_store(facts: Iterable[Fact]) -> FactStore:
    """Return the store of these facts and of what the installed extractors derive from them. Raises InputError."""
    store = FactStore(facts)
    derive(store, installed_extractors())
    return store


def derive(store: FactStore, extractors: Sequence[Extractor]) -> None:
    """Add what the extractors derive. Raises InputError for one that fails or yields something else than facts."""
    derived = [fact for extractor in extractors for fact in _facts(extractor, store)]
    store.add(derived, derived=True)


def _facts(extractor: Extractor, store: FactStore) -> Iterator[Fact]:
    try:
        facts = list(islice(extractor.function(store), MAX_FACTS + 1))
    except (Exception, SystemExit) as error:
        raise _refused(extractor.origin, f"failed: {_told(error)}") from error
    if len(facts) > MAX_FACTS:
        raise _refused(extractor.origin, f"yields more than {MAX_FACTS:,} facts")
    for number, fact in enumerate(facts, 1):
        fault = _fault(fact)
        if fault:
            raise _refused(extractor.origin, f"fact {number} of {len(facts)} is wrong: {fault}")
        yield fact


def _refused(origin: str, text: str) -> InputError:
    return InputError(f"{origin} {text}", remedy="Correct the package, or uninstall it.")


def _told(error: BaseException) -> str:
    """Return an error with the last place in code that it passed."""
    steps = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(steps[-1].filename).name}:{steps[-1].lineno})" if steps else ""
    return f"{type(error).__name__}: {error}{place}"


# What a fact must be, so that a wrong one fails here and not in the middle of a rule


def _is_texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, str) for item in value)


_FITS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: isinstance(value, int),
    "Site": lambda value: isinstance(value, Site),
    "Side": lambda value: value in get_args(Side),
    "tuple[str, ...]": _is_texts,
    "tuple[Value, ...]": lambda value: isinstance(value, tuple),
    "tuple[Block, ...]": lambda value: isinstance(value, tuple),
    "Mapping[str, Any]": lambda value: isinstance(value, Mapping),
    "Mapping[int | str, Any]": lambda value: isinstance(value, Mapping),
}
"""Checks by the type that the dataclass declares."""


def _fault(fact: Any) -> str:
    if type(fact) not in KINDS:
        return f"a {type(fact).__name__} is no fact"
    if isinstance(fact, Measurement):
        return "a Measurement is made by a probe, never derived"
    for field in fields(fact):
        fits = _FITS.get(str(field.type))
        if fits is not None and not fits(getattr(fact, field.name)):
            return f"{type(fact).__name__}.{field.name} is {getattr(fact, field.name)!r}, not {field.type}"
    return ""
