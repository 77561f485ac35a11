"""How a callable takes its arguments, from one version of its package on. What packages are like, not what was seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensoraudit.facts.unknown import ABSENT


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter. `default` is what leaving it out means, ABSENT where that is not written down; `positional` tells
    that it may be passed without its name."""

    name: str
    default: Any = ABSENT
    positional: bool = True


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of `callee` in the versions from `since` until before `until`; None is open."""

    callee: str
    parameters: tuple[Parameter, ...]
    since: str | None = None
    until: str | None = None

    @property
    def positional(self) -> tuple[str, ...]:
        """The names of the parameters that may be passed by position, in order."""
        return tuple(parameter.name for parameter in self.parameters if parameter.positional)
