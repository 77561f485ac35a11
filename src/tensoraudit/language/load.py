"""Reading folders of rules into one set, with every fault of every file at once. Knows nothing of facts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from operator import attrgetter
from pathlib import Path

from tensoraudit.collection import without_collection
from tensoraudit.errors import RuleError, RuleProblem
from tensoraudit.language.compile import LATER, compile_rule
from tensoraudit.language.document import Table, read_documents, read_file
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


@dataclass(frozen=True, slots=True)
class Home:
    """Where the rules of one folder belong. `under` is their pack.yaml."""

    pack: str = ""
    category: str = ""
    under: Pack | None = None


_NOWHERE = Home()
_EXAMPLES = "\nexamples:\n"
_AT_THE_MARGIN = re.compile(r"\n[^\s#]")
"""Another key, a list that is not indented, or another document."""
_NEXT_KEY = re.compile(r"\n(?=[a-z])")
_LATER = tuple(f"{key}:" for key in LATER)


@cache
def rules_folder() -> Path:
    """Return the folder of the rules that come with tensoraudit: beside the code, or at the top of a checkout."""
    package = Path(__file__).parent.parent
    packaged = package / "_rules"
    return packaged if packaged.is_dir() else package.parent.parent / "rules"


def load_rules(folders: Sequence[Path], *, examples: bool = True) -> RuleSet:
    """Load every `*.yaml` under the folders (or files), each under its pack.yaml where it has one.

    Without `examples` those of the rules that come with tensoraudit are not read: half of the text, which an audit
    never asks for and our own tests have seen; and what it asks of few rules is read when it does. A user's pack is
    always read as a whole.
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
        return RuleSet(tuple(sorted(rules, key=attrgetter("id"))))


def _load_folder(folder: Path, examples: bool) -> tuple[list[Rule], list[RuleProblem]]:
    packs, problems = read_packs(folder)
    rules: list[Rule] = []
    here = f"{str(Path.cwd()).rstrip(os.sep)}{os.sep}"
    homes: dict[Path, Home | None] = {}
    for path in _files(folder):
        parent = path.parent
        if parent not in homes:
            homes[parent] = _home(parent, folder, packs)
        home = homes[parent]
        # A pack that asks for another engine, or is wrong itself: what is in its rules would only hide that.
        if home is None:
            continue
        found, faults = _read_rules(path, str(path).removeprefix(here), home, examples)
        rules += found
        problems += faults
    if not rules and not problems:  # asking nothing would read as a pass
        shown = str(folder).removeprefix(here)
        problems.append(RuleProblem(shown, 1, 1, "there is no rule in it; rules are files *.yaml"))
    return rules, problems


def _home(parent: Path, folder: Path, packs: Mapping[Path, Pack | None]) -> Home | None:
    """Return where the rules that lie in `parent` belong: `<pack>/<category>/<file>` in the rules that come with
    tensoraudit, the folder's own name for one without a pack.yaml. None where their pack.yaml is wrong."""
    place = next((place for place in (parent, *parent.parents) if place in packs), None) if packs else None
    if place is not None:
        pack = packs[place]
        return Home(pack.name, _between(pack.folder, parent), pack) if pack is not None else None
    if not folder.is_dir():
        return Home(parent.name)
    inside = _between(folder, parent)
    if folder != rules_folder():
        return Home(folder.resolve().name, inside)  # resolved because of `.`
    first, _, category = inside.partition("/")
    return Home(first, category)


def _between(folder: Path, home: Path) -> str:
    inside = home.relative_to(folder).as_posix()
    return "" if inside == "." else inside


def _read_rules(path: Path, shown: str, home: Home, examples: bool) -> tuple[list[Rule], list[RuleProblem]]:
    """Read the rules of one file, and what is wrong with the others in it."""
    try:
        text = read_file(path)
    except (OSError, UnicodeDecodeError) as error:
        return [], [RuleProblem(shown, 1, 1, f"cannot be read: {error}")]
    rules, problems = parse_rules(text, shown, examples=examples, home=home)
    return rules, problems if home.under is None else [*problems, *foreign_ids(rules, home.under)]


def parse_rules(
    text: str, path: str = "rule.yaml", *, examples: bool = True, home: Home = _NOWHERE
) -> tuple[list[Rule], list[RuleProblem]]:
    """Compile the rules of a text; `path` names it in problems. Without `examples` what only a rule that matched is
    asked for is read when it is."""
    now = text if examples else _part(text, later=False)
    documents, problems = read_documents(now, path)
    rules = []
    for number, document in enumerate(documents):
        later = None if examples else partial(_read_part, text, path, number)
        rule, faults = compile_rule(document, path, later=later, pack=home.pack, category=home.category)
        problems += faults
        if rule is not None:
            rules.append(rule)
    return rules, problems


def _read_part(text: str, path: str, number: int) -> Table:
    """Read what was left out of a text. Raises RuleError."""
    documents, problems = read_documents(_part(text, later=True), path)
    if problems:
        raise RuleError(tuple(problems))
    return documents[number]


def _part(text: str, later: bool) -> str:
    """Return the part of a text that is read at once or later, in the lines where it stands; never its examples. A text
    of several documents is not divided."""
    text = _before_examples(text)
    if "\n---" in text:
        return text
    sections = _NEXT_KEY.split(text)
    return "\n".join(each if each.startswith(_LATER) is later else "\n" * each.count("\n") for each in sections)


def _before_examples(text: str) -> str:
    """Return the text up to its examples, where these are what it ends with."""
    end = text.find(_EXAMPLES)
    return text if end < 0 or _AT_THE_MARGIN.search(text, end + len(_EXAMPLES) - 1) else text[:end]


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return [folder]
    return sorted(path for path in folder.rglob("*.yaml") if path.name != PACK_FILE)


def _twice(rules: Iterable[Rule]) -> Iterator[RuleProblem]:
    seen: dict[str, Rule] = {}
    for rule in rules:
        for name in (rule.id, *rule.aliases):
            first = seen.setdefault(name, rule)
            if first is not rule:
                text = f"id {name} is taken by {first.path}:{first.line}"
                yield RuleProblem(rule.path, rule.line, 1, text)
