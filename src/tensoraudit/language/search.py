"""`exists` and `absent`: is there another fact, and where. Knows nothing of YAML.

Every place is reached by a look-up, and what does not depend on the anchor is asked once and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tensoraudit.facts import ABSENT, Checkpoint, Fact, Name, Node, Site, Tensor, Unknown, Value
from tensoraudit.facts.call_graph import Reach
from tensoraudit.facts.graph_index import model_file
from tensoraudit.facts.store import ENVIRONMENT_KINDS, FactStore, on_side, side_of, site_of
from tensoraudit.language.kleene import NO, UNKNOWN, YES, Truth
from tensoraudit.language.names import NamePattern
from tensoraudit.language.pattern import Context, Pattern, ask, bound_names, certainty_of_name

Getter = Callable[[Any, FactStore], Any]


@dataclass(frozen=True, slots=True)
class Search:
    """What to look for and where.

    `same` pairs a field of the other fact with one of the anchor; `order` is -1 for before and 1 for after; `side` is
    the other fact's side, None for the anchor's own, "" for any. `captured` tells that captures of the anchor take part
    anywhere inside, so that each anchor asks something else. `argument` are the keys of the argument of the anchor that
    the place `argument` looks into; with `known` one that is not known holds nothing, and what is not known is the
    same as nothing.
    """

    pattern: Pattern
    place: str
    same: tuple[tuple[Getter, Getter], ...] = ()
    order: int = 0
    side: str | None = None
    captured: bool = False
    argument: tuple[int | str, ...] = ()
    known: bool = False


@dataclass(frozen=True, slots=True)
class _Hit:
    fact: Fact
    answer: Truth


def exists(search: Search, anchor: Fact | None, context: Context) -> Truth:
    """Return the greatest answer over all other facts that the search can reach."""
    best = NO
    for hit in _hits(search, anchor, context):
        if hit.fact is anchor:
            continue
        if not _in_order(search.order, hit.fact, anchor):
            if search.same or not _both_ordered(hit.fact, anchor):
                continue
            break  # they stand in order, so that no later one can be on the right side
        if hit.answer is YES:
            return YES
        best = UNKNOWN
    if best is NO and search.pattern.kind in ENVIRONMENT_KINDS:
        return NO if context.store.environment_read(_side(search, anchor)) else UNKNOWN
    if best is NO and search.argument and not search.known and not _handed(search, anchor, context.store).known:
        return UNKNOWN
    return best


def _side(search: Search, anchor: Fact | None) -> str | None:
    if search.side is not None:
        return search.side or None
    return side_of(anchor) if anchor is not None else None


def _hits(search: Search, anchor: Fact | None, context: Context) -> Iterable[_Hit]:
    """Return the facts that answer at least unknown, before order is looked at."""
    place = _PLACES[search.place](anchor, context.store)
    side = _side(search, anchor)
    key = (id(search), place.base, side)
    groups = context.memo.get(key)
    if groups is None:
        groups = _grouped(search, place, side, context)
        if not search.captured:
            context.memo[key] = groups
    if search.argument:
        return _in_argument(search, groups, anchor, context.store)
    found = groups.get(place.own)
    if found is None:
        return ()
    if search.same:
        return _partners(search, found, anchor, context.store)
    hits: list[_Hit] = found
    return hits


def _in_argument(search: Search, groups: Mapping[Hashable, Any], anchor: Any, store: FactStore) -> Iterator[_Hit]:
    """Return the facts in the function or object that an argument of the anchor holds."""
    handed = _handed(search, anchor, store)
    for place, sure in (*handed.scopes.items(), *handed.parts.items(), *handed.makers.items()):
        found = groups.get(place, ())
        hits = _partners(search, found, anchor, store) if search.same and found else found
        yield from hits if sure else (_Hit(hit.fact, UNKNOWN) for hit in hits)


def _handed(search: Search, anchor: Any, store: FactStore) -> Reach:
    return store.calls.handed(anchor, search.argument)


def _grouped(search: Search, place: _Place, side: str | None, context: Context) -> dict[Hashable, Any]:
    """Ask every candidate once and file it under each place that it stands in."""
    candidates = _candidates(search.pattern, place, side, context)
    if place.groups is None:
        # With `same` or an order any hit may be the one; without, two are enough: one may be the anchor itself.
        enough = None if search.same or search.order else 2
        groups: dict[Hashable, list[_Hit]] = {place.own: list(_asked(search, candidates, context, enough))}
    else:
        groups = {}
        for hit in _asked(search, candidates, context, None):
            for group in place.groups(hit.fact):
                groups.setdefault(group, []).append(hit)
    if search.order:
        for hits in groups.values():
            hits.sort(key=lambda hit: _position(hit.fact), reverse=search.order > 0)
    if search.same:
        return {group: _joined(search, hits, context.store) for group, hits in groups.items()}
    return dict(groups)


def _asked(search: Search, candidates: Iterable[Fact], context: Context, enough: int | None) -> Iterator[_Hit]:
    sure = 0
    names, conditions = bound_names(search.pattern, context), search.pattern.conditions
    for fact in candidates:
        answer = min(certainty_of_name(fact, names), ask(conditions, fact, context))
        if answer is NO:
            continue
        yield _Hit(fact, answer)
        sure += answer is YES
        if sure == enough:
            return


def _candidates(pattern: Pattern, place: _Place, side: str | None, context: Context) -> Iterator[Fact]:
    index = place.index(pattern.kind)
    names = bound_names(pattern, context)
    seen: set[int] = set()
    for key in matching_keys(names, index):
        for fact in index[key]:
            if on_side(fact, side) and id(fact) not in seen:
                seen.add(id(fact))
                yield fact


def matching_keys(names: Sequence[NamePattern], index: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of an index of facts by name that one of `names` matches; a key may come twice."""
    for name in names:
        if name.exact:
            if name.text in index:
                yield name.text
        else:
            yield from (key for key in index if name.match(key) is not None)


