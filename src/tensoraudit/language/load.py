"""Reading folders of rules into one set, with every fault of every file at once. Knows nothing of facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tensoraudit.errors import RuleError, RuleProblem
from tensoraudit.language.compile import compile_rule
from tensoraudit.language.document import read_documents
from tensoraudit.language.index import RuleIndex
from tensoraudit.language.rule import Rule


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules in the order of their ids, with the index that finds those that may match a fact."""

    rules: tuple[Rule, ...]
    index: RuleIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", RuleIndex(self.rules))

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def get(self, name: str) -> Rule | None:
        """Return the rule of this id or alias."""
        return next((rule for rule in self.rules if name == rule.id or name in rule.aliases), None)


def rules_folder() -> Path:
    """Return the folder of the rules that come with tensoraudit: beside the code, or at the top of a checkout."""
    package = Path(__file__).parent.parent
    packaged = package / "_rules"
    return packaged if packaged.is_dir() else package.parent.parent / "rules"


def load_rules(folders: Sequence[Path]) -> RuleSet:
    """Load every `*.yaml` under the folders (or files). Raises RuleError with all problems of all files."""
    rules: list[Rule] = []
    problems: list[RuleProblem] = []
    for path in _files(folders):
        found, faults = read_rules(path)
        rules += found
        problems += faults
    problems += _twice(rules)
    if problems:
        raise RuleError(tuple(problems))
    return RuleSet(tuple(sorted(rules, key=lambda rule: rule.id)))


def read_rules(path: Path) -> tuple[list[Rule], list[RuleProblem]]:
    """Read the rules of one file, and what is wrong with the others in it."""
    shown = _shown(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return [], [RuleProblem(shown, 1, 1, f"cannot be read: {error}")]
    return parse_rules(text, shown)


def parse_rules(text: str, path: str = "rule.yaml") -> tuple[list[Rule], list[RuleProblem]]:
    """Compile the rules of a text; `path` names it in problems."""
    documents, problems = read_documents(text, path)
    rules = []
    for document in documents:
        rule, faults = compile_rule(document, path)
        problems += faults
        if rule is not None:
            rules.append(rule)
    return rules, problems


def _files(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        if folder.is_dir():
            yield from sorted(path for path in folder.rglob("*.yaml") if path.name != "pack.yaml")
        else:
            yield folder


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _twice(rules: Iterable[Rule]) -> Iterator[RuleProblem]:
    seen: dict[str, Rule] = {}
    for rule in rules:
        for name in (rule.id, *rule.aliases):
            first = seen.setdefault(name, rule)
            if first is not rule:
                text = f"id {name} is taken by {first.path}:{first.line}"
                yield RuleProblem(rule.path, rule.line, 1, text)
