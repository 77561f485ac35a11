"""From the name of a fact to the patterns that may match it. Work grows with candidates, not with rules times facts.

An exact name stands in a dictionary. A pattern stands in a dictionary under its literal beginning, or else under its
literal end, and a fact's name is looked up there by each length that occurs. What has neither (allowed for kinds of
which there are few, or by `scan: true`) is tried on every name. Each distinct name is looked up once, however many
facts have it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tensoraudit.facts.store import KEYS
from tensoraudit.language.names import NamePattern
from tensoraudit.language.pattern import Pattern
from tensoraudit.language.rule import Alternative, Rule


@dataclass(frozen=True, slots=True)
class Entry:
    """An alternative of a rule, as the index finds it."""

    rule: Rule
    alternative: Alternative


@dataclass(slots=True)
class _Names:
    """The patterns over one field of one kind."""

    exact: dict[str, list[tuple[NamePattern, Entry]]] = field(default_factory=lambda: defaultdict(list))
    prefixes: dict[str, list[tuple[NamePattern, Entry]]] = field(default_factory=lambda: defaultdict(list))
    suffixes: dict[str, list[tuple[NamePattern, Entry]]] = field(default_factory=lambda: defaultdict(list))
    loose: list[tuple[NamePattern, Entry]] = field(default_factory=list)
    prefix_lengths: set[int] = field(default_factory=set)
    suffix_lengths: set[int] = field(default_factory=set)

    def add(self, name: NamePattern, entry: Entry) -> None:
        row = (name, entry)
        match name.way:
            case "exact":
                self.exact[name.text].append(row)
            case "prefix":
                self.prefixes[name.prefix].append(row)
                self.prefix_lengths.add(len(name.prefix))
            case "suffix":
                self.suffixes[name.suffix].append(row)
                self.suffix_lengths.add(len(name.suffix))
            case "scan":
                self.loose.append(row)

    def candidates(self, key: str) -> Iterator[tuple[NamePattern, Entry]]:
        yield from self.exact.get(key, ())
        for length in self.prefix_lengths:
            yield from self.prefixes.get(key[:length], ())
        for length in self.suffix_lengths:
            yield from self.suffixes.get(key[-length:], ())
        yield from self.loose


def found_by(pattern: Pattern) -> tuple[str, tuple[NamePattern, ...]]:
    """Return the field that finds the anchors of a pattern, and its names: another field where the name cannot."""
    if pattern.finder is not None and any(name.loose for name in pattern.names):
        return pattern.finder
    return KEYS[pattern.kind], pattern.names


class RuleIndex:
    """The alternatives of all rules, by the kind and field that find their anchors."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._fields: dict[tuple[str, str], _Names] = defaultdict(_Names)
        for rule in rules:
            for alternative in rule.alternatives:
                self._add(Entry(rule, alternative))

    def _add(self, entry: Entry) -> None:
        pattern = entry.alternative.pattern
        by, names = found_by(pattern)
        for name in names:
            self._fields[pattern.kind, by].add(name, entry)

    def fields(self) -> Iterable[tuple[str, str]]:
        """Return the kinds and fields by which anchors are found."""
        return self._fields.keys()

    def lookup(self, kind: str, by: str, key: str) -> Iterator[tuple[Mapping[str, str], Entry]]:
        """Yield what matches `key`, with its captures, each alternative once."""
        seen: set[int] = set()
        for name, entry in self._fields[kind, by].candidates(key):
            if id(entry) in seen:
                continue
            captures = name.match(key)
            if captures is not None:
                seen.add(id(entry))
                yield captures, entry
