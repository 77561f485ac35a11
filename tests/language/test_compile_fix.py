"""What `fix` may say, and what is refused with its place."""

import pytest

from tensoraudit.fixes.verbs import Dotted, Fix, Parameter, RemoveArgument, RenameCall, ReplaceImport, SetArgument
from tensoraudit.language.load import parse_rules

TEXT = """\
id: TST-001
title: A test
severity: high
layer: graph
message: A test
why: Because.
remedy: Change it.
match: {match}
fix: {fix}
examples:
  - python: |
      import lib
      lib.f()   # flag
{fixed}  - python: "pass"
"""
FIXED = "    fixed: |\n      import lib\n      lib.f(n=1)\n"
CHECKPOINT = "torch.utils.checkpoint.checkpoint"


def compiled(fix, match="{call: lib.f}", fixed=FIXED):
    rules, problems = parse_rules(TEXT.format(fix=fix, match=match, fixed=fixed))
    return rules, [(problem.line, problem.column, problem.text) for problem in problems]


@pytest.mark.parametrize(
    ("fix", "verb"),
    [
        ("{set-argument: {n: 1}", SetArgument(((Parameter("n"), 1),))),
        ("{set-argument: {'2|n': [1, a]}", SetArgument(((Parameter("n", 2), [1, "a"]),))),
        ("{set-argument: {n: a, m: null}", SetArgument(((Parameter("n"), "a"), (Parameter("m"), None)))),
        ("{set-argument: {n: {name: torch.float16}}", SetArgument(((Parameter("n"), Dotted("torch.float16")),))),
        ("{set-argument: {n: {is: {a: false}}}", SetArgument(((Parameter("n"), {"a": False}),))),
        ("{remove-argument: n", RemoveArgument((Parameter("n"),))),
        ("{remove-argument: [n, '0|m']", RemoveArgument((Parameter("n"), Parameter("m", 0)))),
        ("{rename-call: lib.new.g", RenameCall(Dotted("lib.new.g"))),
    ],
)  # fmt: skip
@pytest.mark.parametrize("safety", ["safe", "unsafe"])
def test_verbs(fix, verb, safety):
    (rule,), problems = compiled(f"{fix}, safety: {safety}}}")
    assert problems == []
    assert rule.alternatives[0].fix == Fix(verb, safety == "safe")


def test_imports():
    fixed = "    fixed: import new\n"
    (rule,), problems = compiled("{replace-import: {lib: new, lib.f: other.g}, safety: safe}", "{import: lib}", fixed)
    assert problems == []
    assert rule.alternatives[0].fix == Fix(ReplaceImport({"lib": "new", "lib.f": "other.g"}), True)


def test_a_pattern_may_have_a_fix_of_its_own():
    match = "[{call: lib.f}, {call: lib.g, fix: {remove-argument: n, safety: unsafe}}, {node: Conv, fix: By hand.}]"
    (rule,), problems = compiled("{set-argument: {n: 1}, safety: safe}", match)
    assert problems == []
    first, second, third = (each.fix for each in rule.alternatives)
    assert (first.safe, second, third) == (True, Fix(RemoveArgument((Parameter("n"),)), False), "By hand.")


@pytest.mark.parametrize(
    ("fix", "place", "text"),
    [
        ("{set-arguments: {n: 1}, safety: safe}", (9, 7), "did you mean 'set-argument'?"),
        ("{set-argument: {n: 1}, rename-call: a.b, safety: safe}", (9, 6), "a fix has one of"),
        ("{set-argument: {}, safety: safe}", (9, 21), "names no argument"),
        ("{set-argument: n, safety: safe}", (9, 21), "must be a mapping"),
        ("{set-argument: {n m: 1}, safety: safe}", (9, 22), "write the name of an argument"),
        ("{set-argument: {0: 1}, safety: safe}", (9, 22), "is the number 0"),
        ("{set-argument: {n: {a: 1}}, safety: safe}", (9, 25), "write {name: torch.float16} for a name"),
        ("{set-argument: {n: {name: float16}}, safety: safe}", (9, 32), "no dotted name"),
        ("{set-argument: {n: .inf}, safety: safe}", (9, 25), "no literal of Python"),
        ("{remove-argument: [], safety: safe}", (9, 24), "names no argument"),
        ("{rename-call: g, safety: safe}", (9, 20), "'g' is no dotted name"),
        ("{replace-import: {a: b}, safety: safe}", (9, 7), "needs a pattern anchored at 'import', not at 'call'"),
        ("{replace-import: {a b: c}, safety: safe}", (9, 24), "'a b' is no dotted name"),
        ("{replace-import: {a: a.b}, safety: safe}", (9, 27), "a second run would find 'a' in 'a.b' again"),
    ],
)
def test_refused_with_its_place(fix, place, text):
    _, problems = compiled(fix)
    (line, column, words), *others = problems
    assert text in words
    assert (line, column) == place
    assert not [each for each in others if "needs an example" not in each[2] and "no fix of this rule" not in each[2]]


@pytest.mark.parametrize("match", ["{node: Conv}", "{import: lib}", "{reference: lib.x}", "{class: A}"])
def test_a_verb_needs_what_it_changes(match):
    _, problems = compiled("{set-argument: {n: 1}, safety: safe}", match)
    kind = match[1:].partition(":")[0]
    assert problems == [(9, 7, f"'set-argument' needs a pattern anchored at 'call', not at '{kind}'")]


@pytest.mark.parametrize(
    ("fix", "match", "column"),
    [
        ("{set-argument: {use_reentrent: false}, safety: safe}", f"{{call: [lib.f, {CHECKPOINT}]}}", 22),
        ("{remove-argument: [debug, use_reentrent], safety: safe}", f"{{call: {CHECKPOINT}}}", 32),
    ],
)
def test_an_argument_that_the_callee_lacks(fix, match, column):
    _, problems = compiled(fix, match)
    text = f"{CHECKPOINT} has no argument 'use_reentrent'; did you mean 'use_reentrant'?"
    assert problems == [(9, column, text)]


def test_an_argument_that_the_pattern_itself_asks_for_is_one():
    match = f"{{call: {CHECKPOINT}, args: {{new: 1}}}}"
    assert compiled("{remove-argument: new, safety: safe}", match)[1] == []


def test_a_verb_needs_an_example_with_the_fixed_text():
    _, problems = compiled("{set-argument: {n: 1}, safety: safe}", fixed="")
    assert problems == [(9, 6, "a fix with a verb needs an example with 'fixed': its python text after the fix")]


def test_a_fixed_text_needs_a_verb_and_a_text():
    _, problems = compiled("By hand.")
    assert [text for _, _, text in problems] == ["no fix of this rule has a verb, so that nothing can make this text"]
    fixed = "    fixed: |\n      lib.f(n=1)\n  - nodes: [{op: A}]\n    fixed: x\n"
    _, problems = compiled("{set-argument: {n: 1}, safety: safe}", fixed=fixed)
    ((line, column, words),) = problems
    assert (line, column) == (17, 5)
    assert words.endswith("this example has no 'python'")


def test_a_fault_of_a_shared_fix_is_told_once():
    _, problems = compiled("{set-argument: {n: 1}}", "[{call: lib.f}, {call: lib.g}]")
    assert [text for _, _, text in problems if "safety" in text] == ["a fix says 'safety: safe' or 'safety: unsafe'"]
