"""Rules and facts in few words: a rule from its `match`, calls and nodes from their names."""

import textwrap
from types import SimpleNamespace

import pytest

from tensoraudit.facts import ABSENT, Call, Node, Scope, Site, Value
from tensoraudit.facts.store import FactStore
from tensoraudit.language.engine import match_rules
from tensoraudit.language.load import RuleSet, parse_rules

HEAD = """\
id: TST-001
title: A test
severity: high
layer: graph
message: "{name}"
why: Because.
remedy: Change it.
"""
EXAMPLES = """\
examples:
  - measurements: {output.linf: 1}
    flag: [output.linf]
  - measurements: {output.linf: 0}
"""


def _text(match, extra=""):
    extra, match = (textwrap.dedent(part).strip() for part in (extra, match))
    return "".join([HEAD, extra and f"{extra}\n", "match:\n", textwrap.indent(match, "  "), "\n", EXAMPLES])


def _rule(match, extra=""):
    rules, problems = parse_rules(_text(match, extra))
    assert not problems, problems
    return rules[0]


def _problems(match, extra=""):
    rules, problems = parse_rules(_text(match, extra))
    assert not rules
    return [problem.text for problem in problems]


def _matches(rule, *facts, source="", target="", only=None):
    return match_rules(RuleSet((rule,)), FactStore(facts), source=source, target=target, only=only)


def _call(callee, args=None, *, scope=0, blocks=(), order=0, line=1, path="a.py", side="source", **more):
    site = Site(path, line, 1)
    return Call(callee, args or {}, more.pop("splat", False), scope, blocks, order, site, side, **more)


def _scope(number, kind, name, parent=None, decorators=(), path="a.py", module="a"):
    return Scope(number, kind, name, parent, decorators, module, Site(path, number + 1, 1))


def _node(
    op,
    inputs=(),
    outputs=(),
    *,
    name="",
    attributes=None,
    domain="",
    graph="main",
    side="target",
    path="m.onnx",
    **more,
):
    site = Site(path, node=name or None)
    return Node(op, domain, 18, name, attributes or {}, tuple(inputs), tuple(outputs), graph, site, side, **more)


def _value(
    name,
    dtype="float32",
    shape=(1,),
    *,
    constant=ABSENT,
    role="intermediate",
    graph="main",
    side="target",
    path="m.onnx",
):
    return Value(name, dtype, shape, constant, role, graph, side, Site(path))


@pytest.fixture(scope="session")
def lang():
    """Makers of rules and facts."""
    return SimpleNamespace(
        text=_text, rule=_rule, problems=_problems, matches=_matches, call=_call, scope=_scope, node=_node, value=_value
    )
