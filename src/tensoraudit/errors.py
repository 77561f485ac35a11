"""Every error a user can meet.

    TensorauditError
    ├── UserError            exit code 2: the user's input is wrong; says what, where, what to do
    │   ├── InputError       a file, artifact or sample that cannot be used
    │   │   └── MismatchError    a checkpoint that does not fit the schema it was loaded with
    │   ├── ConfigError      an option or a key of [tool.tensoraudit]
    │   └── RuleError        a rule; carries path, line and column of each problem
    └── InternalError        exit code 4: a fault of tensoraudit itself

What happens inside a worker is no exception here: it is an `Outcome` with a status and a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class TensorauditError(Exception):
    """Base of everything that tensoraudit raises on purpose."""


class UserError(TensorauditError):
    """The input is wrong. `message` says what, `where` names the place, `remedy` what to do."""

    def __init__(self, message: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.message, self.where, self.remedy = message, where, remedy

    def __str__(self) -> str:
        head = f"{self.where}: {self.message}" if self.where else self.message
        return f"{head.rstrip('.')}. {self.remedy}" if self.remedy else head


class InputError(UserError):
    """A file, artifact or sample cannot be used."""


class MismatchError(InputError):
    """A checkpoint does not fit the schema; `events` are all that does not fit, as the audit log has them."""

    def __init__(self, message: str, *, where: str, remedy: str, events: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(message, where=where, remedy=remedy)
        self.events = tuple(events)


class ConfigError(UserError):
    """An option or a configuration key is wrong."""


@dataclass(frozen=True, slots=True)
class RuleProblem:
    """One thing wrong in a rule file; line and column count from 1."""

    path: str
    line: int
    column: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.text}"


class RuleError(UserError):
    """All problems of one or more rule files at once."""

    def __init__(self, problems: tuple[RuleProblem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the beginning of a remedy for an unknown word: `Did you mean 'high'? `, or nothing when none is near."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=1)
    return f"Did you mean {near[0]!r}? " if near else ""


class InternalError(TensorauditError):
    """Something that must not happen did."""
