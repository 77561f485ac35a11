"""silero_vad.jit, which no exporter of torch converts: a clear F with the causes, in time, and no traceback."""

import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    folder = Path(importlib.util.find_spec("silero_vad").submodule_search_locations[0])
    out = tmp_path_factory.mktemp("silero") / "report.json"
    command = [sys.executable, "-m", "tensoraudit", "scan", str(folder / "data/silero_vad.jit"), "--target", "onnx"]
    command += [
        "--input",
        "x:float32[1,512]",
        "--input",
        "sr:int64[]=16000",
        "--report",
        "console",
        "--report",
        f"json={out}",
    ]
    clock = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done, json.loads(out.read_text()), time.monotonic() - clock


def test_it_ends_in_time_with_grade_f_and_exit_code_1(audited):
    done, report, seconds = audited
    assert (done.returncode, report["grade"]["onnx"]) == (1, "F")
    assert seconds < 60


def test_no_traceback_is_on_screen(audited):
    done = audited[0]
    assert "Traceback" not in done.stdout + done.stderr


def test_the_causes_are_named(audited):
    report = audited[1]
    causes = {c["route"]: c for c in report["conversions"]}
    assert all(c["status"] == "failed" and c["cause"] for c in causes.values())
    assert causes["torch_onnx_torchscript"]["details"]["operator"] == "aten::__not__"
    assert causes["torch_onnx_dynamo"]["details"]["operator"] == "prim::If"
    assert causes["torch_onnx_torchscript"]["details"]["source"]["text"] == "if not len(self._context):"
    assert all(c["details"]["source"]["path"].endswith("vad_annotator.py") for c in causes.values())


def test_attribute_state_and_control_flow_are_found(audited):
    text = json.dumps(audited[1]["findings"])
    assert "_state" in text
    assert "prim::If" in text or "control flow" in text.lower()
