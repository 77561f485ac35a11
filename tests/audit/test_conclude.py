"""The last steps: what a report holds is the same in every run."""

from pathlib import Path

from tensoraudit.artifacts.artifact import Artifact
from tensoraudit.audit.conclude import conclude
from tensoraudit.audit.state import Audit
from tensoraudit.facts import Site
from tensoraudit.findings.finding import Finding, Layer, Severity, State
from tensoraudit.findings.result import Conversion, Equivalence, FirstDivergence, Probe
from tensoraudit.language.load import RuleSet
from tensoraudit.options import Options


class Pool:
    folder = Path("/tmp/tensoraudit-1a2b3c")


def test_no_text_of_a_report_names_the_run_folder():
    """Found where a port through ONNX named the converted file's place: another one in every run, and gone by then."""
    file = f"{Pool.folder}/hop0-tf2onnx.onnx"
    divergence = FirstDivergence("MatMul", "mm", "m.py:3", None, None, candidate_line=f"{file}:2")
    row = Equivalence("tensorflow/cpu", "r@pytorch/cpu", "output", "y", "s0", "break", first_divergence=divergence)
    details = {"source": {"path": file, "line": 4}, "traceback": f'File "{file}"', "warnings": [f"{file}: odd"]}
    audit = Audit(
        Options(target=("pytorch",)),
        lambda text: None,
        pool=Pool(),
        artifact=Artifact("m", "saved_model", "tensorflow"),
        rules=RuleSet(()),
        equivalence=(row,),
        conversions=(Conversion("pytorch", "r", "failed", True, cause=f"{file} is odd", details=details),),
        probes=(Probe("convert.r", "pytorch", "", "cpu", "failed", f"{file} is odd", target="pytorch"),),
        notes=(f"{file} was written",),
        findings=(
            Finding("CNV-001", "t", Severity.HIGH, State.CONFIRMED, Layer.GRAPH, "pytorch", Site(), f"in {file}"),
        ),
    )
    result = conclude(audit).result
    assert (result.findings[0].severity, result.grade) == (Severity.HIGH, {"pytorch": "D"})
    assert "tensoraudit-1a2b3c" not in repr(result)
    assert result.equivalence[0].first_divergence.candidate_line == "hop0-tf2onnx.onnx:2"
    assert result.conversions[0].details["source"] == {"path": "hop0-tf2onnx.onnx", "line": 4}
