"""How rules are found, and on how many facts they are tried: counted beside the engine's own walk."""

import pytest

from tensoraudit.facts.store import FactStore
from tensoraudit.language.cost import cost
from tensoraudit.language.engine import match_rules
from tensoraudit.language.kleene import NO
from tensoraudit.language.load import RuleSet, load_rules, rules_folder
from tensoraudit.language.schema import SPARSE


@pytest.fixture
def facts(lang):
    calls = [lang.call(f"lib.f{n % 5}", line=n) for n in range(50)] + [lang.call("other.half", line=99)]
    nodes = [lang.node("Conv", name=f"c{n}", domain="my.ops" if n < 3 else "") for n in range(10)]
    return [*calls, *nodes, *(lang.value(f"v{n}", constant=n) for n in range(4)), lang.value("w")]


@pytest.mark.parametrize(
    ("match", "extra", "by", "way", "candidates"),
    [
        ("{call: lib.f1}", "", "callee", "exact", 10),
        ("{call: [lib.f1, lib.f2]}", "", "callee", "exact", 20),
        ("{call: 'lib.*'}", "", "callee", "prefix", 50),
        ("{call: [lib.f1, '**.half']}", "", "callee", "suffix", 11),
        ("{call: 'none.*'}", "", "callee", "prefix", 0),
        ("{call: '**'}", "scan: true", "callee", "scan", 51),
        ("{node: '**', domain: my.ops}", "", "domain", "exact", 3),
        ("{node: Conv, domain: my.ops}", "", "op", "exact", 10),
        ("{value: '**', constant: {gt: 1}}", "", "constant", "exact", 4),
        ("{package: '**'}", "", "name", "scan", 0),
    ],
)
def test_how_an_anchor_is_found(lang, facts, match, extra, by, way, candidates):
    found = cost(lang.rule(match, extra), FactStore(facts))
    (anchor,) = found.anchors
    assert (anchor.by, anchor.way, anchor.candidates) == (by, way, candidates)
    assert (found.way, found.candidates, found.scan) == (way, candidates, bool(extra))


def test_several_alternatives_and_no_store(lang):
    rule = lang.rule("[{call: f, exists: {call: g, in: module}}, {node: '*Conv', upstream: {within: 2}}]")
    found = cost(rule)
    assert [(anchor.kind, anchor.way, anchor.searches) for anchor in found.anchors] == [
        ("call", "exact", 1),
        ("node", "suffix", 1),
    ]
    assert (found.way, found.candidates) == ("suffix", None)


def test_candidates_are_what_the_engine_asks(lang, facts, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "tensoraudit.language.engine.ask", lambda conditions, fact, context: asked.append(fact) or NO if fact else 2
    )
    cheap = [lang.rule("{call: 'lib.*'}"), lang.rule("{node: '**', domain: my.ops}")]
    rules = [*cheap, lang.rule("{call: '**'}", "scan: true")]
    for rule in rules:
        asked.clear()
        match_rules(RuleSet((rule,)), FactStore(facts), source="", target="")
        assert len(asked) == cost(rule, FactStore(facts)).candidates


def test_rules_that_ship_say_scan_only_where_they_need_it():
    """What is tried on every call or node is felt in every scan."""
    costs = [cost(rule) for rule in load_rules([rules_folder()])]
    dear = [found for found in costs if any(a.way == "scan" and a.kind not in SPARSE for a in found.anchors)]
    assert [found.rule for found in dear] == [found.rule for found in costs if found.scan]
    assert len(dear) <= 0.1 * len(costs)
