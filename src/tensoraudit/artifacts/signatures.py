"""What a file that is no artifact is, told from its first bytes, and what to do with it.

A table, so that a format is one line. Knows nothing of the formats that are read: `identify` asks here last.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_FACTORY: Final = "Name a function that builds the PyTorch model instead: file.py:name."
_WEIGHTS: Final = (
    "See what it holds with `tensoraudit checkpoint show`; to check it against its model, name the function that "
    "builds the model, file.py:name, and add --checkpoint."
)
_UNPACK: Final = "Unpack it and name the model file inside."
_NO_MODEL: Final = "Name a model: .pt, .pt2, .onnx, .keras, .tflite, a SavedModel folder, or file.py:name."
_DOWNLOAD: Final = "It is what a failed download leaves; fetch the model again."

_MAGIC: Final[tuple[tuple[int, bytes, str, str], ...]] = (
    (0, b"version https://git-lfs", "a Git LFS pointer, not the file it stands for", "Run `git lfs pull`."),
    (4, b"ORTM", "an ORT-format model (.ort)", "Name the .onnx file that it was made from."),
    (4, b"ET12", "an ExecuTorch program (.pte)", "Name the ExportedProgram (.pt2) that it was made from."),
    (0, b"GGUF", "a GGUF model of llama.cpp", _FACTORY),
    (0, b"ftrt", "a TensorRT engine", "Name the .onnx file that it was built from."),
    (0, b"\x93NUMPY", "a NumPy array (.npy)", "Pass sample inputs with --inputs, and name a model."),
    (0, b"\x1f\x8b", "a gzip archive", _UNPACK),
    (0, b"BZh", "a bzip2 archive", _UNPACK),
    (0, b"\xfd7zXZ\x00", "an xz archive", _UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "a Zstandard archive", _UNPACK),
    (0, b"\x04\x22\x4d\x18", "an LZ4 archive", _UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", _UNPACK),
    (0, b"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    (257, b"ustar", "a tar archive (PyTorch's format before 0.2, or a packed folder)", _UNPACK),
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image", _NO_MODEL),
    (0, b"\xff\xd8\xff", "a JPEG image", _NO_MODEL),
    (0, b"GIF8", "a GIF image", _NO_MODEL),
    (0, b"%PDF-", "a PDF document", _NO_MODEL),
    (0, b"RIFF", "a RIFF file (WAV, WebP or AVI)", _NO_MODEL),
    (0, b"\x7fELF", "a compiled ELF program or library", _NO_MODEL),
    (0, b"MZ", "a Windows program or library", _NO_MODEL),
    (0, b"\xcf\xfa\xed\xfe", "a macOS program or library", _NO_MODEL),
    (0, b"PAR1", "a Parquet table", _NO_MODEL),
    (0, b"SQLite format 3\x00", "an SQLite database", _NO_MODEL),
    (0, b"<!DOCTYPE html", "an HTML page", _DOWNLOAD),
    (0, b"<!doctype html", "an HTML page", _DOWNLOAD),
    (0, b"<html", "an HTML page", _DOWNLOAD),
    (0, b"<?xml", "an XML file", _NO_MODEL),
    (0, b"\xff\xfe", "UTF-16 text", _NO_MODEL),
    (0, b"\x00asm", "a WebAssembly module", _NO_MODEL),
)
"""(offset, bytes, what it is, what to do), the first match counts."""

_ZIP_ENTRIES: Final[tuple[tuple[str, str, str], ...]] = (
    ("model.weights.h5", "a Keras archive without its configuration", "Save it with model.save('model.keras')."),
    (
        ".npy",
        "an archive of NumPy arrays (.npz)",
        f"If these are inputs, pass it with --inputs; if weights: {_WEIGHTS}",
    ),
    ("data/aotinductor/", "a model compiled by AOTInductor", "Name the ExportedProgram that it was made from."),
    (".data/extern_modules", "a torch.package archive", _FACTORY),
    ("META-INF/MANIFEST.MF", "a Java archive", _NO_MODEL),
    ("[Content_Types].xml", "an Office document", _NO_MODEL),
    (".dist-info/", "a Python wheel", "Install it, and name package.module:name."),
    (".onnx", "a zip archive that holds an ONNX file", _UNPACK),
    (".pt", "a zip archive that holds a PyTorch file", _UNPACK),
)

_WHITESPACE: Final = b"\t\n\r\f\x1b"
_FOLDER_ENTRIES: Final[tuple[tuple[str, str, str], ...]] = (
    ("saved_model.pbtxt", "a TensorFlow SavedModel in text form", "Save it as saved_model.pb: tf.saved_model.save."),
    ("saved_model.cpb", "a TensorFlow SavedModel in chunks", "Name a function that builds it: file.py:name."),
    ("Manifest.json", "a Core ML package", "Name the PyTorch model that it was made from."),
    ("model.safetensors.index.json", "a folder of sharded weights", _WEIGHTS),
    ("pytorch_model.bin.index.json", "a folder of sharded weights", _WEIGHTS),
    ("model.safetensors", "a folder of weights with their configuration (Hugging Face)", _WEIGHTS),
    ("pytorch_model.bin", "a folder of weights with their configuration (Hugging Face)", _WEIGHTS),
)

_WEIGHT_FILES: Final[tuple[tuple[str, str], ...]] = (
    (".metadata", "a distributed checkpoint of PyTorch, which holds weights only"),
    ("_METADATA", "a checkpoint of orbax, which holds weights only"),
    ("checkpoint", "a folder of TensorFlow checkpoints, which hold weights only"),
)
"""Files that may lie beside source as well, so that they are looked for last."""


def describe_bytes(view: memoryview) -> tuple[str, str]:
    """Return (what the bytes are, what to do), for bytes that are no artifact."""
    for offset, magic, what, remedy in _MAGIC:
        if bytes(view[offset : offset + len(magic)]) == magic:
            return what, remedy
    if _is_safetensors(view):
        return "a safetensors file, which holds weights only", _WEIGHTS
    if len(view) > 2 and view[0] == 0x80 and 2 <= view[1] <= 5:
        return "a pickle that torch.save did not write", "Save the model with torch.save, or name file.py:name."
    return _describe_text(view)


def describe_zip(names: tuple[str, ...]) -> tuple[str, str]:
    """Return (what a zip archive is, what to do), by its entries."""
    for part, what, remedy in _ZIP_ENTRIES:
        if any(part in name for name in names):
            return what, remedy
    return "a zip archive that holds no model", _UNPACK


def _is_safetensors(view: memoryview) -> bool:
    size = int.from_bytes(view[:8], "little")
    return len(view) > 9 and 2 <= size <= min(len(view) - 8, 100_000_000) and bytes(view[8:10]) in (b'{"', b"{}")


def _describe_text(view: memoryview) -> tuple[str, str]:
    head = bytes(view[:4096])
    try:
        text = head.decode("utf-8", "strict" if len(view) <= 4096 else "ignore")
    except UnicodeDecodeError:
        return "of no format that is known here", _NO_MODEL
    cut = len(text.encode()) < len(head) - 3  # more than a character that the end of the head splits
    if cut or any(byte < 0x20 and byte not in _WHITESPACE for byte in head):
        return "of no format that is known here", _NO_MODEL
    if text.lstrip()[:1] in ("{", "["):
        return "JSON text", _NO_MODEL
    return "text", "If it is Python source, give it a name that ends in .py; a model in it is named file.py:name."


def describe_folder(path: Path) -> tuple[str, str] | None:
    """Return (what the folder is, what to do) when it is a model of a format that is not read here, None otherwise."""
    for name, what, remedy in _FOLDER_ENTRIES:
        if (path / name).exists():
            return what, remedy
    return None


def describe_weights_folder(path: Path) -> tuple[str, str] | None:
    """Return (what the folder is, what to do) when it holds a training framework's checkpoint, None otherwise."""
    return next(((what, _WEIGHTS) for name, what in _WEIGHT_FILES if (path / name).is_file()), None)
