from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from tensoraudit.artifacts.identify import identify
from tensoraudit.errors import InputError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text("import nothing_installed\n\ndef build():\n    return 1\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("open('pwned', 'w')\n")
    (tmp_path / "weights.pt").write_bytes(b"\x80\x02N.")
    (tmp_path / "notes").write_text("text\n")
    return tmp_path


def test_objects(folder: Path) -> None:
    artifact = identify("model.py:build")
    assert (artifact.format, artifact.path, artifact.attribute, artifact.module) == (
        "python_object", Path("model.py"), "build", None,
    )  # fmt: skip
    assert artifact.spec == "model.py:build" and artifact.framework == "pytorch"
    nested = identify(f"{folder}/model.py:Outer.inner")
    assert nested.attribute == "Outer.inner"
    dotted = identify("some.package:name")
    assert (dotted.module, dotted.attribute, dotted.path) == ("some.package", "name", None)


def test_a_module_that_is_a_folder_here_is_not_imported(folder: Path) -> None:
    artifact = identify("package:build")
    assert (artifact.module, artifact.attribute) == ("package", "build")


def test_sources(folder: Path) -> None:
    for spec in ("model.py", "package", "."):
        artifact = identify(spec)
        assert (artifact.format, artifact.framework, artifact.path) == ("python_source", "python", Path(spec))


def test_a_file_with_a_colon_in_its_name(folder: Path) -> None:
    (folder / "a:b.py").write_text("x = 1\n")
    assert identify("a:b.py").format == "python_source"
    artifact = identify("a:b.py:x")
    assert (str(artifact.path), artifact.attribute) == ("a:b.py", "x")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("model.py:", "no name after the colon"),
        ("model.py:1x", "'1x' is no name of a Python object"),
        ("model.py:a-b", "'a-b' is no name"),
        ("model.py:class", "'class' is no name"),
        ("model.py:a..b", r"'a..b' is no name"),
        ("modle.py:build", "does not exist.*Did you mean 'model.py'"),
        ("modle.py", "does not exist.*Did you mean 'model.py'"),
        ("nowhere/model.py:build", "does not exist"),
        ("package/:build", "is a folder"),
        ("./notes:build", "no .py file"),
        ("weights.pt:build", "'weights.pt' is a file"),
        ("C:\\models\\net.pt", "does not exist"),
        ("C:/models/net.pt", "does not exist"),
        ("https://example.com/m.pt", "a URL"),
        ("s3://bucket/m.pt", "a URL"),
        ("package.model", "does not exist.*written package.module:name"),
        ("1abc:x", "'1abc' is no module name"),
        ("a b:c", "'a b' is no module name"),
        ("", "no artifact was named"),
        (" ", "no artifact was named"),
        (":", "no name after|no module"),
        (":x", "'' is no module name"),
        ("x" * 5000, "does not exist"),
        ("a\0b", "does not exist"),
        ("m\0.py:x", "does not exist"),
        ("~/nothing_here.pt", "does not exist"),
    ],
)
def test_what_cannot_be_named(folder: Path, spec: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        identify(spec)


def test_source_that_is_none(folder: Path) -> None:
    (folder / "image.py").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
    with pytest.raises(InputError, match="is a PNG image"):
        identify("image.py")
    with pytest.raises(InputError, match=r"named \.py, but is no text"):
        identify("image.py:x")


def test_special_files(folder: Path) -> None:
    os.mkfifo(folder / "pipe.onnx")
    with pytest.raises(InputError, match="is a named pipe"):
        identify("pipe.onnx")
    with pytest.raises(InputError, match="character device"):
        identify("/dev/null")
    (folder / "gone.pt").symlink_to(folder / "nothing")
    with pytest.raises(InputError, match="a symbolic link to a file that does not exist"):
        identify("gone.pt")
    (folder / "loop.pt").symlink_to(folder / "loop.pt")
    with pytest.raises(InputError):
        identify("loop.pt")


def test_a_file_that_may_not_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *arguments: Any, **options: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)  # root, as which tests may run, can read everything
    with pytest.raises(InputError, match=r"cannot be read .Permission denied.*Check the path and its permissions"):
        identify("weights.pt")


def test_folders(folder: Path) -> None:
    for name, inside, words in (
        ("saved", "saved_model.pb", "is an empty file"),
        ("text", "saved_model.pbtxt", "a TensorFlow SavedModel in text form"),
        ("hub", "model.safetensors", "Hugging Face"),
        ("models", "a/b.onnx", r"without Python source. Name a model file inside it, such as 'a/b.onnx'"),
        ("nothing", "readme", "without Python source. Name a model file"),
    ):
        (folder / name / inside).parent.mkdir(parents=True)
        (folder / name / inside).write_bytes(b"")
        with pytest.raises(InputError, match=words):
            identify(name)
