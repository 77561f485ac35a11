from __future__ import annotations

import pytest

from tensoraudit.facts import Measurement, Site
from tensoraudit.findings.merge import merge

NODE = Site(path="a.onnx", node="n")
ERROR = Measurement("run.error", "random-0", "Dilation not supported")


def test_one_node_written_by_two_routes_is_one_finding(finding):
    first = finding("ONX-1", state="suspected", where=NODE, evidence=(ERROR,))
    second = finding("ONX-1", state="confirmed", where=Site(path="b.onnx", node="n"), evidence=(ERROR,))
    (only,) = merge([first, second], {})
    assert (only.state, only.evidence) == ("confirmed", (ERROR,))


def test_targets_and_lines_and_messages_stay_apart(finding):
    apart = [
        finding("ONX-1", where=NODE),
        finding("ONX-1", where=NODE, target="jax"),
        finding("ONX-1", where=Site(path="a.py", line=3, column=1)),
        finding("ONX-1", where=Site(path="a.py", line=3, column=20)),
        finding("ONX-1", message="one"),
        finding("ONX-1", message="two"),
    ]
    assert len(merge(apart, {})) == 6


def test_superseded_at_the_same_place_gives_way(finding):
    one, other = finding("ONX-17", where=NODE), finding("ONX-16", where=NODE)
    (only,) = merge([other, one], {"ONX-17": ["ONX-16"]})
    assert (only.rule, only.also) == ("ONX-17", ("ONX-16",))


def test_superseded_elsewhere_stays(finding):
    one, other = finding("ONX-17", where=NODE), finding("ONX-16", where=Site(node="m"))
    assert len(merge([one, other], {"ONX-17": ["ONX-16"]})) == 2


def test_refuted_supersedes_nothing(finding):
    one, other = finding("ONX-17", state="refuted", where=NODE), finding("ONX-16", where=NODE)
    assert len(merge([one, other], {"ONX-17": ["ONX-16"]})) == 2


@pytest.mark.parametrize("state", ["unverified", "suspected", "certain", "contradictory"])
def test_a_confirmed_finding_gives_way_to_a_confirmed_one_only(finding, state):
    loser = finding("GCK-10", where=NODE, state="confirmed")
    assert len(merge([loser, finding("GCK-4", where=NODE, state=state)], {"GCK-4": ["GCK-10"]})) == 2
    assert len(merge([loser, finding("GCK-4", where=NODE, state="confirmed")], {"GCK-4": ["GCK-10"]})) == 1


def test_measured_of_the_whole_model_gives_way_to_a_confirmed_explanation_only(finding):
    measured = finding("EQV-10", "critical", "confirmed", evidence=(ERROR,))
    rules = {"ONX-19": ["EQV-10"]}
    assert len(merge([finding("ONX-19", state="likely", where=NODE), measured], rules)) == 2
    (only,) = merge([finding("ONX-19", "high", "confirmed", where=NODE), measured], rules)
    assert (only.rule, only.also, only.evidence) == ("ONX-19", ("EQV-10",), (ERROR,))
    assert only.severity == "critical", "merging must not make a model look better"


def test_refuted_loser_does_not_raise_the_severity(finding):
    one, other = finding("A-1", "low", where=NODE), finding("B-1", "critical", "refuted", where=NODE)
    (only,) = merge([one, other], {"A-1": ["B-1"]})
    assert only.severity == "low"


def test_chain_ends_at_the_last_heir_in_any_order(finding):
    findings = [finding(rule, where=NODE) for rule in ("A", "B", "C")]
    for rules in ({"A": ["B"], "B": ["C"]}, {"B": ["C"], "A": ["B"]}):
        (only,) = merge(findings, rules)
        assert (only.rule, only.also) == ("A", ("B", "C"))


def test_circle_keeps_one(finding):
    (only,) = merge([finding("A", where=NODE), finding("B", where=NODE)], {"A": ["B"], "B": ["A"]})
    assert only.rule == "A"


def test_other_targets_do_not_give_way(finding):
    one, other = finding("A", where=NODE), finding("B", where=NODE, target="jax")
    assert len(merge([one, other], {"A": ["B"]})) == 2


def test_evidence_with_lists_is_merged_once(finding):
    row = Measurement("reference.state_changed", "model", ["h", "c"])
    same = Measurement("reference.state_changed", "model", ["h", "c"])
    (only,) = merge([finding("A", where=NODE, evidence=(row,)), finding("A", where=NODE, evidence=(same,))], {})
    assert only.evidence == (row,)


def test_worst_first(finding):
    merged = merge([finding("A", "low"), finding("B", "critical"), finding("C", "critical", "refuted")], {})
    assert [each.rule for each in merged] == ["B", "A", "C"]
