"""Reading folders of rules into one set, with every fault of every file at once. Knows nothing of facts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path

from tensoraudit.collection import without_collection
from tensoraudit.errors import RuleError, RuleProblem
from tensoraudit.language.compile import compile_rule
from tensoraudit.language.document import read_documents, read_file
from tensoraudit.language.index import RuleIndex
from tensoraudit.language.pack_file import PACK_FILE, Pack, foreign_ids, read_packs
from tensoraudit.language.rule import Rule


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules in the order of their ids, with the index that finds those that may match a fact.

    `off` are rules that the user switched off: their names are known, and they are never asked.
    """

    rules: tuple[Rule, ...]
    off: tuple[Rule, ...] = ()
    index: RuleIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", RuleIndex(self.rules))

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def get(self, name: str) -> Rule | None:
        """Return the rule of this id or alias, switched off or not."""
        return next((rule for rule in (*self.rules, *self.off) if name == rule.id or name in rule.aliases), None)

    @property
    def names(self) -> dict[str, str]:
        """Every id and alias, those of rules that are switched off too, with the id that it stands for."""
        return {name: rule.id for rule in (*self.rules, *self.off) for name in (rule.id, *rule.aliases)}


_EXAMPLES = "\nexamples:\n"
_AT_THE_MARGIN = re.compile(r"\n[^\s#]")
"""Another key, a list that is not indented, or another document."""


@cache
def rules_folder() -> Path:
    """Return the folder of the rules that come with tensoraudit: beside the code, or at the top of a checkout."""
    package = Path(__file__).parent.parent
    packaged = package / "_rules"
    return packaged if packaged.is_dir() else package.parent.parent / "rules"


def load_rules(folders: Sequence[Path], *, examples: bool = True) -> RuleSet:
    """Load every `*.yaml` under the folders (or files), each under its pack.yaml where it has one.

    Without `examples` those of the rules that come with tensoraudit are not read: half of the text, which an audit
    never asks for and our own tests have seen. A user's pack is always read as a whole.
    Raises RuleError with all problems of all files.
    """
    rules: list[Rule] = []
    problems: list[RuleProblem] = []
    with without_collection():
        for folder in folders:
            found, faults = _load_folder(folder, examples or folder != rules_folder())
            rules += found
            problems += faults
    problems += _twice(rules)
    if problems:
        raise RuleError(tuple(problems))
    return RuleSet(tuple(sorted(rules, key=lambda rule: rule.id)))


def _load_folder(folder: Path, examples: bool) -> tuple[list[Rule], list[RuleProblem]]:
    packs, problems = read_packs(folder)
    rules: list[Rule] = []
    for path in _files(folder):
        home = next((place for place in path.parents if place in packs), None)
        pack = packs[home] if home is not None else None
        # A pack that asks for another engine, or is wrong itself: what is in its rules would only hide that.
        if home is not None and pack is None:
            continue
        found, faults = read_rules(path, examples=examples)
        problems += faults if pack is None else [*faults, *foreign_ids(found, pack)]
        rules += (_placed(rule, path, folder, pack) for rule in found)
    if not rules and not problems:  # asking nothing would read as a pass
        problems.append(RuleProblem(_shown(folder), 1, 1, "there is no rule in it; rules are files *.yaml"))
    return rules, problems


def _placed(rule: Rule, path: Path, folder: Path, pack: Pack | None) -> Rule:
    """Put pack and category into a rule: `<pack>/<category>/<file>` in the rules that come with tensoraudit, the
    folder's own name for one without a pack.yaml."""
    if pack is not None:
        return replace(rule, pack=pack.name, category=_between(pack.folder, path.parent))
    if not folder.is_dir():
        return replace(rule, pack=path.parent.name)
    inside = _between(folder, path.parent)
    if folder != rules_folder():
        return replace(rule, pack=_name_of(folder), category=inside)
    first, _, category = inside.partition("/")
    return replace(rule, pack=first, category=category)


@cache
def _name_of(folder: Path) -> str:
    """Return the folder's own name, also of `.`. Asked of each rule, so the disk is looked at once."""
    return folder.resolve().name


@lru_cache(64)
def _between(folder: Path, home: Path) -> str:
    inside = home.relative_to(folder).as_posix()
    return "" if inside == "." else inside


def read_rules(path: Path, *, examples: bool = True) -> tuple[list[Rule], list[RuleProblem]]:
    """Read the rules of one file, and what is wrong with the others in it."""
    shown = _shown(path)
    try:
        text = read_file(path)
    except (OSError, UnicodeDecodeError) as error:
        return [], [RuleProblem(shown, 1, 1, f"cannot be read: {error}")]
    return parse_rules(text, shown, examples=examples)


def parse_rules(text: str, path: str = "rule.yaml", *, examples: bool = True) -> tuple[list[Rule], list[RuleProblem]]:
    """Compile the rules of a text; `path` names it in problems."""
    documents, problems = read_documents(text if examples else _before_examples(text), path)
    rules = []
    for document in documents:
        rule, faults = compile_rule(document, path, examples=examples)
        problems += faults
        if rule is not None:
            rules.append(rule)
    return rules, problems


def _before_examples(text: str) -> str:
    """Return the text up to its examples, where these are what it ends with."""
    end = text.find(_EXAMPLES)
    return text if end < 0 or _AT_THE_MARGIN.search(text, end + len(_EXAMPLES) - 1) else text[:end]


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return [folder]
    return sorted(path for path in folder.rglob("*.yaml") if path.name != PACK_FILE)


def _shown(path: Path) -> str:
    here = str(Path.cwd()).rstrip(os.sep)
    return str(path).removeprefix(f"{here}{os.sep}")


def _twice(rules: Iterable[Rule]) -> Iterator[RuleProblem]:
    seen: dict[str, Rule] = {}
    for rule in rules:
        for name in (rule.id, *rule.aliases):
            first = seen.setdefault(name, rule)
            if first is not rule:
                text = f"id {name} is taken by {first.path}:{first.line}"
                yield RuleProblem(rule.path, rule.line, 1, text)
