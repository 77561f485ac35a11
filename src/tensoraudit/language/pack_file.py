"""`pack.yaml`: what a folder of rules says of itself. Knows nothing of where packs are found.

name: acme            # how the configuration names it
prefix: ACME          # of every id in the folder
version: "1.4"
engine: ">=1,<2"      # versions of the rule language that its rules are written in
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from tensoraudit.errors import RuleProblem
from tensoraudit.language import problems as wrong
from tensoraudit.language.document import Table, Tree, read_documents, read_file
from tensoraudit.language.problems import Problems, Wrong, nearest
from tensoraudit.language.rule import Rule

ENGINE: Final = "1.0"
"""The version of the rule language. A new key or operator raises the second number; a change of meaning the first."""

PACK_FILE: Final = "pack.yaml"
DEFAULT: Final = "default"
"""The name of the rules that come with tensoraudit, which no other pack can have."""


@dataclass(frozen=True, slots=True)
class Pack:
    """A folder of rules under one prefix."""

    name: str
    prefix: str
    version: str
    engine: str
    folder: Path


def read_packs(folder: Path) -> tuple[dict[Path, Pack | None], list[RuleProblem]]:
    """Return the packs at and below a folder by their folder (None where a pack.yaml is wrong), and all problems."""
    packs: dict[Path, Pack | None] = {}
    problems: list[RuleProblem] = []
    for path in sorted(folder.rglob(PACK_FILE)) if folder.is_dir() else ():
        packs[path.parent], faults = read_pack(path)
        problems += faults
    return packs, problems


def read_pack(path: Path) -> tuple[Pack | None, list[RuleProblem]]:
    """Read one pack.yaml. Returns the pack only when nothing is wrong, else all problems."""
    shown = str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
    try:
        text = read_file(path)
    except (OSError, UnicodeDecodeError) as error:
        return None, [RuleProblem(shown, 1, 1, f"cannot be read: {error}")]
    documents, faults = read_documents(text, shown)
    if faults:
        return None, faults
    if len(documents) != 1:
        return None, [RuleProblem(shown, 1, 1, f"a pack.yaml is one mapping with {', '.join(_READERS)}")]
    problems = Problems(shown)
    pack = _compiled(documents[0], path.parent, problems)
    return (None if problems.found else pack), problems.found


def foreign_ids(rules: Sequence[Rule], pack: Pack) -> list[RuleProblem]:
    """Say which rules do not carry the prefix of their pack: two packs could otherwise take one id."""
    return [
        RuleProblem(
            rule.path, rule.line, 1, f"id {rule.id} is not of the pack '{pack.name}': its prefix is {pack.prefix}"
        )
        for rule in rules
        if rule.id.rpartition("-")[0] != pack.prefix
    ]


def _compiled(rows: Table, folder: Path, problems: Problems) -> Pack:
    for key in rows.items:
        if key not in _READERS:
            problems.add(rows.keys[key], f"a pack has no key '{key}'{nearest(str(key), _READERS)}")
    return Pack(folder=folder, **{key: _value(rows, key, read, problems) for key, read in _READERS.items()})


def _value(rows: Table, key: str, read: Callable[[Tree], str], problems: Problems) -> str:
    if key not in rows.items:
        problems.add(rows, f"the pack has no '{key}'")
        return ""
    return problems.guard(lambda: read(rows.items[key])) or ""


def _name(tree: Tree) -> str:
    word = wrong.text(tree, "the name of a pack")
    if not re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", word):
        raise Wrong(tree, f"'{word}' is no name of a pack; write small letters, digits and dashes, such as acme-pack")
    if word == DEFAULT:
        raise Wrong(tree, f"'{DEFAULT}' is the name of the rules that come with tensoraudit; take another")
    return word


def _prefix(tree: Tree) -> str:
    word = wrong.text(tree, "prefix")
    if not re.fullmatch(r"[A-Z]+", word):
        raise Wrong(tree, f"'{word}' is no prefix; write capital letters, such as ACME for ACME-001")
    return word


def _version(tree: Tree) -> str:
    word = wrong.text(tree, "version")
    try:
        Version(word)
    except InvalidVersion:
        raise Wrong(tree, f"'{word}' is no version; write for example \"1.0\"") from None
    return word


def _engine(tree: Tree) -> str:
    word = wrong.text(tree, "engine")
    try:
        fits = SpecifierSet(word).contains(Version(ENGINE))
    except InvalidSpecifier:
        raise Wrong(tree, f"'{word}' is no range of versions; write for example \">=1,<2\"") from None
    if not fits:
        raise Wrong(tree, f"the pack needs version {word} of the rule language, and this tensoraudit has {ENGINE}")
    return word


_READERS: Final[Mapping[str, Callable[[Tree], str]]] = {
    "name": _name,
    "prefix": _prefix,
    "version": _version,
    "engine": _engine,
}
"""The keys of a pack.yaml, all required."""
