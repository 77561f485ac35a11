from __future__ import annotations

from dataclasses import replace

from tensoraudit.facts import Measurement, Node, Site, Unknown
from tensoraudit.facts.store import FactStore
from tensoraudit.findings.settle import _join, findings_from_matches
from tensoraudit.language.engine import match_rules
from tensoraudit.language.load import RuleSet, parse_rules

RULES = """
id: GR-001
title: Convolution with a dilation
severity: high
layer: graph
certainty: {certainty}
match:
  node: Conv
  domain: ""
  attributes: {{dilations: {{any: {{gt: 1}}}}}}
confirm:
  probe: outputs
  confirmed: {{measurement: output.verdict, value: break}}
  refuted: {{measurement: output.verdict, value: [identical, equivalent, noise], quantifier: every}}
message: "{{name}} is dilated."
why: Because.
remedy: Do this.
fix: "a  ->  b"
references: [onnx/onnx docs/Operators.md]
examples:
  - onnx: |
      y = Conv <dilations = [2, 2]> (x, w)   # flag
  - onnx: |
      y = Conv (x, w)
"""
EQV = """
id: EQV-001
title: Output that breaks
severity: critical
layer: graph
match:
  measurement: {metric}
  value: {value}
message: "{{subject}}: {{value}}"
why: Because.
remedy: Do this.
references: [onnx/onnx docs/Overview.md]
examples:
  - measurements: [{{measurement: {metric}, subject: logits, value: {value}}}]
    flag: [{metric}]
  - measurements: [{{measurement: levels.verdict, subject: logits, value: other}}]
    flag: []
"""


def rules(text: str, **values: str) -> RuleSet:
    found, problems = parse_rules(text.format(**values))
    assert not problems, problems
    return RuleSet(tuple(found))


def settle(rule_set: RuleSet, facts, probes=None, **more):
    store = FactStore(facts)
    matches = match_rules(rule_set, store, source="pytorch", target="onnx")
    return findings_from_matches(matches, store, "onnx", probes=probes, **more)


def conv(dilations=(2, 2), name="c"):
    attributes = {"dilations": dilations}
    return Node("Conv", "", 20, name, attributes, ("x", "w"), ("y",), "main", Site(path="/tmp/run/a.onnx"), "target")


def verdict(value, subject="y", detail="random-0"):
    return Measurement("output.verdict", subject, value, probe="forward", side="target", target="onnx", detail=detail)


def test_match_without_probes_keeps_its_state_and_the_words_of_its_rule():
    (found,) = settle(rules(RULES, certainty="likely"), [conv()])
    assert (found.rule, found.state, found.severity, found.layer, found.target) == (
        "GR-001", "likely", "high", "graph", "onnx",
    )  # fmt: skip
    assert (found.message, found.why, found.remedy, found.fix) == ("c is dilated.", "Because.", "Do this.", "a  ->  b")
    assert found.references == ("onnx/onnx docs/Operators.md",)
    assert found.where == Site(path="/tmp/run/a.onnx", node="c")
    assert len(found.fingerprint) == 16
    assert found.evidence == ()


def test_measurements_confirm():
    row = verdict("break")
    (found,) = settle(rules(RULES, certainty="likely"), [conv(), row], {})
    assert (found.state, found.evidence) == ("confirmed", (row,))


def test_measurements_refute_and_stay_as_evidence():
    row = verdict("noise")
    (found,) = settle(rules(RULES, certainty="certain"), [conv(), row], {})
    assert (found.state, found.evidence) == ("refuted", (row,))


def test_probe_that_did_not_run_leaves_it_unverified_with_the_reason():
    (found,) = settle(rules(RULES, certainty="likely"), [conv()], {"outputs": "crashed: signal 11"})
    assert found.state == "unverified"
    assert "outputs crashed: signal 11" in found.reason


def test_what_cannot_be_decided_is_suspected_and_says_so():
    (found,) = settle(rules(RULES, certainty="certain"), [conv(Unknown("an input"))])
    assert found.state == "suspected"
    assert "cannot be decided" in found.reason


def test_rule_that_is_only_a_suspicion_says_so():
    (found,) = settle(rules(RULES, certainty="suspected"), [conv()])
    assert (found.state, found.reason) == ("suspected", "the pattern alone proves nothing; only a run can")


