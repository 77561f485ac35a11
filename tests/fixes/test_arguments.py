"""Setting and removing arguments: layout and comments stay, and what a call does not tell is refused."""

import pytest

from tensoraudit.fixes.apply import apply
from tensoraudit.fixes.verbs import Done, Edit, Parameter, Place, Refused, RemoveArgument, SetArgument

HEAD = "import lib\n"


def one(mend, call, verb, callee="lib.f", **options):
    """The call after the edit, and what became of the edit."""
    applied = mend(f"{HEAD}{call}\n", verb, callee, **options)
    return applied.text.removeprefix(HEAD).removesuffix("\n"), applied.outcomes


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("lib.f()", "lib.f(n=1)"),
        ("lib.f(a)", "lib.f(a, n=1)"),
        ("lib.f( a )", "lib.f( a, n=1 )"),
        ("lib.f(a,)", "lib.f(a, n=1,)"),
        ("lib.f(a, )", "lib.f(a, n=1, )"),
        ("lib.f(a, n=2)", "lib.f(a, n=1)"),
        ("lib.f(a, n = 2, b=3)", "lib.f(a, n = 1, b=3)"),
        ("lib.f(n=1)", "lib.f(n=1)"),
        ("lib.f(x for x in y)", "lib.f((x for x in y), n=1)"),
        ("lib.f(a,\n      b)", "lib.f(a,\n      b,\n      n=1)"),
        ("lib.f(\n    a,\n    b,\n)", "lib.f(\n    a,\n    b,\n    n=1,\n)"),
        ("lib.f(\n    a\n)", "lib.f(\n    a,\n    n=1\n)"),
        ("lib.f(\n    a,\n)", "lib.f(\n    a,\n    n=1,\n)"),
        ("lib.f(\n\ta,\n\tb\n)", "lib.f(\n\ta,\n\tb,\n\tn=1\n)"),
        ("lib.f(\n    a,  # of a\n    b,  # of b\n)", "lib.f(\n    a,  # of a\n    b,  # of b\n    n=1,\n)"),
        ("lib.f(\n    a,\n    b  # of b\n)", "lib.f(\n    a,\n    b,  # of b\n    n=1\n)"),
        ("lib.f(\n    a,\n    # the end\n)", "lib.f(\n    a,\n    # the end\n    n=1,\n)"),
        ("lib.f(  # nothing\n)", "lib.f(  # nothing\nn=1)"),
        ("lib.f(\n    n=2,  # why\n)", "lib.f(\n    n=1,  # why\n)"),
        ("lib.f(a, *b)", "lib.f(a, *b)"),
        ("lib.f(a, *b, n=2)", "lib.f(a, *b, n=1)"),
        ("lib.f(n=2, **b)", "lib.f(n=1, **b)"),
        ("lib.f(a, **b)", "lib.f(a, **b)"),
        ("x = lib . f (a)", "x = lib . f (a, n=1)"),
        ("lib.f(a)(b)", "lib.f(a, n=1)(b)"),
        ("lib.f(lambda: 0)", "lib.f(lambda: 0, n=1)"),
        ("lib.f('é', a); lib.f(b)", "lib.f('é', a, n=1); lib.f(b, n=1)"),
        ("lib.f(lib.f(a), lib.f(b, n=2))", "lib.f(lib.f(a, n=1), lib.f(b, n=1), n=1)"),
    ],
)
def test_set(mend, before, after):
    assert one(mend, before, SetArgument(((Parameter("n"), 1),)))[0] == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("lib.f(n=1)", "lib.f()"),
        ("lib.f(a, n=1)", "lib.f(a)"),
        ("lib.f(a, n=1,)", "lib.f(a,)"),
        ("lib.f(n=1, a=2)", "lib.f(a=2)"),
        ("lib.f(a, n=1, b=2)", "lib.f(a, b=2)"),
        ("lib.f(\n    a,\n    n=1,\n)", "lib.f(\n    a,\n)"),
        ("lib.f(\n    a,\n    n=1\n)", "lib.f(\n    a\n)"),
        ("lib.f(\n    n=1,\n)", "lib.f()"),
        ("lib.f(\n    a,  # of a\n    n=1,\n)", "lib.f(\n    a,  # of a\n)"),
        ("lib.f(\n    a,  # of a\n    n=1)", "lib.f(\n    a  # of a\n    )"),
        ("lib.f(\n    a,\n    # before\n    n=1,\n    b=2,\n)", "lib.f(\n    a,\n    # before\n    b=2,\n)"),
        ("lib.f(a)", "lib.f(a)"),
        ("lib.f(a, *b, n=1)", "lib.f(a, *b)"),
        ("lib.f(n=1, **b)", "lib.f(**b)"),
        ("lib.f(a, **b)", "lib.f(a, **b)"),
    ],
)
def test_remove(mend, before, after):
    assert one(mend, before, RemoveArgument((Parameter("n"),)))[0] == after


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (True, "True"),
        (None, "None"),
        (-1.5, "-1.5"),
        ("a", '"a"'),
        ('a"b', "'a\"b'"),
        ("a\n", "'a\\n'"),
        ([1, "b"], '[1, "b"]'),
        ({"a": False, "b": {}}, '{"a": False, "b": {}}'),
    ],
)
def test_literals(mend, value, code):
    assert one(mend, "lib.f()", SetArgument(((Parameter("n"), value),)))[0] == f"lib.f(n={code})"


