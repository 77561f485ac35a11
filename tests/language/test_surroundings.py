"""`inside`: blocks, functions, classes, decorators, bases."""

import pytest

from tensoraudit.facts import Block, ClassDef, Import, Site
from tensoraudit.facts.store import FactStore
from tensoraudit.language.engine import match_rules
from tensoraudit.language.load import RuleSet


def block(kind, *names):
    return Block(kind, names, "", Site("a.py", 1, 1))


@pytest.fixture
def states(lang):
    """The states of the call `f` under an `inside`, when it stands in `blocks` and in Net.forward."""

    def states(inside, *blocks, extra=()):
        facts = [
            lang.scope(0, "module", ""),
            lang.scope(1, "class", "Net", 0, ("dataclass",)),
            lang.scope(2, "function", "Net.forward", 1, ("torch.jit.script",)),
            lang.scope(3, "function", "Net.forward.inner", 2),
            ClassDef("Net", ("Base",), ("forward",), 1, Site("a.py", 2, 1), "source"),
            ClassDef("Base", ("torch.nn.Module",), (), 9, Site("a.py", 20, 1), "source"),
            Import("torch", ("torch",), 0, Site("a.py", 1, 1), "source"),
            lang.call("f", scope=3, blocks=blocks),
            *extra,
        ]
        rule = lang.rule(f"{{call: f, inside: {inside}}}")
        return [match.state for match in match_rules(RuleSet((rule,)), FactStore(facts), source="", target="")]

    return states


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("{with: torch.no_grad}", ["certain"]),
        ("{with: [torch.inference_mode, torch.no_*]}", ["certain"]),
        ("{with: torch.autocast}", []),
        ("{with: true}", ["certain"]),
        ("{loop: true}", ["certain"]),
        ("{loop: range}", ["certain"]),
        ("{if: '**.training'}", ["certain"]),
        ("{if: flag}", []),
        ("{try: true}", []),
        ("{with: true, loop: true}", ["certain"]),
        ("{with: true, try: true}", []),
        ("{function: inner}", ["certain"]),
        ("{function: forward}", ["certain"]),
        ("{function: Net.forward}", ["certain"]),
        ("{function: Net}", []),
        ("{function: '**', decorator: torch.jit.script}", ["certain"]),
        ("{function: inner, decorator: torch.jit.script}", []),
        ("{decorator: torch.jit.*}", ["certain"]),
        ("{class: Net}", ["certain"]),
        ("{class: Net, decorator: dataclass}", ["certain"]),
        ("{class: '**', bases: torch.nn.Module}", ["certain"]),
        ("{bases: Base}", ["certain"]),
        ("{bases: enum.Enum}", []),
        ("{class: Other, bases: torch.nn.Module}", []),
        ("{function: forward, bases: torch.nn.Module}", ["certain"]),
        ("[{function: forward}, {class: Net}]", ["certain"]),
        ("[{function: forward}, {class: Other}]", []),
    ],
)
def test_inside(states, inside, expected):
    blocks = (block("with", "torch.no_grad"), block("loop", "range"), block("if", "self.training"))
    assert states(inside, *blocks) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("ctx",), ["suspected"]),
        ((), ["suspected"]),
        (("self.ctx",), ["suspected"]),
        (("open",), []),
        (("torch.autocast",), []),
        (("torch.autocast", "ctx"), ["suspected"]),
    ],
)
def test_a_with_over_what_is_not_known_may_be_any(states, names, expected):
    assert states("{with: torch.no_grad}", block("with", *names)) == expected


def test_the_names_in_a_test_are_what_they_are(states):
    assert states("{if: torch.is_grad_enabled}", block("if", "x")) == []


def test_a_function_of_the_project_may_wrap_any_context(states, lang):
    extra = [
        lang.scope(50, "module", "train", path="train.py", module="train"),
        Import("train", ("c",), 0, Site("a.py", 1, 1), "source"),
    ]
    assert states("{with: torch.no_grad}", block("with", "train.c"), extra=extra) == ["suspected"]


def test_a_class_is_not_inside_itself(lang):
    facts = [
        lang.scope(0, "module", ""),
        lang.scope(1, "class", "Net", 0),
        lang.scope(2, "class", "Net.Inner", 1),
        ClassDef("Net", (), (), 1, Site("a.py", 2, 1), "source"),
        ClassDef("Net.Inner", (), (), 2, Site("a.py", 3, 1), "source"),
    ]
    rule = lang.rule("{class: '**', inside: {class: '**'}}")
    assert [match.anchor.name for match in lang.matches(rule, *facts)] == ["Net.Inner"]
