"""What a fix can do, and what became of it. Data only: this is all that the rule language needs to know of fixes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Dotted:
    """A value that is a name to import rather than a literal: `torch.float16`."""

    name: str

    @property
    def module(self) -> str:
        """The part that is imported: up to the first segment with a capital letter, and never the last segment."""
        *front, _ = self.name.split(".")
        first = next((index for index, part in enumerate(front) if part[:1].isupper()), len(front))
        return ".".join(front[:first])


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument as a verb names it. `index` is its position where no signature is known, None for keyword only."""

    name: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class SetArgument:
    """Give arguments a value: a literal (number, text, bool, None, list, dict of such) or a Dotted."""

    values: tuple[tuple[Parameter, Any], ...]


@dataclass(frozen=True, slots=True)
class RemoveArgument:
    """Leave arguments out."""

    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class RenameCall:
    """Call something else with the same arguments."""

    name: Dotted


@dataclass(frozen=True, slots=True)
class ReplaceImport:
    """Import from elsewhere: dotted names of modules, or of what is in them, to their new names."""

    names: Mapping[str, str]


Verb = SetArgument | RemoveArgument | RenameCall | ReplaceImport


@dataclass(frozen=True, slots=True)
class Fix:
    """A verb; `safe` tells that it keeps the meaning of every program that its rule speaks of."""

    verb: Verb
    safe: bool

    def __str__(self) -> str:
        return str(_WORDS[type(self.verb)](self.verb))


def _value(value: Any) -> str:
    return value.name if isinstance(value, Dotted) else repr(value)


_WORDS: Mapping[type, Any] = {
    SetArgument: lambda verb: "set " + ", ".join(f"{each.name}={_value(value)}" for each, value in verb.values),
    RemoveArgument: lambda verb: "remove " + ", ".join(each.name for each in verb.parameters),
    RenameCall: lambda verb: f"call {verb.name.name}",
    ReplaceImport: lambda verb: "import " + ", ".join(f"{new} for {old}" for old, new in verb.names.items()),
}


class Place(NamedTuple):
    """Where an expression or statement stands. Lines and columns (characters) count from 1, the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Edit:
    """A verb at a place. `callee` is what the call there resolves to, `written` how the source writes it."""

    verb: Verb
    place: Place
    callee: str = ""
    written: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """An edit is in the new text; `places` are where what it changed stands now."""

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """An edit cannot be made, or (`risky`) only when unsafe ones are allowed."""

    reason: str
    risky: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """An edit is of another kind than those that were made; it can be tried on the new text."""


Outcome = Done | Refused | Waiting


@dataclass(frozen=True, slots=True)
class Applied:
    """The new text, and what became of each edit, in their order."""

    text: str
    outcomes: tuple[Outcome, ...]


class CannotEdit(Exception):  # noqa: N818 - a reason, met and reported inside this room
    """An edit cannot be made; the message is the reason."""

    def __init__(self, reason: str, *, risky: bool = False) -> None:
        super().__init__(reason)
        self.risky = risky
