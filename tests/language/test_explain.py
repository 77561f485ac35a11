"""Why a rule did not match."""

from tensoraudit.facts import Package
from tensoraudit.facts.store import FactStore
from tensoraudit.language.explain import explain

MATCH = """
call: f
args: {a: 1, b: 2}
inside: {loop: true}
"""


def test_the_fact_that_came_nearest_and_the_first_failure(lang):
    store = FactStore([lang.call("f", {"a": 3}, line=1), lang.call("f", {"a": 1, "b": 2}, line=2), lang.call("g")])
    found = explain(lang.rule(MATCH), store)
    assert (found.outcome, found.where.line, found.fact) == ("silent", 2, "call f")
    assert found.held == ("args.a", "args.b")
    assert (found.failed, found.line) == ("inside", 11)


def test_what_is_not_known(lang):
    found = explain(
        lang.rule("{call: f, args: {a: 1, b: {present: true}}}"), FactStore([lang.call("f", {"b": 1}, splat=True)])
    )
    assert (found.outcome, found.failed, found.held) == ("suspected", "args.a", ("args.b",))


def test_a_match(lang):
    found = explain(lang.rule("{call: '{x}.f'}"), FactStore([lang.call("m.f")]))
    assert (found.outcome, found.failed) == ("matches", "")


def test_nothing_of_that_name(lang):
    found = explain(lang.rule("[{call: f}, {call: 'g.*'}]"), FactStore([lang.call("h")]))
    assert (found.outcome, found.failed) == ("silent", "no call is named f, g.*")


def test_an_environment_that_prunes_the_rule(lang):
    store = FactStore([lang.call("f"), Package("torch", "1.0", "source")])
    found = explain(lang.rule("{call: f}", "when: [{package: torch, version: '>=2'}]"), store)
    assert (found.outcome, found.failed) == ("silent", "'when' does not hold in this environment")
