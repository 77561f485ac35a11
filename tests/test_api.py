"""The public names, and that the Python API and the command line tell the same."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tensoraudit
from tensoraudit.report.json import without_moving_parts

ROOT = Path(__file__).parents[1]
MODEL = f"{ROOT / 'fixtures/faults/lost_view_write.py'}:twin"
VIA = "torch_onnx_torchscript"


def test_every_public_name_is_there():
    assert set(tensoraudit.__all__) == {
        *("Comparison", "LoadedCheckpoint", "TensorSpec", "__version__"),
        *("compare", "compare_arrays", "load_checkpoint", "scan"),
    }
    assert all(getattr(tensoraudit, name) for name in tensoraudit.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tensoraudit.nothing


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, tensoraudit; print({'numpy', 'typer', 'rich', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.slow
def test_the_same_scan_gives_the_same_bytes_from_python_and_from_the_command_line():
    command = [sys.executable, "-m", "tensoraudit", "scan", MODEL, "--via", VIA, "--report", "json"]
    printed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout)
    returned = json.loads(json.dumps(tensoraudit.scan(MODEL, via=VIA)))
    first, second = (json.dumps(without_moving_parts(each), sort_keys=True) for each in (printed, returned))
    assert first == second


def test_the_readme_names_only_commands_and_files_that_exist():
    readme = (ROOT / "README.md").read_text()
    links = [part.split(")")[0] for part in readme.split("](")[1:]]
    assert links
    assert all((ROOT / link).exists() for link in links)


@pytest.mark.slow
def test_gradients_that_were_asked_for_and_cannot_be_had_are_no_pass():
    report = tensoraudit.scan(MODEL, via=VIA, gradients=True)
    row = next(probe for probe in report["probes"] if probe["name"] == "gradients")
    assert (row["status"], bool(row["reason"])) == ("unsupported", True)
    assert (report["grade"]["onnx"], report["exit_code"]) == ("C?", 3)


@pytest.mark.slow
def test_an_input_of_the_user_that_the_reference_refuses_is_no_pass(tmp_path):
    """The twin adds a vector of 7 to its input: an array of 5 columns cannot be judged, whatever the others say."""
    import numpy as np

    for name, columns in (("right", 7), ("wrong", 5)):
        np.savez(tmp_path / f"{name}.npz", x=np.ones((3, columns), np.float32))
    model = tmp_path / "model.py"
    model.write_text(
        "import torch\nclass Add(torch.nn.Module):\n    def forward(self, x):\n        return x + torch.arange(7.0)\n"
        "def make():\n    return Add().eval()\n"
    )
    files = [str(tmp_path / "right.npz"), str(tmp_path / "wrong.npz")]
    report = tensoraudit.scan(f"{model}:make", inputs=files, via=VIA)
    refused = [probe["name"] for probe in report["probes"] if probe["required"] and probe["status"] == "failed"]
    assert refused == ["reference.sample-1"]
    assert report["exit_code"] in {1, 3}
    assert report["grade"]["onnx"].endswith("?")
