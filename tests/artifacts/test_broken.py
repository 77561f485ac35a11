"""What a user is told about every file of fixtures/broken."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tensoraudit.artifacts.identify import identify
from tensoraudit.artifacts.state import require_model
from tensoraudit.errors import InputError
from tensoraudit.extract.onnx import read_onnx

SAYS = {
    "absolute-name.pt": "'/etc/cron.d/evil' has a name that leads out of the archive",
    "absolute.onnx": r"'/etc/hostname' \(absolute\)",
    "bare.pkl": "a pickle that torch.save did not write",
    "bomb-directory.pt": "a zip directory of 3,221,225,472 bytes",
    "bomb-overlap.pt": "'m/copy.pkl' overlaps another",
    "bomb-ratio.pt": "unpacks 16,310 bytes to 16,777,216, as a bomb does",
    "case-twin.pt": "'m/DATA.PKL' twice",
    "climbing-name.pt": "'m/../../evil.py' has a name that leads out",
    "config.onnx": "is named .onnx, but is JSON",
    "cycle.onnx": "a cycle in graph 'main'.*Add_of_a -> Relu_of_b -> Add_of_a",
    "deep.onnx": "nested more than 32 deep",
    "empty.onnx": "is an empty file",
    "encrypted.pt": "'m/version' is encrypted",
    "image.onnx": "is named .onnx, but is a PNG image",
    "link.pt": "is a symbolic link",
    "missing-data.onnx": r"'nowhere.bin' \(missing\)",
    "missing-storage.pt": "storage '0' is missing",
    "no-graph.onnx": "an ONNX model without a graph",
    "no-json.pt2": "'models/model.json' is no JSON",
    "outside.onnx": r"'../../../../etc/hostname' \(outside\)",
    "page.pt": "an HTML page",
    "plain.zip": "a zip archive that holds no model",
    "pointer.onnx": "is named .onnx, but is a Git LFS pointer.*git lfs pull",
    "saved_model.onnx": "a protobuf file, but no ONNX model",
    "settings.pt": "a dict without tensors under names .keys 'lr', 'steps'.",
    "short-data.onnx": r"'short.bin' \(truncated\)",
    "short-storage.pt": "storage '0' is cut short",
    "short.bin": "of no format that is known here",
    "tensor.pt": "one tensor, no model",
    "truncated-legacy.pt": "storage '0' is cut short",
    "truncated.onnx": "a damaged or truncated ONNX model .field 7 at byte 13 declares 62 bytes",
    "truncated.pt": "a truncated zip archive",
    "two-directories.pt": "a zip directory that is not where its end record says",
}
ASKS = {
    "computed-name.pt": ("pickled_module", ("?", "builtins.getattr")),
    "evaluates-code.pt2": ("exported_program", ("sympify(\"open('pwned', 'w')\")",)),
    "extension.pt": ("pickled_module", ("?",)),
    "runs-code-before-magic.pt": ("state_dict", ("posix.system",)),
    "runs-code-in-state-dict.pt": ("state_dict", ("posix.system",)),
    "runs-code-legacy.pt": ("state_dict", ("posix.system",)),
    "runs-code.pt": ("pickled_module", ("builtins.open",)),
    "runs-code.pt2": ("exported_program", ("posix.system",)),
}
GOOD = {"checkpoint.onnx"}


def test_every_file_has_an_answer(make: ModuleType) -> None:
    assert set(make.MAKERS) == {*SAYS, *ASKS, *GOOD}


def test_the_script_makes_these_files(make: ModuleType, broken: Path, tmp_path: Path) -> None:
    make.main(tmp_path)
    for name in make.MAKERS:
        assert (tmp_path / name).read_bytes() == (broken / name).read_bytes(), name


@pytest.mark.parametrize("name", SAYS)
def test_what_is_wrong_is_said(broken: Path, name: str) -> None:
    with pytest.raises(InputError, match=SAYS[name]) as caught:
        artifact = identify(str(broken / name))
        assert artifact.format == "onnx" and artifact.path is not None
        read_onnx(artifact.path)
    error = caught.value
    assert error.where == str(broken / name) and error.remedy
    assert "Traceback" not in str(error) and "\n" not in str(error) and len(str(error)) < 500


@pytest.mark.parametrize("name", ASKS)
def test_what_would_run_is_listed_and_refused(broken: Path, name: str) -> None:
    artifact = identify(str(broken / name))
    assert (artifact.format, artifact.imports) == ASKS[name]
    with pytest.raises(InputError, match=r"loading it can run any code.*--trust") as caught:
        require_model(artifact, "model.py:build", trust=False)
    assert all(each.replace("?", "a name that it computes") in str(caught.value) for each in artifact.imports)
    require_model(artifact, "model.py:build", trust=True)


def test_a_wrong_name_does_not_matter_but_is_remarked_on(broken: Path) -> None:
    artifact = identify(str(broken / "checkpoint.onnx"))
    assert (artifact.format, artifact.imports) == ("state_dict", ())
    assert artifact.details["misnamed"] == "is named .onnx, but its content is state_dict"


def test_no_framework_is_imported() -> None:
    """In a fresh interpreter, for this one has torch from other tests."""
    import subprocess

    code = (
        "import sys, tensoraudit.artifacts.identify, tensoraudit.artifacts.inputs, tensoraudit.artifacts.state;"
        "import tensoraudit.extract.onnx;"
        "print([name for name in ('torch', 'onnx', 'onnxruntime', 'google.protobuf') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