HALF = "import torch\n"
EXPORT = "torch.onnx.export"


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [
        # export(model, args, f, export_params, verbose, ...): the same in every version as far as `f`
        ("torch.onnx.export(m, x, 'a')", "f", 'torch.onnx.export(m, x, "b")'),
        ("torch.onnx.export(m, x)", "f", 'torch.onnx.export(m, x, f="b")'),
        ("torch.onnx.export(m, *x)", "dynamo", None),
        ("torch.onnx.export(m, **x)", "dynamo", None),
    ],
)
def test_an_argument_that_is_passed_by_position(mend, before, name, after):
    applied = mend(f"{HALF}{before}\n", SetArgument(((Parameter(name), "b"),)), EXPORT)
    if after is None:
        assert isinstance(applied.outcomes[0], Refused)
        after = before
    assert applied.text == f"{HALF}{after}\n"


def test_star_arguments_cannot_reach_what_is_passed_by_name_only(mend):
    text = "from torch.utils.checkpoint import checkpoint\ncheckpoint(f, *xs)\n"
    applied = mend(text, SetArgument(((Parameter("use_reentrant"), False),)), "torch.utils.checkpoint.checkpoint")
    assert applied.text.splitlines()[1] == "checkpoint(f, *xs, use_reentrant=False)"


def test_a_position_is_removed_only_from_the_end(mend):
    text = "import torch\ntorch.nn.Dropout(0.5, True)\n"
    applied = mend(text, RemoveArgument((Parameter("inplace"),)), "torch.nn.Dropout")
    assert applied.text == "import torch\ntorch.nn.Dropout(0.5)\n"
    applied = mend(text, RemoveArgument((Parameter("p"),)), "torch.nn.Dropout")
    assert applied.text == text
    assert applied.outcomes[0].reason == "p is passed by position, and other arguments follow it"


def test_a_position_named_by_the_rule_where_no_signature_is_known(mend):
    verb = SetArgument(((Parameter("n", 1), 5),))
    assert one(mend, "lib.f(a, 3, b)", verb)[0] == "lib.f(a, 5, b)"
    assert one(mend, "lib.f(a)", verb)[0] == "lib.f(a, n=5)"
    assert isinstance(one(mend, "lib.f(*a)", verb)[1][0], Refused)


@pytest.mark.parametrize("value", ["flag", "g()", "a.b", "not x", "[x]", "{'a': x}"])
@pytest.mark.parametrize("verb", [SetArgument(((Parameter("n"), 1),)), RemoveArgument((Parameter("n"),))])
def test_what_is_computed_is_replaced_only_on_request(mend, value, verb):
    before = f"lib.f(n={value})"
    text, outcomes = one(mend, before, verb)
    assert (text, outcomes[0]) == (before, Refused("n is not a constant here", risky=True))
    text, outcomes = one(mend, before, verb, unsafe=True)
    assert text == ("lib.f(n=1)" if isinstance(verb, SetArgument) else "lib.f()")


