"""From suspicion to proof: what measurements make of a match."""

import pytest

from tensoraudit.facts import Measurement
from tensoraudit.facts.store import FactStore
from tensoraudit.language.confirm import settle_confirm
from tensoraudit.language.engine import match_rules
from tensoraudit.language.load import RuleSet

VERDICT = """
confirm:
  probe: outputs
  confirmed: {measurement: output.verdict, value: [drift, break]}
  refuted: {measurement: output.verdict, value: [identical, equivalent, noise], quantifier: every}
"""


def settle(lang, confirm, *rows, args=None, target="onnx", probes=None):
    rule = lang.rule("{call: f}", confirm)
    store = FactStore([lang.call("f", args)])
    (match,) = match_rules(RuleSet((rule,)), store, source="pytorch", target=target)
    store.add(rows)
    return settle_confirm(match, store, probes)


def verdict(name, value, target="onnx"):
    return Measurement("output.verdict", name, value, target=target)


@pytest.mark.parametrize(
    ("values", "state", "evidence"),
    [
        (["break"], "confirmed", ["y0"]),
        (["noise", "drift"], "confirmed", ["y1"]),
        (["noise", "identical"], "refuted", ["y0", "y1"]),
        (["unverified"], "unverified", ["y0"]),
        (["noise", "unverified"], "unverified", ["y0", "y1"]),
    ],
)
def test_verdicts(lang, values, state, evidence):
    settled = settle(lang, VERDICT, *(verdict(f"y{n}", value) for n, value in enumerate(values)))
    assert settled.state == state
    assert sorted(row.subject for row in settled.evidence) == evidence


def test_the_reason_says_what_was_measured(lang):
    assert settle(lang, VERDICT, verdict("y", "unverified")).reason == (
        "neither confirmed nor refuted: output.verdict of y is unverified"
    )


def test_without_a_measurement_the_reason_names_the_probe(lang):
    settled = settle(lang, VERDICT)
    assert settled.state == "unverified"
    assert settled.reason == "no output.verdict was measured: probe outputs gave none"
    settled = settle(lang, VERDICT, probes={"outputs": "crashed: SIGSEGV"})
    assert settled.reason == "no output.verdict was measured: probe outputs crashed: SIGSEGV"


def test_both_is_a_fault_of_the_rule(lang):
    both = VERDICT.replace(", quantifier: every", "")
    settled = settle(lang, both, verdict("a", "noise"), verdict("b", "break"))
    assert settled.state == "contradictory"
    assert "at fault" in settled.reason
    assert len(settled.evidence) == 2


def test_measurements_of_another_target_are_not_asked(lang):
    assert settle(lang, VERDICT, verdict("y", "break", target="jax")).state == "unverified"
    assert settle(lang, VERDICT, verdict("y", "break", target="")).state == "confirmed"


def test_a_rule_without_confirm_is_not_settled(lang):
    assert settle(lang, "") is None


SUBJECT = """
confirm:
  probe: session
  confirmed: {measurement: session.loads, subject: "{arg:0|path}", value: false}
  refuted: {measurement: session.loads, subject: "{arg:0|path}", value: true}
"""


def test_a_subject_is_filled_from_the_match(lang):
    rows = [Measurement("session.loads", "a*", False), Measurement("session.loads", "ab", True)]
    assert settle(lang, SUBJECT, *rows, args={0: "a*"}).state == "confirmed"
    assert settle(lang, SUBJECT, *rows, args={0: "ab"}).state == "refuted"


def test_a_subject_that_is_not_known_settles_nothing(lang):
    settled = settle(lang, SUBJECT, Measurement("session.loads", "a", False))
    assert (settled.state, settled.reason) == ("unverified", "arg:0|path is not known")


def test_a_subject_may_be_a_pattern(lang):
    confirm = SUBJECT.replace("{arg:0|path}", "torch_*")
    assert settle(lang, confirm, Measurement("session.loads", "torch_onnx", False)).state == "confirmed"
    assert settle(lang, confirm, Measurement("session.loads", "other", False)).state == "unverified"


JOINED = """
confirm:
  probe: export
  confirmed:
    all:
      - {measurement: export.opset_written, value: 18}
      - any: [{measurement: export.status, value: ok}, {measurement: export.warnings, detail: late}]
  refuted:
    - {measurement: export.opset_written, value: {not: 18}, side: target}
"""


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        ([("export.opset_written", 18, ""), ("export.status", "ok", "")], "confirmed"),
        ([("export.opset_written", 18, ""), ("export.status", "failed", "")], "unverified"),
        ([("export.opset_written", 18, ""), ("export.warnings", "x", "late")], "confirmed"),
        ([("export.opset_written", 17, ""), ("export.status", "ok", "")], "refuted"),
        ([("export.status", "ok", "")], "unverified"),
    ],
)
def test_joined_tests(lang, rows, state):
    facts = [Measurement(metric, "r", value, side="target", detail=detail) for metric, value, detail in rows]
    assert settle(lang, JOINED, *facts).state == state


def test_the_side_of_a_measurement(lang):
    facts = [Measurement("export.opset_written", "r", 17, side="source")]
    assert settle(lang, JOINED, *facts).state == "unverified"


@pytest.mark.parametrize(("value", "state"), [("break", "confirmed"), ("identical", "unverified")])
def test_what_happens_outside_of_a_run_is_not_refuted_by_it(lang, value, state):
    rule = lang.rule("- {call: f, refutable: false}", VERDICT)
    (match,) = match_rules(RuleSet((rule,)), FactStore([lang.call("f")]), source="pytorch", target="onnx")
    settled = settle_confirm(match, FactStore([verdict("y", value)]))
    assert settled.state == state
    assert ("outside of what is run" in settled.reason) is (state == "unverified")


def test_refutable_needs_a_confirm(lang):
    assert lang.problems("- {call: f, refutable: false}") == ["the rule has no 'confirm', so nothing can refute it"]
