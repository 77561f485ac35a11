from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from tensoraudit.errors import ConfigError
from tensoraudit.facts import Site
from tensoraudit.findings.comments import comments_in, read_comments
from tensoraudit.findings.suppress import read_config, suppress

KNOWN = {"A-1": "A-1", "A-2": "A-2", "OLD-1": "A-1"}
TODAY = date(2026, 11, 29)


def at(line, path="net.py", **more):
    return Site(path=path, line=line, **more)


def run(findings, text="", *, config=(), asked=("A-1", "A-2")):
    rules = [*comments_in(text, "net.py"), *read_config(config)]
    return suppress(findings, rules, known=KNOWN, asked=asked, today=TODAY)


def test_comment_on_the_line_with_a_reason(finding):
    kept, silenced = run([finding("A-1", where=at(2))], "x = 1\ny = f(x)  # tensoraudit: ignore[A-1] checked by hand\n")
    assert kept == []
    assert [(each.finding.rule, each.reason, each.by) for each in silenced] == [("A-1", "checked by hand", "comment")]


def test_comment_anywhere_in_a_statement_of_several_lines(finding):
    text = "y = f(\n    a,\n    g(b),  # tensoraudit: ignore[A-1, A-2] both are known\n    c,\n)\nz = 1\n"
    findings = [finding("A-1", where=at(1)), finding("A-2", where=at(3)), finding("A-2", where=at(6))]
    kept, silenced = run(findings, text)
    assert kept == [findings[2]]
    assert len(silenced) == 2


def test_comment_on_a_head_speaks_of_the_head_only(finding):
    text = "with f(x):  # tensoraudit: ignore[A-1] here\n    g(x)\n"
    kept, silenced = run([finding("A-1", where=at(1)), finding("A-1", where=at(2))], text)
    assert [each.where.line for each in kept] == [2]
    assert len(silenced) == 1


def test_comment_inside_a_function_does_not_speak_of_the_function(finding):
    text = "def f(x):\n    return g(x)  # tensoraudit: ignore[A-1] only this\n"
    kept, _ = run([finding("A-1", where=at(1, end_line=2)), finding("A-1", where=at(2))], text)
    assert [each.where.line for each in kept] == [1]


def test_whole_file(finding):
    text = "# tensoraudit: file-ignore[A-1] generated code\nx = 1\n"
    findings = [finding("A-1", where=at(70)), finding("A-1", where=at(70, path="other.py"))]
    kept, silenced = run(findings, text)
    assert kept == [findings[1]]
    assert silenced[0].finding is findings[0]


def test_alias_of_a_rule_works(finding):
    kept, silenced = run([finding("A-1", where=at(1))], "f()  # tensoraudit: ignore[OLD-1] reason\n")
    assert (kept, len(silenced)) == ([], 1)


def test_without_a_reason_nothing_is_silenced(finding):
    kept, silenced = run([finding("A-1", where=at(1))], "f()  # tensoraudit: ignore[A-1]\n")
    assert silenced == []
    assert [each.rule for each in kept] == ["A-1", "SUP-001"]
    fault = kept[1]
    assert (fault.severity, fault.state, fault.where) == ("low", "certain", at(1))
    assert fault.message == "ignore[A-1] gives no reason."
    assert len(fault.fingerprint) == 16


@pytest.mark.parametrize("comment", ["ignore[NOPE-9] reason", "ignore reason", "ignore[] reason", "file-ignore why"])
def test_unknown_rule_and_blanket_ignore_are_findings(finding, comment):
    kept, silenced = run([finding("A-1", where=at(1))], f"f()  # tensoraudit: {comment}\n")
    assert silenced == []
    assert [each.rule for each in kept] == ["A-1", "SUP-002"]


def test_suppression_that_is_not_needed_is_a_finding(finding):
    text = "f()  # tensoraudit: ignore[A-1,A-2] reason\n"
    kept, _ = run([finding("A-2", where=at(1))], text)
    assert [(each.rule, each.message) for each in kept] == [("SUP-003", "A-1 is not found here.")]