@pytest.mark.parametrize("value", ["1", "-1", "'a' 'b'", "None", "(1, 2)", "{'a': [True]}", "b'x'"])
def test_constants(mend, value):
    assert one(mend, f"lib.f(n={value})", RemoveArgument((Parameter("n"),)))[0] == "lib.f()"


def test_the_result_is_found_where_it_stands(mend):
    text = f"{HEAD}lib.f(lib.g(lib.f(n=h())), n=g())\nlib.f()\n"
    applied = mend(text, SetArgument(((Parameter("n"), 1),)), "lib.f", unsafe=True)
    lines = applied.text.splitlines()
    assert lines[1:] == ["lib.f(lib.g(lib.f(n=1)), n=1)", "lib.f(n=1)"]
    found = [
        lines[place.line - 1][place.column - 1 : place.end_column - 1]
        for outcome in applied.outcomes
        for place in outcome.places
    ]
    assert sorted(found) == ["lib.f(lib.g(lib.f(n=1)), n=1)", "lib.f(n=1)", "lib.f(n=1)"]


def test_two_edits_of_one_call_are_made_in_their_order():
    text = "lib.f(a=1)\n"
    place = Place(1, 1, 1, 11)
    edits = [
        Edit(RemoveArgument((Parameter("a"),)), place, "lib.f", "lib.f"),
        Edit(SetArgument(((Parameter("n"), 1),)), place, "lib.f", "lib.f"),
    ]
    applied = apply(text, edits)
    assert applied.text == "lib.f(n=1)\n"
    assert applied.outcomes == (Done((place,)), Done((place,)))


@pytest.mark.parametrize("place", [Place(1, 2, 1, 8), Place(2, 1, 2, 8), Place(1, 1, 1, 7)])
def test_nothing_is_edited_beside_the_place(place):
    applied = apply("lib.f(a)\n", [Edit(RemoveArgument((Parameter("n"),)), place, "lib.f", "lib.f")])
    assert applied.text == "lib.f(a)\n"
    assert applied.outcomes == (Refused("the call or import is not found at this place of the file"),)


def test_another_call_at_the_place_is_not_edited():
    applied = apply("lib.g(a)\n", [Edit(SetArgument(((Parameter("n"), 1),)), Place(1, 1, 1, 9), "lib.f", "lib.f")])
    assert isinstance(applied.outcomes[0], Refused)


def test_a_call_with_one_edit_that_is_refused_still_gets_the_other():
    edits = [
        Edit(SetArgument(((Parameter("n"), 1),)), Place(1, 1, 1, 11), "f", "f"),
        Edit(RemoveArgument((Parameter("m"),)), Place(1, 1, 1, 11), "f", "f"),
    ]
    applied = apply("f(m=1,**k)\n", edits)
    assert applied.text == "f(**k)\n"
    assert [type(outcome) for outcome in applied.outcomes] == [Refused, Done]


@pytest.mark.parametrize("text", ["f(\n", "x = 1\rf()\r", "f()\n" + "(" * 3000])
def test_a_text_that_cannot_be_kept_is_not_touched(text):
    applied = apply(text, [Edit(SetArgument(((Parameter("n"), 1),)), Place(1, 1, 1, 4), "f", "f")])
    assert applied.text == text
    assert isinstance(applied.outcomes[0], Refused)


def test_a_decorator_and_a_string_that_holds_a_call(mend):
    text = "import lib\n\n\n@lib.f(n=2)  # why\ndef g():\n    return f'{lib.f(1)} lib.f(2)'\n"
    applied = mend(text, SetArgument(((Parameter("n"), 1),)), "lib.f")
    assert applied.text.splitlines()[3:] == [
        "@lib.f(n=1)  # why",
        "def g():",
        "    return f'{lib.f(1, n=1)} lib.f(2)'",
    ]


def test_windows_line_ends_and_mixed_ones_stay(mend):
    text = "import lib\r\nlib.f(\r\n    a,\r\n)\nlib.f(b)\r\n"
    applied = mend(text, SetArgument(((Parameter("n"), 1),)), "lib.f")
    assert applied.text == "import lib\r\nlib.f(\r\n    a,\r\n    n=1,\r\n)\nlib.f(b, n=1)\r\n"
