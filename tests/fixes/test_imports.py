"""Importing from elsewhere."""

import pytest

from tensoraudit.fixes.apply import apply
from tensoraudit.fixes.verbs import Done, Parameter, Refused, RemoveArgument, ReplaceImport


@pytest.fixture
def refused(edits_of):
    def applied(text, verb, module):
        found = apply(text, edits_of(text, verb, module))
        assert isinstance(found.outcomes[0], Refused)
        return found

    return applied


@pytest.mark.parametrize(
    ("before", "names", "after"),
    [
        ("import old\nold.f()\n", {"old": "new"}, "import new as old\nold.f()\n"),
        ("import old as o\n", {"old": "new.sub"}, "import new.sub as o\n"),
        ("import a, old as o  # why\n", {"old": "new"}, "import a, new as o  # why\n"),
        ("import old.sub as s\n", {"old": "new"}, "import new.sub as s\n"),
        ("from old import f, g\n", {"old": "new"}, "from new import f, g\n"),
        ("from old import *\n", {"old": "new"}, "from new import *\n"),
        (
            "from old.sub import (  # a\n    f,  # of f\n)\n",
            {"old.sub": "new"},
            "from new import (  # a\n    f,  # of f\n)\n",
        ),
        ("from old import f\n", {"old.f": "new.f"}, "from new import f\n"),
        ("from old import f\n", {"old.f": "new.g"}, "from new import g as f\n"),
        ("from old import f as h\n", {"old.f": "new.g"}, "from new import g as h\n"),
        ("from old import g as f\n", {"old.g": "new.f"}, "from new import f\n"),
        ("from old import f, g\n", {"old.f": "new.f"}, "from old import g\nfrom new import f\n"),
        ("from old import g, f\n", {"old.f": "new.f"}, "from old import g\nfrom new import f\n"),
        (
            "x = 1; from old import f, g; y = 2\n",
            {"old.f": "new.f"},
            "x = 1; from old import g; from new import f; y = 2\n",
        ),
        (
            "def h():\n    from old import f, g\n",
            {"old.f": "new.f"},
            "def h():\n    from old import g\n    from new import f\n",
        ),
        ("from old import f, g\n", {"old": "new", "old.f": "other.f"}, None),
        ("import old.sub\n", {"old.sub": "new"}, None),
        ("from old import g\n", {"old.f": "new.f"}, None),
        ("from old import *\n", {"old.f": "new.f"}, None),
    ],
)  # fmt: skip
def test_replace(mend, refused, before, names, after):
    module = "old.sub" if "old.sub" in before else "old"
    applied = mend(before, ReplaceImport(names), module) if after else refused(before, ReplaceImport(names), module)
    assert applied.text == (after or before)


def test_both_parts_of_a_statement_are_places_of_the_change(mend):
    applied = mend("from old import f, g\nimport x\n", ReplaceImport({"old.f": "new.f"}), "old")
    (outcome,) = applied.outcomes
    assert isinstance(outcome, Done)
    assert [place.line for place in outcome.places] == [1, 2]


def test_calls_do_not_wait_for_an_import_that_cannot_change(edits_of):
    text = "import gone.mod\nimport lib\nlib.f(x=1)\n"
    edits = [
        *edits_of(text, ReplaceImport({"gone.mod": "here.mod"}), "gone.mod"),
        *edits_of(text, RemoveArgument((Parameter("x"),)), "lib.f"),
    ]
    applied = apply(text, edits)
    assert [type(outcome) for outcome in applied.outcomes] == [Refused, Done]
    assert applied.text == "import gone.mod\nimport lib\nlib.f()\n"
