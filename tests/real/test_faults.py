"""Every small model with a known fault gets the right verdict, and every right twin comes out clean.

The expected verdicts follow from how each model was made (fixtures/faults), not from what the audit printed.
"""

import subprocess
import sys

import pytest

import tensoraudit

SCANS = {
    # name: (route that is shipped, verdicts that count as found, a rule that must be open)
    "dropout_always_on": (None, {"unverified"}, {"ONX-012", "ONX-041", "EQV-006"}),
    # ONNX Runtime's optimiser removes this Dropout, so the default level is right and every other runtime is not.
    "training_mode": ("torch_onnx_dynamo", {"equivalent", "noise", "unverified"}, {"ONX-012"}),
    "frozen_length": ("torch_onnx_torchscript", {"break"}, {"EQV-004"}),
    "frozen_branch": ("torch_onnx_torchscript", {"break"}, {"EQV-001"}),
    "lost_view_write": ("torch_onnx_torchscript", {"break", "drift"}, {"EQV-001", "EQV-002"}),
    "lost_accumulation": ("torch_onnx_torchscript", {"break", "drift"}, {"EQV-001", "EQV-002"}),
    "random_op": (None, {"unverified"}, {"ONX-041", "EQV-006"}),
    # The first call of either side agrees; what is lost is the second.
    "counter_state": (None, {"identical", "break", "drift"}, {"ONX-014", "EQV-009"}),
    "data_write": ("torch_onnx_torchscript", {"break", "drift"}, {"EQV-001", "EQV-002"}),
}
COMPARISONS = {
    "gelu_variant": {"drift", "break"},
    "batchnorm_eps": {"drift", "break"},
    "layernorm_eps": {"drift", "break"},
    "align_corners": {"break"},
    "int32_overflow": {"break"},
    "nan_from_log": {"break"},
    "argmax_flip": {"break"},
    "fp16_weights": {"drift", "break"},
}
SERIOUS = {"critical", "high", "medium"}
OPEN = {"certain", "likely", "confirmed", "contradictory", "suspected", "unverified"}

EXPORT = """
import importlib.util, sys, warnings, torch
warnings.filterwarnings("ignore")
spec = importlib.util.spec_from_file_location("fault", sys.argv[1])
module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)
torch.manual_seed(0)
torch.onnx.export(getattr(module, sys.argv[2])(), module.sample_inputs(), sys.argv[3], dynamo=False,
                  input_names=["x"], dynamic_axes={"x": {0: "batch"}})
"""


def open_rules(report):
    return {finding["rule"] for finding in report["findings"] if finding["state"] in OPEN}


def serious(report):
    return [
        (finding["rule"], finding["state"], finding["message"])
        for finding in report["findings"]
        if finding["severity"] in SERIOUS and finding["state"] not in {"refuted", "advice", "suspected"}
    ]


def shipped_verdicts(report):
    route = next(c["route"] for c in report["conversions"] if c["ships"])
    return {row["verdict"] for row in report["equivalence"] if row["candidate"].startswith(f"{route}@")}


@pytest.mark.parametrize("name", SCANS)
def test_a_faulty_model_is_found_by_scan(name, root):
    via, verdicts, rules = SCANS[name]
    report = tensoraudit.scan(root / f"fixtures/faults/{name}.py:faulty", via=via)
    assert verdicts & shipped_verdicts(report), report["equivalence"]
    assert rules & open_rules(report), [(f["rule"], f["state"]) for f in report["findings"]]
    assert report["grade"]["onnx"] not in {"A", "B"}
    assert report["exit_code"] in {1, 3}


@pytest.mark.parametrize("name", SCANS)
def test_its_twin_is_clean(name, root):
    report = tensoraudit.scan(root / f"fixtures/faults/{name}.py:twin", via=SCANS[name][0])
    assert shipped_verdicts(report) <= {"identical", "equivalent", "noise"}, report["equivalence"]
    assert not serious(report), serious(report)
    assert report["grade"]["onnx"] in {"A", "B"}
    assert report["exit_code"] == 0


@pytest.fixture(scope="module")
def exported(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("candidates")

    def export(name, which):
        path = folder / f"{name}-{which}.onnx"
        source = root / f"fixtures/faults/{name}.py"
        subprocess.run([sys.executable, "-c", EXPORT, source, which, path], check=True, capture_output=True)
        return path

    return export


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_faulty_candidate_is_found_by_compare(name, root, exported):
    report = tensoraudit.compare(root / f"fixtures/faults/{name}.py:reference", exported(name, "faulty"))
    verdicts = {row["verdict"] for row in report["equivalence"]}
    assert verdicts & COMPARISONS[name], report["equivalence"]
    assert report["grade"]["onnx"] in {"D", "F"}
    assert report["exit_code"] == 1


@pytest.mark.parametrize("name", COMPARISONS)
def test_the_right_candidate_is_clean(name, root, exported):
    report = tensoraudit.compare(root / f"fixtures/faults/{name}.py:reference", exported(name, "twin"))
    assert {row["verdict"] for row in report["equivalence"]} <= {"identical", "equivalent", "noise"}, report[
        "equivalence"
    ]
    assert not serious(report), serious(report)
    assert report["exit_code"] == 0


def test_an_exporter_that_dies_is_reported_and_the_audit_goes_on(root):
    """torch 2.13 ends with a segmentation fault when its dynamo exporter meets a write through `.data`."""
    report = tensoraudit.scan(root / "fixtures/faults/data_write.py:faulty")
    status = {conversion["route"]: conversion["status"] for conversion in report["conversions"]}
    assert status["torch_onnx_torchscript"] == "ok"
    if status["torch_onnx_dynamo"] != "ok":  # a later torch may mend it
        assert status["torch_onnx_dynamo"] in {"crashed", "failed"}
    assert {"break", "drift"} & shipped_verdicts(report)
    assert report["exit_code"] == 1


def test_a_route_that_refuses_is_no_pass_because_another_one_works(root):
    """The dynamo exporter stops at a data-dependent branch; the TorchScript one freezes it and goes on."""
    report = tensoraudit.scan(root / "fixtures/faults/frozen_branch.py:faulty", via="torch_onnx_dynamo")
    assert "CNV-007" in open_rules(report)
    assert (report["grade"]["onnx"], report["exit_code"]) == ("F", 1)
