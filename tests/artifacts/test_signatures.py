from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.artifacts.identify import identify
from tensoraudit.artifacts.signatures import describe_bytes, describe_zip
from tensoraudit.errors import InputError


def tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("pickle"))
    return out.getvalue()


def npy() -> bytes:
    out = io.BytesIO()
    np.save(out, np.ones(2))
    return out.getvalue()


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(4)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x1c\0\0\0ORTM" + bytes(100), "an ORT-format model"),
        (b"\x1c\0\0\0ET12" + bytes(100), "an ExecuTorch program"),
        (b"GGUF\x03" + bytes(100), "a GGUF model"),
        (gzip.compress(b"x", mtime=0), "a gzip archive.*Unpack it"),
        (tar(), "a tar archive"),
        (npy(), "a NumPy array.*--inputs"),
        (safetensors(), "a safetensors file.*weights only.*tensoraudit checkpoint show.*--checkpoint"),
        (b"%PDF-1.7", "a PDF"),
        (b"\x7fELF\x02\x01", "a compiled ELF"),
        (b'  {"a": 1}', "JSON text"),
        (b"[1, 2]", "JSON text"),
        ("größe = 1\n".encode(), "is text.*ends in .py"),
        ("ä".encode() * 5_000, "is text"),
        (b"a" + "ä".encode() * 5_000, "is text"),
        ("größe".encode("latin-1") * 1_000, "of no format"),
        (b"text\x00more", "of no format"),
        (b"\x01\x02\x03", "of no format"),
        (b"\x80\x05K\x01.", "a pickle that torch.save did not write"),
    ],
)
def test_other_formats(tmp_path: Path, content: bytes, words: str) -> None:
    for name in ("model.pt", "model.onnx", "model"):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InputError, match=words) as caught:
            identify(str(path))
        assert caught.value.remedy
        assert ("is named .onnx, but" in str(caught.value)) == (name == "model.onnx")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("model.weights.h5",), "a Keras archive without its configuration"),
        (("a.npy", "b.npy"), "an archive of NumPy arrays"),
        (("data/aotinductor/model/x.so",), "AOTInductor"),
        ((".data/extern_modules", "model/x.py"), "torch.package"),
        (("x-1.0.dist-info/METADATA",), "a Python wheel"),
        (("models/net.onnx",), "holds an ONNX file"),
        (("readme",), "a zip archive that holds no model"),
        ((), "a zip archive that holds no model"),
    ],
)
def test_other_archives(names: tuple[str, ...], words: str) -> None:
    assert words in describe_zip(names)[0]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("model.safetensors.index.json", "a folder of sharded weights"),
        (".metadata", "a distributed checkpoint of PyTorch"),
        ("_METADATA", "a checkpoint of orbax"),
        ("checkpoint", "a folder of TensorFlow checkpoints"),
    ],
)
def test_a_folder_of_weights_names_the_command_that_reads_it(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(InputError, match=f"{words}.*tensoraudit checkpoint show") as caught:
        identify(str(tmp_path))
    assert "--checkpoint" in caught.value.remedy


def test_source_beside_a_checkpoint_is_source(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "ckpt-1"')
    (tmp_path / "train.py").write_text("import tensorflow")
    assert identify(str(tmp_path)).format == "python_source"


def test_every_answer_is_a_sentence_part() -> None:
    what, remedy = describe_bytes(memoryview(b"\x00\x01"))
    assert what == "of no format that is known here" and remedy.endswith(".")
