"""Why a rule did not match."""

from tensoraudit.facts import Package
from tensoraudit.facts.store import FactStore
from tensoraudit.language.explain import explain

MATCH = """
call: f
args: {a: 1, b: 2}
inside: {loop: true}
"""


def answers(found):
    return [(step.label, step.answer) for step in found.steps]


def test_the_fact_that_came_nearest_with_every_condition_and_the_first_failure(lang):
    store = FactStore([lang.call("f", {"a": 3}, line=1), lang.call("f", {"a": 1, "b": 2}, line=2), lang.call("g")])
    found = explain(lang.rule(MATCH), store)
    assert (found.outcome, found.where.line, found.fact) == ("silent", 2, "call f")
    assert answers(found) == [("args.a", "yes"), ("args.b", "yes"), ("inside", "no")]
    assert (found.failed.label, found.failed.line) == ("inside", 11)


def test_conditions_behind_the_first_failure_are_told_too(lang):
    found = explain(lang.rule(MATCH), FactStore([lang.call("f", {"a": 3, "b": 2})]))
    assert answers(found) == [("args.a", "no"), ("args.b", "yes"), ("inside", "no")]
    assert found.failed.label == "args.a"


def test_what_is_not_known(lang):
    found = explain(
        lang.rule("{call: f, args: {a: 1, b: {present: true}}}"), FactStore([lang.call("f", {"b": 1}, splat=True)])
    )
    assert (found.outcome, found.failed.label) == ("suspected", "args.a")
    assert answers(found) == [("args.a", "unknown"), ("args.b", "yes")]


def test_a_no_is_named_before_an_unknown_that_stands_earlier(lang):
    found = explain(lang.rule("{call: f, args: {a: 1, b: 2}}"), FactStore([lang.call("f", {"b": 1}, splat=True)]))
    assert answers(found) == [("args.a", "unknown"), ("args.b", "no")]
    assert found.failed.label == "args.b"


def test_a_match(lang):
    found = explain(lang.rule("{call: '{x}.f'}"), FactStore([lang.call("m.f")]))
    assert (found.outcome, found.failed, found.missing) == ("certain", None, "")


def test_an_unknown_receiver_and_a_name_with_several_meanings_are_at_most_suspected(lang):
    assert explain(lang.rule("{call: '?.f'}"), FactStore([lang.call("?.f")])).outcome == "suspected"
    found = explain(lang.rule("{call: f}"), FactStore([lang.call("f", ambiguous=True)]))
    assert (found.outcome, answers(found)) == ("suspected", [("the name has several meanings here", "unknown")])


def test_nothing_of_that_name_names_the_nearest_that_are_there(lang):
    store = FactStore([lang.call("torch.save"), lang.call("torch.loads"), *(lang.call(f"os.{n}") for n in "abcdef")])
    found = explain(lang.rule("[{call: torch.load}, {call: 'g.*'}]"), store)
    assert (found.outcome, found.fact, found.steps) == ("silent", "", ())
    assert found.missing == "no call is named torch.load, g.*"
    assert found.nearest[0] == "call torch.loads"
    assert len(found.nearest) == 5


def test_a_file_without_that_kind_of_fact(lang):
    found = explain(lang.rule("{node: Conv}"), FactStore([lang.call("h")]))
    assert (found.missing, found.nearest) == ("there is no node at all", ())


def test_an_environment_that_prunes_the_rule_still_shows_the_place(lang):
    store = FactStore([lang.call("f", line=3), Package("torch", "1.0", "source")])
    found = explain(lang.rule("{call: f}", "when: [{package: torch, version: '>=2'}]"), store)
    assert (found.outcome, found.where.line) == ("silent", 3)
    assert (found.failed.label, found.failed.answer) == ("when", "no")
