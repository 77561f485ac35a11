"""Where a Python value comes from, written as a dotted path: the small algebra that the readers of source share.

An *origin* is a text:

1. `torch.nn.Conv2d`: a name reached through imports, or defined in the file (then under the file's module name).
2. `torch.nn.Conv2d()`: a value made by calling that. `int()`, `str()`, `list()` are values of the built-in types.
3. `torch.nn.Conv2d().weight`, `x.shape[]`: an attribute, an element.
4. `self`, `self.conv`: the instance whose method is being read, and what is not known better on it.
5. `?`, `?.half`: not known, and an attribute of something not known.
6. `None`: the constant. It drops out as soon as another origin is possible, for using None would raise.

Several origins stand for "one of these". This module knows no scopes and no files.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

Origins = tuple[str, ...]

UNKNOWN: Origins = ("?",)
NOTHING: Origins = ("None",)

MOST_CANDIDATES = 4
"""More bindings than this say nothing a rule could use; the name is then simply not known."""

LONGEST = 300
"""Characters of an origin; chains beyond it are generated code, and would make the text quadratic in the source."""


def unite(groups: Sequence[Origins]) -> Origins:
    """Return every origin of `groups` once, in order; `?` alone when there are none or too many."""
    if len(groups) == 1 and len(groups[0]) == 1:
        return groups[0]
    merged = dict.fromkeys(origin for group in groups for origin in group)
    if len(merged) > 1:
        merged.pop("None", None)
    if not merged or len(merged) > MOST_CANDIDATES:
        return UNKNOWN
    return tuple(merged)


def attribute(origin: str, name: str) -> str:
    """Return the origin of attribute `name` of a value with `origin`, as far as the text alone tells."""
    if origin == "None" or len(origin) > LONGEST:
        return f"?.{name}"
    return f"{origin}.{name}"


def element(origin: str) -> str:
    """Return the origin of an item of a value with `origin`. What a call returned may hold anything."""
    if origin in ("?", "None") or origin.endswith("()") or len(origin) > LONGEST:
        return "?"
    return origin if origin.endswith("[]") else f"{origin}[]"


@lru_cache(1 << 14)
def callee(origin: str) -> str:
    """Return the name under which calling a value with `origin` is reported."""
    if origin in ("?", "None", "self") or origin.endswith(("()", "[]")):
        return f"{'?' if origin == 'None' else origin}.__call__"
    return origin


@lru_cache(1 << 14)
def is_path(origin: str) -> bool:
    """Tell whether `origin` is reached through imports and definitions alone: no instance, no call, nothing unknown."""
    return not (origin.startswith("?") or "()" in origin or "[]" in origin or origin == "None" or is_own(origin))


def is_own(origin: str) -> bool:
    """Tell whether `origin` is the instance or something on it."""
    return origin == "self" or origin.startswith("self.")
