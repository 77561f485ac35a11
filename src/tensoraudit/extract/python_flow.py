"""What the local names of one function stand for at the statement being read.

Assignments replace, branches are joined when they end. Each branch keeps a log of what it changed, so that joining
costs what was assigned inside, not the number of names in the function. Knows nothing of syntax.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensoraudit.extract.python_origins import Bound, unite

Changes = dict[str, Bound]


class Flow:
    """Names and what they stand for now."""

    def __init__(self) -> None:
        self._now: dict[str, Bound] = {}
        self._log: list[tuple[str, Bound | None]] = []

    def get(self, name: str) -> Bound | None:
        """Return what `name` stands for, or None before its first assignment."""
        return self._now.get(name)

    def set(self, name: str, bound: Bound) -> None:
        """Replace what `name` stands for."""
        self._log.append((name, self._now.get(name)))
        self._now[name] = bound

    def mark(self) -> int:
        """Return a point to go back to."""
        return len(self._log)

    def undo(self, mark: int) -> Changes:
        """Go back to `mark`; return what each name set since then stood for at the end."""
        changed: Changes = {}
        while len(self._log) > mark:
            name, before = self._log.pop()
            changed.setdefault(name, self._now[name])
            if before is None:
                del self._now[name]
            else:
                self._now[name] = before
        return changed

    def join(self, branches: Sequence[Changes], *, complete: bool) -> None:
        """Continue after `branches`, exactly one of which ran; unless `complete`, none of them may have run either.

        A name that a branch does not set, and that nothing set before, would raise if that branch ran: only the other
        branches count for it.
        """
        for name in dict.fromkeys(name for branch in branches for name in branch):
            options = [branch[name] for branch in branches if name in branch]
            before = self._now.get(name)
            if before is not None and (not complete or len(options) < len(branches)):
                options.append(before)
            self.set(name, merge(options))


def merge(options: Sequence[Bound]) -> Bound:
    """Return what a name stands for when it is one of `options`."""
    first = options[0]
    if len(options) == 1:
        return first
    same = all(type(other.literal) is type(first.literal) and other.literal == first.literal for other in options[1:])
    return Bound(unite([option.origins for option in options]), first.literal if same else None)