def test_rule_that_was_not_asked_is_not_called_unneeded():
    kept, _ = run([], "f()  # tensoraudit: ignore[A-1] reason\n", asked=())
    assert kept == []


def test_words_in_a_string_are_no_comment(finding):
    kept, silenced = run([finding("A-1", where=at(1))], 's = "# tensoraudit: ignore[A-1] no"\n')
    assert (len(kept), silenced) == (1, [])


def test_source_that_does_not_parse_still_has_its_lines(finding):
    text = "f()  # tensoraudit: ignore[A-1] reason\ndef broken(:\n"
    kept, silenced = run([finding("A-1", where=at(1))], text)
    assert (kept, len(silenced)) == ([], 1)


def test_files_that_cannot_be_read_have_no_comments(tmp_path):
    (tmp_path / "latin.py").write_bytes(b"# tensoraudit: ignore[A-1] caf\xe9\n")
    (tmp_path / "good.py").write_text("f()  # tensoraudit: ignore[A-1] why\n")
    names = ("latin.py", "good.py", "gone.py")
    assert [each.path for each in read_comments((tmp_path / name, name) for name in names)] == ["good.py"]


def test_configuration_by_glob_over_any_place(finding):
    findings = [
        finding("A-1", where=Site(path="m.onnx", node="/layer.0/Conv")),
        finding("A-1", where=Site(path="m.onnx", node="/layer.1/Conv")),
        finding("A-2", where=Site(variable="TF32")),
        finding("A-1", where=at(3, path="model/net.py")),
    ]
    config = [
        {"rule": "A-1", "where": "/layer.0/*", "reason": "known"},
        {"rule": ["A-2", "A-1"], "where": "TF32", "reason": "set by the cluster"},
        {"rule": "A-1", "where": "model/*.py", "reason": "third party"},
    ]
    kept, silenced = run(findings, config=config)
    assert [each for each in kept if each.rule == "A-1"] == [findings[1]]
    assert [each.reason for each in silenced] == ["known", "set by the cluster", "third party"]
    assert {each.by for each in silenced} == {"configuration"}


def test_configuration_without_a_place_holds_everywhere(finding):
    kept, silenced = run([finding("A-1"), finding("A-1", where=at(3))], config=[{"rule": "A-1", "reason": "known"}])
    assert (kept, len(silenced)) == ([], 2)


@pytest.mark.parametrize("until", ["2026-11-28", date(2026, 11, 28), datetime(2026, 11, 28, 23, tzinfo=UTC)])
def test_past_its_date_it_fails(finding, until):
    config = [{"rule": "A-1", "reason": "later", "until": until}]
    kept, silenced = run([finding("A-1")], config=config)
    assert silenced == []
    assert [each.rule for each in kept] == ["A-1", "SUP-004"]
    assert kept[1].message == "The suppression of A-1 ended on 2026-11-28."


def test_the_last_day_still_counts(finding):
    kept, _ = run([finding("A-1")], config=[{"rule": "A-1", "reason": "later", "until": TODAY}])
    assert kept == []


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"reason": "r"}, "no rule is named"),
        ({"rule": "", "reason": "r"}, "no rule is named"),
        ({"rule": [], "reason": "r"}, "no rule is named"),
        ({"rule": 3, "reason": "r"}, "no rule is named"),
        ({"rule": [3], "reason": "r"}, "no rule is named"),
        ({"rule": "A-1"}, "the reason is missing"),
        ({"rule": "A-1", "reason": "  "}, "the reason is missing"),
        ({"rule": "A-1", "reason": "r", "until": "soon"}, "'soon' is no date"),
        ({"rule": "A-1", "reason": "r", "path": "x"}, "unknown key 'path'"),
        ({"rule": "A-1", "reason": "r", "where": 3}, "where must be a text"),
        ("A-1", "an entry must be a table"),
    ],
)
def test_wrong_configuration_is_named(entry, message):
    with pytest.raises(ConfigError) as error:
        read_config([{"rule": "A-1", "reason": "fine"}, entry])
    assert message in error.value.message
    assert error.value.where == "tool.tensoraudit.ignore[1]"
