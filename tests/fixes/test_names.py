"""Calls under new names and values that are names: the style of the file stays, and no name is bound twice."""

import pytest

from tensoraudit.fixes.verbs import Dotted, Parameter, Refused, RenameCall, SetArgument


def lines(text):
    """LibCST puts an empty line behind imports that it adds before other code."""
    return [line for line in text.splitlines() if line]


RENAME = RenameCall(Dotted("lib.new.g"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from lib.old import f\nf(1)\n", "from lib.new import g\ng(1)\n"),
        ("from lib.old import f\nf(1)\nprint(f)\n", "from lib.old import f\nfrom lib.new import g\ng(1)\nprint(f)\n"),
        ("from lib.old import f as h\nh(1)\n", "from lib.new import g\ng(1)\n"),
        ("from lib.old import f\nfrom lib.new import g as k\nf(1)\n", "from lib.new import g as k\nk(1)\n"),
        ("from lib.old import f\nfrom lib import new\nf(1)\n", "from lib import new\nnew.g(1)\n"),
        ("import lib.old\nlib.old.f(1)\n", "import lib.old\nimport lib.new\nlib.new.g(1)\n"),
        ("import lib.old, lib.new\nlib.old.f(1)\n", "import lib.old, lib.new\nlib.new.g(1)\n"),
        ("import lib.old as o\no.f(1)\n", "import lib.new\nlib.new.g(1)\n"),
        ("import lib.old as o, lib.new as n\no.f(1)\n", "import lib.new as n\nn.g(1)\n"),
        # g is taken: the whole path is written
        ("from lib.old import f\ng = 1\nf(g)\n", "import lib.new\ng = 1\nlib.new.g(g)\n"),
        ("from lib.old import f\n\ndef h(g):\n    f(g)\n", "import lib.new\n\ndef h(g):\n    lib.new.g(g)\n"),
        # a docstring and __future__ stay first
        (
            '"""Doc."""\nfrom __future__ import annotations\n\nfrom lib.old import f\n\nf(1)\n',
            '"""Doc."""\nfrom __future__ import annotations\nfrom lib.new import g\n\ng(1)\n',
        ),
    ],
)
def test_rename(mend, before, after):
    assert lines(mend(before, RENAME, "lib.old.f").text) == lines(after)


def test_the_same_module_under_any_alias(mend):
    text = "import lib.old as o\nx = o.f(1)  # why\n"
    assert mend(text, RenameCall(Dotted("lib.old.g")), "lib.old.f").text == "import lib.old as o\nx = o.g(1)  # why\n"


def test_a_name_that_moves_changes_its_import_alone(mend):
    text = "from lib.old import (\n    e,\n    f,  # of f\n)\n\nf(1); f(2)\n"
    applied = mend(text, RenameCall(Dotted("lib.new.f")), "lib.old.f")
    assert lines(applied.text) == lines(
        "from lib.old import (\n    e,  # of f\n)\nfrom lib.new import f\n\nf(1); f(2)\n"
    )
    alone = mend("from lib.old import f as f\nf(1)\n", RenameCall(Dotted("lib.new.f")), "lib.old.f")
    assert alone.text == "from lib.new import f as f\nf(1)\n"


def test_a_name_that_moves_and_is_used_elsewhere_is_written_out(mend):
    text = "from lib.old import f\nf(1)\nmap(f, xs)\n"
    applied = mend(text, RenameCall(Dotted("lib.new.f")), "lib.old.f")
    assert lines(applied.text) == lines("from lib.old import f\nimport lib.new\nlib.new.f(1)\nmap(f, xs)\n")


def test_an_import_that_is_there_twice_is_left_there(mend):
    text = "from lib.old import f\nfrom lib.old import f\nf(1)\n"
    applied = mend(text, RenameCall(Dotted("lib.new.f")), "lib.old.f")
    assert lines(applied.text)[-2:] == ["import lib.new", "lib.new.f(1)"]


