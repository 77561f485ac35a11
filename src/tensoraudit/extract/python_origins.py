"""Where a Python value comes from, written as a dotted path: the small algebra that the readers of source share.

An *origin* is a text:

1. `torch.nn.Conv2d`: a name reached through imports, or defined in the file (then under the file's module name).
2. `torch.nn.Conv2d()`: a value made by calling that. `int()`, `str()`, `list()` are values of the built-in types.
3. `torch.nn.Conv2d().weight`, `x.shape[]`: an attribute, an element.
4. `self`, `self.conv`: the instance whose method is being read, and what is not known better on it.
5. `?`, `?.half`: not known, and an attribute of something not known.
6. `None`: the constant. It drops out as soon as another origin is possible, for using None would raise.
7. `list()<torch.nn.Conv2d()>`: a container and what each of its items may be, alternatives after `|`; by position where
   that is known: `tuple()<a.A(),b.B(),>` (the last comma tells it from the former); `list()<>` is empty. A dict names
   what its values may be. Facts show the part before `<` alone.

Several origins stand for "one of these". This module knows no scopes and no files.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tensoraudit.facts.record import record

Origins = tuple[str, ...]


@record
class Bound:
    """What a name stands for. `literal` is its value where every reader may rely on it, else None; the value None
    itself is no use to a reader and counts as not relied on."""

    origins: Origins
    literal: object = None


UNKNOWN: Origins = ("?",)
NOTHING: Origins = ("None",)

MOST_CANDIDATES = 4
"""More bindings than this say nothing a rule could use; the name is then simply not known."""

LONGEST = 300
"""Characters of an origin; chains beyond it are generated code, and would make the text quadratic in the source."""


def unite(groups: Sequence[Origins]) -> Origins:
    """Return every origin of `groups` once, in order; `?` alone when there are none or too many."""
    if groups and len(groups[0]) == 1 and groups.count(groups[0]) == len(groups):
        return groups[0]
    merged = dict.fromkeys(origin for group in groups for origin in group)
    if len(merged) > 1:
        merged.pop("None", None)
        if any("<" in origin for origin in merged):
            merged = _one_per_head(merged)
    if not merged or len(merged) > MOST_CANDIDATES:
        return UNKNOWN
    return tuple(merged)


@lru_cache(1 << 14)
def attribute(origin: str, name: str) -> str:
    """Return the origin of attribute `name` of a value with `origin`, as far as the text alone tells."""
    if origin == "None" or len(origin) > LONGEST:
        return f"?.{name}"
    return f"{bare(origin)}.{name}"


def element(origin: str) -> str:
    """Return the origin of an item of a value with `origin`. What a call returned may hold anything."""
    if origin in ("?", "None") or origin.endswith("()") or len(origin) > LONGEST:
        return "?"
    return origin if origin.endswith("[]") else f"{origin}[]"


@lru_cache(1 << 14)
def callee(origin: str) -> str:
    """Return the name under which calling a value with `origin` is reported."""
    origin = bare(origin)
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


# containers

DICTS = frozenset({"dict()", "torch.nn.ModuleDict()", "collections.OrderedDict()", "collections.defaultdict()"})
"""Containers whose iteration gives keys, while `<...>` tells of values."""

_MOST_POSITIONS = 8
"""Items of a display that are told apart; those of a longer one are united."""


def bare(origin: str) -> str:
    """Return `origin` without what it holds."""
    return origin.partition("<")[0]


def each(head: str, items: Origins) -> str:
    """Return the origin of a container `head`, any item of which is one of `items` (none: it is empty)."""
    text = f"{head}<{'|'.join(items)}>"
    return head if items == UNKNOWN or len(text) > LONGEST else text


def holding(head: str, groups: Sequence[Origins]) -> str:
    """Return the origin of a container `head` with one item for each of `groups`, in order."""
    first = groups[0] if groups else ()
    if all(group == first for group in groups):
        return each(head, first)
    if len(groups) > _MOST_POSITIONS or head in DICTS:
        return each(head, unite(groups))
    text = f"{head}<{','.join(map('|'.join, groups))},>"
    return text if len(text) <= LONGEST else head


@lru_cache(1 << 12)
def held(origin: str) -> tuple[Origins, ...] | None:
    """Return the alternatives of each position, or of any item (one group), or () for an empty container; None where
    nothing is known."""
    if "<" not in origin:
        return None
    inside = origin.partition("<")[2]
    groups: list[list[str]] = [[""]]
    depth = 0
    for char in inside[:-1]:
        depth += (char == "<") - (char == ">")
        if depth == 0 and char == ",":
            groups.append([""])
        elif depth == 0 and char == "|":
            groups[-1].append("")
        else:
            groups[-1][-1] += char
    if len(groups) > 1:
        groups.pop()
    return () if groups == [[""]] else tuple(map(tuple, groups))


def told_apart(origins: Origins) -> tuple[Origins, ...]:
    """Return a group of alternatives for each item of a container that is known to the last, else one group."""
    if len(origins) == 1:
        if "<" not in origins[0]:
            return (origins,)
        groups = held(origins[0]) or ((bare(origins[0]),),)
        return tuple(one for group in groups for one in told_apart(group))
    if not any("<" in origin for origin in origins):
        return (origins,)
    return (tuple(dict.fromkeys(one for origin in origins for group in told_apart((origin,)) for one in group)),)


def has_positions(origin: str) -> bool:
    """Tell whether `origin` says what stands at each position."""
    return origin.endswith(",>")


def any_item(origin: str) -> Origins:
    """Return what an item of a container may be, whatever its place."""
    groups = held(origin)
    return unite(groups) if groups else UNKNOWN


def item(origin: str, step: str) -> Origins:
    """Return the origins of what is taken out of a value: `step` is a position written out (`0`), `*` for what an
    iteration gives, or "" for an item that is not known."""
    if "<" not in origin:
        return (element(origin),)
    if step == "*" and bare(origin) in DICTS:
        return UNKNOWN
    groups = held(origin) or ()
    if has_positions(origin) and step not in ("", "*"):
        position = int(step)
        return groups[position] if -len(groups) <= position < len(groups) else UNKNOWN
    return any_item(origin)


def _one_per_head(origins: dict[str, None]) -> dict[str, None]:
    """Return `origins` with the containers of one kind made one, holding what any of them holds."""
    heads: dict[str, list[str]] = {}
    for origin in origins:
        heads.setdefault(bare(origin), []).append(origin)
    return {same[0] if len(same) == 1 else _joined(head, same): None for head, same in heads.items()}


def _joined(head: str, same: list[str]) -> str:
    if head in same:  # one of them may hold anything
        return head
    if head == "functools.partial()" and any(map(has_positions, same)):
        return head
    inside = [group for origin in same for group in held(origin) or ()]
    return each(head, unite(inside) if inside else ())
