"""From what a rule found to the edit that mends it. Reads nothing and changes nothing."""

from __future__ import annotations

from tensoraudit.fixes.verbs import Edit, Fix, Place
from tensoraudit.language.engine import Match


def edit_of(match: Match) -> Edit | None:
    """Return the edit of a match, None where its rule has no verb for it."""
    if not isinstance(match.fix, Fix):
        return None
    anchor = match.anchor
    return Edit(
        match.fix.verb, place_of(match), str(getattr(anchor, "callee", "")), str(getattr(anchor, "written", ""))
    )


def fix_text(match: Match) -> str:
    """Return the fix of a match in words."""
    if not isinstance(match.fix, Fix):
        return match.fix
    return f"{match.fix} ({'`tensoraudit fix`' if match.fix.safe else 'unsafe: `tensoraudit fix --unsafe`'} does it)"


def place_of(match: Match) -> Place:
    """Return where a match in source code stands."""
    where = match.where
    assert where.line and where.column and where.end_line and where.end_column
    return Place(where.line, where.column, where.end_line, where.end_column)


def doubt(match: Match) -> str:
    """Return why the fix of a match is not safe whatever its rule says; "" when it is as safe as the rule says."""
    if getattr(match.anchor, "ambiguous", False):
        return "the name may stand for something else here"
    if str(getattr(match.anchor, "callee", "")).startswith("?."):
        return "what the method is called on is not known"
    return ""