def test_note_stays_a_note_unless_a_probe_speaks():
    advice = rules(RULES, certainty="advice")
    assert [each.state for each in settle(advice, [conv()], {})] == ["advice"]
    assert [each.state for each in settle(advice, [conv(), verdict("break")], {})] == ["confirmed"]
    assert [each.state for each in settle(advice, [conv(), verdict("identical")], {})] == ["refuted"]


def test_place_is_shown_as_the_caller_wants():
    (found,) = settle(rules(RULES, certainty="likely"), [conv()], relocate=lambda site: Site(node=site.node))
    assert found.where == Site(node="c")


def test_measured_rule_is_confirmed_by_its_own_measurement_and_placed_at_the_output():
    row = verdict("break", "logits")
    (found,) = settle(rules(EQV, metric="output.verdict", value="break"), [row], {})
    assert (found.state, found.evidence, found.where) == ("confirmed", (row,), Site(tensor="logits"))


def test_measured_rule_keeps_its_state_where_its_probe_tells_nothing():
    probed = """confirm:
  probe: sizes
  confirmed: {{measurement: sizes.verdict, value: break}}
  refuted: {{measurement: sizes.verdict, value: identical}}
"""
    rule_set = rules(EQV + probed, metric="output.verdict", value="break")
    row, size = verdict("break", "logits"), Measurement("sizes.verdict", "batch=3", "identical", target="onnx")
    assert [each.state for each in settle(rule_set, [row], {})] == ["confirmed"]
    assert [each.state for each in settle(rule_set, [row, size], {})] == ["refuted"]


def test_one_output_on_several_inputs_is_one_finding():
    rows = [verdict("break", "a", f"random-{n}") for n in range(3)] + [verdict("break", "b")]
    first, second = settle(rules(EQV, metric="output.verdict", value="break"), rows, {})
    assert (first.where.tensor, first.evidence) == ("a", tuple(rows[:3]))
    assert first.message == "a: break (2 more measurements of the same kind)"
    assert second.message == "b: break"


def test_sizes_of_one_dimension_are_one_finding():
    rows = [
        Measurement("sizes.verdict", subject, "break", side="target", target="onnx")
        for subject in ("batch=1", "batch=5", "length=11")
    ]
    found = settle(rules(EQV, metric="sizes.verdict", value="break"), rows, {})
    assert [len(each.evidence) for each in found] == [2, 1]


def test_one_error_on_several_inputs_is_one_finding():
    rows = [
        Measurement("run.error", f"random-{n}", text, side="target", target="onnx")
        for n, text in enumerate(["Gather failed", "Gather failed", "Add failed"])
    ]
    found = settle(rules(EQV, metric="run.error", value="{present: true}"), rows, {})
    assert [len(each.evidence) for each in found] == [2, 1]


def test_tensors_of_one_checkpoint_are_one_finding():
    rows = [Measurement("checkpoint.key_extra", f"t{number}", 1, side="source") for number in range(3)]
    other = Measurement("checkpoint.key_extra", "t0", 1, side="target")
    found = settle(rules(EQV, metric="checkpoint.key_extra", value="1"), [*rows, other])
    assert [finding.message for finding in found] == ["t0: 1 (2 more measurements of the same kind)", "t0: 1"]
    assert [row.subject for row in found[0].evidence] == ["t0", "t1", "t2"]


def test_a_suspicion_does_not_hide_what_is_confirmed_beside_it():
    """A folder with a suspected shard before a damaged one read as suspected, one step milder."""
    row = Measurement("checkpoint.key_extra", "t1", 1, side="source")
    (confirmed,) = settle(rules(EQV, metric="checkpoint.key_extra", value="1"), [row])
    suspected = replace(confirmed, state="suspected", message="t0: 1")
    joined = _join([suspected, confirmed])
    assert (joined.state, joined.message) == ("confirmed", "t1: 1 (1 more measurement of the same kind)")
    assert len(joined.evidence) == 2


def test_what_the_files_themselves_measured_decides_without_a_run():
    text = RULES.replace("probe: outputs", "probe: checkpoint")
    text = text.replace("measurement: output.verdict, value: break", "measurement: checkpoint.key_extra, value: 1")
    text = text.replace(
        "measurement: output.verdict, value: [identical, equivalent, noise], quantifier: every",
        "measurement: checkpoint.key_extra, value: 2",
    )
    rule_set = rules(text, certainty="certain")
    for value, state in ((1, "confirmed"), (2, "refuted"), (3, "certain")):
        (finding,) = settle(rule_set, [conv(), Measurement("checkpoint.key_extra", "t", value)])
        assert finding.state == state