def _in_order(order: int, other: Fact, anchor: Fact | None) -> bool:
    if not order or anchor is None:
        return True
    ours, theirs = site_of(anchor), site_of(other)
    if ours.path != theirs.path:
        return False
    if _both_ordered(other, anchor):
        return (_position(other) - _position(anchor)) * order > 0
    first, second = (ours, theirs) if order > 0 else (theirs, ours)
    return _line(first) < _line(second)


def _line(site: Site) -> tuple[int, int]:
    return (site.cell or 0, site.line or 0)


def _both_ordered(other: Fact, anchor: Fact | None) -> bool:
    """Tell whether both have an order of evaluation, which says more than lines do."""
    return hasattr(other, "order") and hasattr(anchor, "order")


def _position(fact: Fact) -> int:
    order = getattr(fact, "order", None)
    return order if order is not None else site_of(fact).line or 0


# Partners that share the value of a field are found through a dictionary, or the work would be anchors times partners.


def _joined(search: Search, hits: list[_Hit], store: FactStore) -> dict[Hashable, list[_Hit]]:
    table: dict[Hashable, list[_Hit]] = {}
    for hit in hits:
        table.setdefault(_shared([theirs for theirs, _ in search.same], hit.fact, store), []).append(hit)
    return table


def _partners(search: Search, table: dict[Hashable, list[_Hit]], anchor: Any, store: FactStore) -> Iterator[_Hit]:
    ours = _shared([own for _, own in search.same], anchor, store)
    if ours is ABSENT or (ours is None and search.known):
        return
    if ours is None:
        # What the anchor holds is not known: any partner may be the one. All answer alike, and one may be itself.
        maybe = (_Hit(hit.fact, UNKNOWN) for key, hits in table.items() if key is not ABSENT for hit in hits)
        yield from maybe if search.order else islice(maybe, 2)
        return
    yield from table.get(ours, ())
    if not search.known:
        yield from (_Hit(hit.fact, UNKNOWN) for hit in table.get(None, ()))


def _shared(getters: Sequence[Getter], fact: Any, store: FactStore) -> Hashable:
    """Return the values to be compared: ABSENT when one is absent, None when one is not known."""
    values = [_comparable(getter(fact, store)) for getter in getters]
    if any(value is ABSENT for value in values):
        return ABSENT
    return None if any(isinstance(value, Unknown) for value in values) else tuple(values)


def _comparable(value: Any) -> Any:
    if isinstance(value, Name):
        return value.name
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


# Places


@dataclass(frozen=True, slots=True)
class _Place:
    """Where to look: an index of facts by name, and a key (`base`) that tells indexes apart. `groups` names the places
    that a fact of that index stands in, None when all stand in one; `own` is the anchor's."""

    base: Hashable
    index: Callable[[str], Mapping[str, list[Fact]]]
    groups: Callable[[Fact], Iterable[Hashable]] | None = None
    own: Hashable = None


def _project(anchor: Fact | None, store: FactStore) -> _Place:
    del anchor
    return _Place("project", store.keyed)


def _module(anchor: Fact | None, store: FactStore) -> _Place:
    path = site_of(anchor).path if anchor is not None else None
    return _Place(("module", path), lambda kind: store.in_file(kind, path))


def _scope_of_kind(scope_kind: str) -> Callable[[Fact | None, FactStore], _Place]:
    def place(anchor: Fact | None, store: FactStore) -> _Place:
        module = _module(anchor, store)
        scope = None if anchor is None else store.code.innermost(anchor, scope_kind)
        if scope is None:
            # Code outside any function runs with the module; code outside any class has no class to look into.
            return module if scope_kind == "function" else _Place("nowhere", lambda _: {})

        def groups(fact: Fact) -> Iterable[Hashable]:
            return (around.id for around in store.code.scopes_around(fact))

        return _Place((scope_kind, scope.at.path), module.index, groups, scope.id)

    return place


def _argument(anchor: Fact | None, store: FactStore) -> _Place:
    del anchor

    def groups(fact: Fact) -> Iterator[Hashable]:
        yield from (around.id for around in store.code.scopes_around(fact))
        part = store.calls.part(fact)
        if part is not None:
            yield part

    return _Place("argument", store.keyed, groups)


def _graph(anchor: Fact | None, store: FactStore) -> _Place:
    return _Place("graph", store.keyed, lambda fact: (_graph_key(fact),), _graph_key(anchor))


def _graph_key(fact: Fact | None) -> Hashable:
    return (side_of(fact), model_file(fact), fact.graph) if isinstance(fact, Node | Value) else None


def _model(anchor: Fact | None, store: FactStore) -> _Place:
    own = model_file(anchor) if anchor is not None else None
    return _Place("model", store.keyed, lambda fact: (model_file(fact),), own)


def _checkpoint(anchor: Fact | None, store: FactStore) -> _Place:
    if not isinstance(anchor, Tensor):
        return _Place("checkpoint", store.keyed)
    return _Place("files", store.keyed, lambda fact: (_files(fact, store),), _files(anchor, store))


def _files(fact: Fact, store: FactStore) -> Hashable:
    if isinstance(fact, Checkpoint):
        return frozenset(fact.files)
    return store.files_beside(fact) if isinstance(fact, Tensor) else None


_PLACES: Mapping[str, Callable[[Fact | None, FactStore], _Place]] = {
    "project": _project,
    "module": _module,
    "function": _scope_of_kind("function"),
    "class": _scope_of_kind("class"),
    "argument": _argument,
    "graph": _graph,
    "model": _model,
    "checkpoint": _checkpoint,
}
