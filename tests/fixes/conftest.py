import ast

import pytest

from tensoraudit.extract.python_source import read_python_text
from tensoraudit.facts import Call, Import
from tensoraudit.fixes.apply import apply
from tensoraudit.fixes.verbs import Done, Edit, Place, RenameCall


def _edits_of(text, verb, callee):
    """An edit for each call of `callee` (import of the module `callee`), placed as rules place their findings."""
    read = read_python_text(text)
    assert not read.skipped, read.skipped
    wanted = [fact for fact in read.facts if callee in (getattr(fact, "callee", None), getattr(fact, "module", None))]
    return [
        Edit(
            verb,
            Place(fact.at.line, fact.at.column, fact.at.end_line, fact.at.end_column),
            getattr(fact, "callee", ""),
            getattr(fact, "written", ""),
        )
        for fact in wanted
        if isinstance(fact, Call | Import)
    ]


@pytest.fixture
def edits_of():
    return _edits_of


@pytest.fixture
def mend():
    """Apply a verb to every call of a callee; the text must stay the same when it is applied again."""

    def mended(text, verb, callee, **options):
        applied = apply(text, _edits_of(text, verb, callee), **options)
        ast.parse(applied.text)
        again = [
            Edit(verb, place, callee)
            for outcome in applied.outcomes
            if isinstance(outcome, Done)
            for place in outcome.places
        ]
        if not isinstance(verb, RenameCall):
            assert apply(applied.text, again, **options).text == applied.text
        return applied

    return mended
