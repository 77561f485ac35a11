"""A compiled rule: what it matches, what it says, how a probe decides. Data only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tensoraudit.fixes.verbs import Fix
from tensoraudit.language.document import Table
from tensoraudit.language.equality import Test
from tensoraudit.language.example import Example
from tensoraudit.language.pattern import Condition, Pattern
from tensoraudit.language.templates import Template


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the patterns of a rule, with the sentence that it says and what mends it: a verb, or words. `certainty` is
    its own, "" for the rule's. `refutable` is false where what it speaks of happens outside of what a probe runs."""

    pattern: Pattern
    message: Template
    fix: str | Fix = ""
    certainty: str = ""
    refutable: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """A test on the measurements of one metric. `subject` is a name pattern with placeholders; None: any subject."""

    metric: str
    value: Test | None
    subject: Template | None
    side: str | None
    detail: Test | None
    quantifier: Literal["any", "every"]


@dataclass(frozen=True, slots=True)
class Rows:
    """Several tests, joined by all or any."""

    join: Literal["all", "any"]
    parts: tuple[Row | Rows, ...]


@dataclass(frozen=True, slots=True)
class Confirm:
    """How a probe decides: its name, its parameters (texts may hold placeholders), and what each outcome looks like."""

    probe: str
    parameters: Mapping[str, Any]
    confirmed: Row | Rows
    refuted: Row | Rows


class Rest(NamedTuple):
    """What is asked only of a rule that matched, or is shown."""

    why: str
    remedy: str
    references: tuple[str, ...]
    confirm: Confirm | None


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. Texts are as written; `document` is its YAML with positions. `pack` and `category` say where it lies.

    `rest` gives what few rules of a large set are asked for, and may read it only then; `document` lacks it there.
    """

    id: str
    title: str
    severity: str
    layer: str
    certainty: str
    alternatives: tuple[Alternative, ...]
    when: tuple[Condition, ...]
    rest: Callable[[], Rest]
    examples: tuple[Example, ...]
    path: str
    line: int
    document: Table
    source: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    versions: str = ""
    fix: str | Mapping[str, Any] = ""
    aliases: tuple[str, ...] = ()
    deprecated: bool = False
    see_also: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()
    scan: bool = False
    pack: str = ""
    category: str = ""

    @property
    def why(self) -> str:
        """What happens."""
        return self.rest().why

    @property
    def remedy(self) -> str:
        """What to change."""
        return self.rest().remedy

    @property
    def references(self) -> tuple[str, ...]:
        """Where it is written."""
        return self.rest().references

    @property
    def confirm(self) -> Confirm | None:
        """How a probe decides; None where none can."""
        return self.rest().confirm

    def concerns(self, source: str, target: str) -> bool:
        """Tell whether the rule is asked in a migration between these frameworks; an empty name is any framework."""
        from_here = not self.source or not source or source in self.source
        return from_here and (not self.target or not target or target in self.target)
