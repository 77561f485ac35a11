"""Running the fix of a rule on an example with `fixed`: the result is that text, and it stays so.

The fix is applied until it changes nothing more. Then the rule may speak only of places that the fix leaves alone:
those where a pattern without a verb matched, and those that it refuses (`**options`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from tensoraudit.fixes.verbs import Done
from tensoraudit.language.document import Leaf
from tensoraudit.language.edits import edit_of
from tensoraudit.language.engine import Match
from tensoraudit.language.example import Example
from tensoraudit.language.problems import text

ROUNDS = 5
"""One makes the change and one shows that none is left; a rule that needs more than these undoes itself."""

_MARK = re.compile(r"[ \t]*#\s*(flag|suspect)\b.*$", re.MULTILINE)


def fix_faults(example: Example, matches: Callable[[Example], list[Match]]) -> Iterator[str]:
    """Yield what is wrong with an example that has `fixed`; nothing when all is right. `matches` asks the rule."""
    from tensoraudit.fixes.apply import apply  # LibCST takes longer to import than most rules to test

    source = example.parts["python"]
    now = _MARK.sub("", text(source, "python"))
    for _ in range(ROUNDS):
        found = matches(_with_text(example, now))
        pairs = [(match, edit) for match in found if (edit := edit_of(match)) is not None]
        applied = apply(now, [edit for _, edit in pairs], unsafe=True)
        if applied.text == now:
            break
        now = applied.text
    else:
        yield f"the fix still changes the text after {ROUNDS} times"
    expected = text(example.parts["fixed"], "fixed")
    if now != expected:
        yield _difference(now, expected)
    for (match, _), outcome in zip(pairs, applied.outcomes, strict=True):
        if isinstance(outcome, Done):
            yield f"after the fix line {match.where.line} is still reported"


def _with_text(example: Example, now: str) -> Example:
    place = example.parts["python"]
    return replace(example, parts={**example.parts, "python": Leaf(now, place.line, place.column)})


def _difference(now: str, expected: str) -> str:
    lines, wanted = now.splitlines(), expected.splitlines()
    for number, (line, want) in enumerate(zip(lines, wanted, strict=False), 1):
        if line != want:
            return f"line {number} after the fix is {line!r}, and 'fixed' says {want!r}"
    return f"the fix gives {len(lines)} lines, and 'fixed' has {len(wanted)} (or ends its last one otherwise)"