def test_a_package_keeps_what_others_may_import_from_it(mend):
    applied = mend("from lib.old import f\nf(1)\n", RENAME, "lib.old.f", keep_imports=True)
    assert lines(applied.text) == lines("from lib.old import f\nfrom lib.new import g\ng(1)\n")
    moved = mend("from lib.old import f\nf(1)\n", RenameCall(Dotted("lib.new.f")), "lib.old.f", keep_imports=True)
    assert lines(moved.text) == lines("from lib.old import f\nimport lib.new\nlib.new.f(1)\n")


def test_what_all_names_stays_imported(mend):
    applied = mend('from lib.old import f\n__all__ = ["f"]\nf(1)\n', RENAME, "lib.old.f")
    assert lines(applied.text) == lines('from lib.old import f\nfrom lib.new import g\n__all__ = ["f"]\ng(1)\n')


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("from lib.old import f\nlib = g = 0\nf(lib, g)\n", "the names lib and g are both taken"),
        ("try:\n    from lib.old import f\nexcept ImportError:\n    f = None\nf(1)\n", None),
    ],
)
def test_refused(mend, text, reason):
    applied = mend(text, RENAME, "lib.old.f")
    assert applied.text == text
    (outcome,) = applied.outcomes
    assert isinstance(outcome, Refused)
    assert outcome.reason == (reason or "what is called is not written as an imported name")


TYPE = SetArgument(((Parameter("t"), Dotted("lib.kinds.Type.FULL")),))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import lib\nlib.f()\n", "import lib\nfrom lib.kinds import Type\nlib.f(t=Type.FULL)\n"),
        ("import lib\nimport lib.kinds\nlib.f()\n", "import lib\nimport lib.kinds\nlib.f(t=lib.kinds.Type.FULL)\n"),
        (
            "import lib\nfrom lib.kinds import Type as T\nlib.f()\n",
            "import lib\nfrom lib.kinds import Type as T\nlib.f(t=T.FULL)\n",
        ),
        ("import lib, lib.kinds as k\nlib.f()\n", "import lib, lib.kinds as k\nlib.f(t=k.Type.FULL)\n"),
        ("import lib\nType = 0\nlib.f()\n", "import lib\nimport lib.kinds\nType = 0\nlib.f(t=lib.kinds.Type.FULL)\n"),
        # an import further down, or inside another function, is not there yet
        (
            "import lib\nlib.f()\nimport lib.kinds as k\n",
            "import lib\nfrom lib.kinds import Type\nlib.f(t=Type.FULL)\nimport lib.kinds as k\n",
        ),
        ("import lib\nlib.f(t=Type.HALF)\n", "import lib\nlib.f(t=Type.HALF)\n"),
    ],
)  # fmt: skip
def test_a_value_that_is_a_name(mend, before, after):
    assert lines(mend(before, TYPE, "lib.f").text) == lines(after)


def test_a_name_of_a_top_module_is_written_with_it(mend):
    verb = SetArgument(((Parameter("t"), Dotted("torch.float16")),))
    text = "import lib\nlib.f()\n"
    assert lines(mend(text, verb, "lib.f").text) == ["import lib", "import torch", "lib.f(t=torch.float16)"]
    text = "import lib, torch as th\nlib.f(); lib.f(2)\n"
    assert mend(text, verb, "lib.f").text == "import lib, torch as th\nlib.f(t=th.float16); lib.f(2, t=th.float16)\n"
    text = "import lib\n\ndef g(torch):\n    lib.f()\n"
    assert mend(text, verb, "lib.f").text == (
        "import lib\nfrom torch import float16\n\ndef g(torch):\n    lib.f(t=float16)\n"
    )
    time = SetArgument(((Parameter("t"), Dotted("datetime.timedelta")),))
    text = "import lib\nfrom datetime import datetime\nlib.f()\n"
    assert mend(text, time, "lib.f").text == (
        "import lib\nfrom datetime import timedelta, datetime\nlib.f(t=timedelta)\n"
    )


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("torch.float16", "torch"),
        ("a.b.f", "a.b"),
        ("a.b.Type.FULL", "a.b"),
        ("a.Type", "a"),
        ("a.Type.x.y", "a"),
    ],
)
def test_which_part_is_the_module(name, module):
    assert Dotted(name).module == module
