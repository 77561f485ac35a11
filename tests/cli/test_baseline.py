import json

import pytest


@pytest.fixture
def faulty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "serve.py").write_text(
        "import onnx\nmodel = onnx.load('m.onnx')\nonnx.checker.check_model(model)\n"
        "import onnxruntime\nonnxruntime.InferenceSession('m.onnx', providers=['CUDAExecutionProvider'])\n"
    )
    return tmp_path


def test_known_findings_do_not_gate_again(cli, faulty):
    code, _, _ = cli("lint", "serve.py", "--report", "json=first.json", "--fail-on", "low")
    found = json.loads((faulty / "first.json").read_text())["findings"]
    assert (code, bool(found)) == (1, True)
    assert cli("baseline", "write", "first.json")[0] == 0
    code, _, _ = cli(
        "lint", "serve.py", "--report", "json=second.json", "--fail-on", "low", "--baseline", "baseline.json"
    )
    second = json.loads((faulty / "second.json").read_text())
    assert code == 0
    assert {each["by"] for each in second["suppressed"]} == {"baseline"}


def test_a_report_that_is_none_is_refused(cli, faulty):
    code, _, err = cli("baseline", "write", "serve.py")
    assert code == 2
    assert "serve.py" in err
