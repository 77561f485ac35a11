from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from tensoraudit.findings.result import Probe
from tensoraudit.report.junit import render


def cases(result):
    root = ElementTree.fromstring(render(result))
    return root, {f"{c.get('classname')}|{c.get('name')}": c for c in root.iter("testcase")}


def outcome(case):
    found = [child.tag for child in case if child.tag in {"failure", "error", "skipped"}]
    return found[0] if found else "pass"


def outcomes(result):
    return {key: outcome(case) for key, case in cases(result)[1].items()}


def test_findings(rich_result):
    found = {
        key.split("|")[0].rpartition(".")[2]: value for key, value in outcomes(rich_result).items() if "findings" in key
    }
    assert found == {
        "EQV-001": "failure",
        "ONX-030": "failure",
        "ONX-012": "skipped",
        "SUP-001": "skipped",
        "ONX-014": "pass",
        "PRT-001": "skipped",
        "ONX-020": "skipped",
        "ONX-021": "skipped",
    }


def test_fail_on_moves_the_line(rich_result):
    strict = outcomes(replace(rich_result, fail_on="low"))
    assert sum(value == "failure" for key, value in strict.items() if key.startswith("findings")) == 4
    lenient = outcomes(replace(rich_result, fail_on="never"))
    assert "failure" not in lenient.values()


def test_tensors(rich_result):
    found = {key.split("|")[1]: value for key, value in outcomes(rich_result).items() if key.startswith("equivalence")}
    assert found == {
        "output logits [random-0]": "failure",
        "output logits [batch=5]": "pass",
        "output boxes [random-0]": "pass",
        "output boxes [batch=5]": "skipped",
    }
    _, by_name = cases(rich_result)
    case = by_name["equivalence.torch_onnx_dynamo@onnxruntime/cpu|output boxes [batch=5]"]
    assert case.find("skipped").get("message") == "unverified: the candidate differs from itself"


@pytest.mark.parametrize("status", ["crashed", "timeout", "missing", "unsupported", "failed"])
def test_probe_that_did_not_run_is_never_a_plain_pass(result_of, status):
    probes = [
        Probe("needed", "onnxruntime", "", "cpu", status, "why", required=True),
        Probe("optional", "onnxruntime", "", "cuda", status, "why"),
        Probe("fine", "onnxruntime", "", "cpu", "ok", seconds=1.25, required=True),
    ]
    _, by_name = cases(result_of([], probes))
    needed, optional, fine = (by_name[f"probes|{n}"] for n in ("needed [cpu]", "optional [cuda]", "fine [cpu]"))
    assert (outcome(needed), outcome(optional), outcome(fine)) == ("error", "skipped", "pass")
    assert needed.find("error").attrib == {"message": f"{status} (why)", "type": status}
    assert optional.find("skipped").get("message") == f"{status} (why)"
    assert fine.get("time") == "1.250"


def test_counts_add_up(rich_result):
    root, by_name = cases(rich_result)
    assert int(root.get("tests")) == len(by_name) == 15
    for tag, key in {"failure": "failures", "error": "errors", "skipped": "skipped"}.items():
        assert int(root.get(key)) == sum(outcome(case) == tag for case in by_name.values())
        assert int(root.get(key)) == sum(int(suite.get(key)) for suite in root)


def test_text_of_models_is_harmless(rich_result):
    text = render(rich_result)
    assert "\x1b" not in text
    assert "<script" not in text
    ElementTree.fromstring(text.encode())
