"""What differs between the packages of two interpreters, and which rules speak of that. Starts and runs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion

from tensoraudit.language.document import Items, Leaf, Table, Tree
from tensoraudit.language.rule import Rule

FIRST = ("torch", "tensorflow", "keras", "jax", "jaxlib", "flax", "onnxruntime", "onnx", "numpy", "python")
"""What is named before all others, in this order; the rest follow by name."""

FAMILIES: Mapping[str, str] = {"onnxruntime-gpu": "onnxruntime", "tensorflow-cpu": "tensorflow"}
"""Distributions that install the package of another one."""

TITLES: Mapping[str, str] = {"torch": "PyTorch", "tensorflow": "TF", "onnxruntime": "ONNX Runtime"}
"""How the `versions` of rules call a package beside its name."""


@dataclass(frozen=True, slots=True)
class Change:
    """A package with its versions on the two sides; "" where it is not installed."""

    name: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.name} {self.old or '(none)'} -> {self.new or '(none)'}"


@dataclass(frozen=True, slots=True)
class Crossing:
    """A rule with a range of versions of a package that holds on one side only. `holds` is "old" or "new"."""

    rule: str
    title: str
    change: Change
    range: str
    holds: str

    def __str__(self) -> str:
        inside = getattr(self.change, self.holds)
        where = "before" if self.holds == "old" else "after"
        return f"{self.rule} ({self.title}) speaks of {self.change.name}{self.range}: that is {inside}, the one {where}"


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[Change, ...]:
    """Return every package whose version differs, the frameworks first.

    Where two distributions install one package (`onnxruntime` and `onnxruntime-gpu`), it is that package which has a
    version; which distribution it comes from is a change of its own.
    """
    before, after = _by_package(old), _by_package(new)
    names = sorted(before.keys() | after.keys(), key=lambda name: (_place(name), name))
    return tuple(
        Change(name, before.get(name, ""), after.get(name, "")) for name in names if before.get(name) != after.get(name)
    )


def _by_package(packages: Mapping[str, str]) -> dict[str, str]:
    found = {name: version for name, version in packages.items() if name not in FAMILIES}
    for distribution, package in FAMILIES.items():
        if distribution in packages and package not in packages:
            found[package] = packages[distribution]
            found[f"{package} (distribution)"] = distribution
        elif package in packages:
            found[f"{package} (distribution)"] = package
    return found


def _place(name: str) -> int:
    return FIRST.index(name) if name in FIRST else len(FIRST)


def crossings(rules: Iterable[Rule], found: Sequence[Change], source: str) -> tuple[Crossing, ...]:
    """Return the rules for models of `source` whose range of versions of a changed package holds on one side only."""
    by_name = {change.name: change for change in found}
    crossed = []
    for rule in _asked(rules, source):
        for name, text in _ranges(rule.document):
            if name in by_name and (holds := _one_side(text, by_name[name])):
                crossed.append(Crossing(rule.id, rule.title, by_name[name], text, holds))
    return tuple(dict.fromkeys(crossed))


def mentions(rules: Iterable[Rule], found: Sequence[Change], source: str) -> dict[str, list[str]]:
    """Return the ids of the rules for models of `source` that speak of each changed package, by package."""
    spoken: dict[str, list[str]] = {}
    asked = list(_asked(rules, source))
    for change in found:
        names = (change.name, TITLES.get(change.name, change.name))
        words = "|".join(map(re.escape, names))
        said = re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
        ids = [
            rule.id
            for rule in asked
            if said.search(rule.versions) or any(name == change.name for name, _ in _ranges(rule.document))
        ]
        if ids:
            spoken[change.name] = ids
    return spoken


def _asked(rules: Iterable[Rule], source: str) -> Iterator[Rule]:
    return (rule for rule in rules if not rule.deprecated and rule.concerns(source, ""))


def _ranges(tree: Tree) -> Iterator[tuple[str, str]]:
    """The packages that a rule's patterns name, and the range of each, "" for any version."""
    if isinstance(tree, Items):
        for item in tree.items:
            yield from _ranges(item)
    if not isinstance(tree, Table):
        return
    version = tree.items.get("version")
    text = str(version.value) if isinstance(version, Leaf) else ""
    for name in _names(tree.items.get("package")):
        yield name, text
    for key, value in tree.items.items():
        if key != "examples":
            yield from _ranges(value)


def _names(tree: Tree | None) -> Iterator[str]:
    leaves = tree.items if isinstance(tree, Items) else (tree,)
    yield from (str(leaf.value) for leaf in leaves if isinstance(leaf, Leaf))


def _one_side(text: str, change: Change) -> str:
    inside = {side: _within(text, getattr(change, side)) for side in ("old", "new")}
    return "" if inside["old"] == inside["new"] else next(side for side, holds in inside.items() if holds)


def _within(text: str, version: str) -> bool:
    try:
        return bool(text and version) and SpecifierSet(text).contains(version, prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return False
