from __future__ import annotations

import json

import pytest

from tensoraudit.errors import InputError
from tensoraudit.findings.baseline import apply_baseline, baseline_from_report, read_baseline


def report(tmp_path, findings, suppressed=()):
    path = tmp_path / "report.json"
    path.write_text(
        json.dumps({"schema": "tensoraudit-report/1", "findings": findings, "suppressed": list(suppressed)})
    )
    return path


def entry(mark, rule="A-1", state="certain"):
    return {"fingerprint": mark, "rule": rule, "title": f"t {rule}", "state": state}


def test_report_becomes_fingerprints_with_counts(tmp_path):
    findings = [entry("bb", "B-1"), entry("aa"), entry("aa"), entry("cc", state="refuted"), entry("dd", state="advice")]
    known = {"finding": entry("ee", "A-2"), "reason": "known in old.json", "by": "baseline"}
    inline = {"finding": entry("ff", "A-3"), "reason": "r", "by": "comment"}
    assert baseline_from_report(report(tmp_path, findings, [known, inline])) == {
        "schema": "tensoraudit-baseline/1",
        "findings": [
            {"fingerprint": "aa", "rule": "A-1", "title": "t A-1", "count": 2},
            {"fingerprint": "ee", "rule": "A-2", "title": "t A-2", "count": 1},
            {"fingerprint": "bb", "rule": "B-1", "title": "t B-1", "count": 1},
        ],
    }


def test_round_trip(tmp_path):
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps(baseline_from_report(report(tmp_path, [entry("aa"), entry("aa")]))))
    assert read_baseline(path) == {"aa": 2}


def test_known_as_often_as_counted_and_the_rest_is_new(finding):
    findings = [finding("A-1", fingerprint="aa", message=str(n)) for n in range(3)]
    findings += [finding("A-2", fingerprint="bb"), finding("A-3", state="refuted", fingerprint="aa")]
    split = apply_baseline(findings, {"aa": 2, "zz": 1}, "baseline.json")
    assert [each.finding.message for each in split.known] == ["0", "1"]
    assert {(each.reason, each.by) for each in split.known} == {("known in baseline.json", "baseline")}
    assert split.new == findings[2:]
    assert split.gone == ["zz"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "its schema is not tensoraudit-baseline/1"),
        (b'{"schema": "tensoraudit-report/1"}', "its schema is not tensoraudit-baseline/1"),
        (b'{"schema": "tensoraudit-baseline/1", "findings": [{}]}', "damaged"),
        (b'{"schema": "tensoraudit-baseline/1", "findings": 3}', "damaged"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_file_that_is_no_baseline(tmp_path, content, message):
    path = tmp_path / "b.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        read_baseline(path)
    assert error.value.where == str(path)
    assert error.value.remedy


def test_file_that_is_no_report(tmp_path):
    (tmp_path / "r.json").write_text('{"schema": "tensoraudit-report/1", "findings": [{"state": "certain"}]}')
    with pytest.raises(InputError, match="damaged"):
        baseline_from_report(tmp_path / "r.json")
