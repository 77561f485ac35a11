"""What a file, a folder or a dotted name is: by content, never by name, and without running what is stored in it.

What no reader of a format knows goes to `signatures`, which says what it is instead. Every failure is an InputError:
what, where, what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.artifact import Artifact, Format, Framework
from tensoraudit.artifacts.globals import is_harmless
from tensoraudit.artifacts.jax_export import read_jax_export
from tensoraudit.artifacts.keras_files import HDF5, is_keras, read_h5, read_keras
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.names import artifact_from_name, exists
from tensoraudit.artifacts.onnx_external import external_files, require_external
from tensoraudit.artifacts.onnx_file import count_nodes, external_tensors, read_header
from tensoraudit.artifacts.pickles import PickledObject
from tensoraudit.artifacts.protobuf import WireError
from tensoraudit.artifacts.saved_model import PROTO, details_of, read_saved_model
from tensoraudit.artifacts.signatures import describe_bytes, describe_folder, describe_weights_folder, describe_zip
from tensoraudit.artifacts.tflite import MAGIC, read_tflite
from tensoraudit.artifacts.tflite import details_of as tflite_details
from tensoraudit.artifacts.torch_export import is_exported_program, layout_of, wishes_of_exported_program
from tensoraudit.artifacts.torch_files import (
    TorchPickle,
    is_legacy,
    is_torch_pickle,
    is_torchscript,
    read_legacy,
    read_torch_zip,
)  # fmt: skip
from tensoraudit.artifacts.zips import SafeZip
from tensoraudit.errors import InputError

_PROMISES: Final[dict[str, Format]] = {
    ".onnx": "onnx", ".pt2": "exported_program", ".jit": "torchscript", ".keras": "keras", ".h5": "keras_h5",
    ".hdf5": "keras_h5", ".jaxexport": "jax_export", ".tflite": "tflite",
}  # fmt: skip
"""Suffixes that promise one format; `.pt`, `.pth` and `.bin` promise nothing."""
_FRAMEWORKS: Final[dict[Format, Framework]] = {
    "onnx": "onnx", "keras": "tensorflow", "keras_h5": "tensorflow", "jax_export": "jax", "tflite": "tflite",
}  # fmt: skip
"""Of formats that are not PyTorch's."""
_ZIP_MAGIC: Final = frozenset({b"PK\x03\x04", b"PK\x05\x06"})
"""How an archive begins; the second is one without entries."""
_SOURCE_SUFFIXES: Final = frozenset({".py", ".ipynb"})
_MODEL_SUFFIXES: Final = frozenset(
    (".onnx", ".pt", ".pth", ".pt2", ".jit", ".bin", ".keras", ".h5", ".jaxexport", ".tflite")
)
_COPY: Final = "Copy or download the file again, or export the model again."
_MAX_SOURCE: Final = 32 << 20
_MAX_FOLDER: Final = 100_000
"""Entries of a folder that are looked at for Python source, so that naming `/` ends."""


def identify(spec: str) -> Artifact:
    """Return what `spec` names: a file, a folder, `file.py:name` or `package.module:name`.

    No framework is imported, no module is looked up, nothing stored is run; whether the object behind a colon exists is
    for a worker to find out. Raises InputError for what is no artifact, is damaged, or is missing.
    """
    path = Path(spec)
    if not spec.strip() or not exists(path):  # "" would be the current folder
        return artifact_from_name(spec)
    if path.is_dir():
        return _folder(spec, path)
    if path.suffix == ".py" and path.is_file() and path.stat().st_size == 0:  # such as most __init__.py
        return Artifact(spec, "python_source", "python", path, size=0)
    view = map_file(path)
    if bytes(view[:4]) in _ZIP_MAGIC:
        return _zip(spec, path, view)
    for read in (_legacy, _h5, _tflite, _source, _jax_export, _onnx):
        artifact = read(spec, path, view)
        if artifact is not None:
            return artifact
    raise _foreign(path, *describe_bytes(view))


def _folder(spec: str, path: Path) -> Artifact:
    if (path / PROTO).is_file():
        return _saved_model(spec, path)
    what = describe_folder(path)
    if what is not None:
        raise _foreign(path, *what)
    models = []
    for each in islice(path.rglob("*"), _MAX_FOLDER):
        if each.suffix in _SOURCE_SUFFIXES:
            return Artifact(spec, "python_source", "python", path)
        if each.suffix in _MODEL_SUFFIXES:
            models.append(str(each.relative_to(path)))
    weights = describe_weights_folder(path)
    if weights is not None:
        raise _foreign(path, *weights)
    remedy = f"Name a model file inside it, such as {min(models)!r}." if models else "Name a model file, or its source."
    raise InputError("is a folder without Python source", where=str(path), remedy=remedy)


def _saved_model(spec: str, path: Path) -> Artifact:
    model = read_saved_model(path)
    details = details_of(model)
    size = (path / PROTO).stat().st_size
    unsafe = tuple(sorted(model.unsafe))
    return Artifact(spec, "saved_model", "tensorflow", path, size=size, imports=unsafe, details=details)


def _h5(spec: str, path: Path, view: memoryview) -> Artifact | None:
    if bytes(view[:8]) != HDF5:
        return None
    return _artifact(spec, path, "keras_h5", read_h5(view, str(path)))


def _jax_export(spec: str, path: Path, view: memoryview) -> Artifact | None:
    found = read_jax_export(view)
    return _artifact(spec, path, "jax_export", found) if found is not None else None


def _tflite(spec: str, path: Path, view: memoryview) -> Artifact | None:
    if bytes(view[4:8]) != MAGIC:
        return None
    return _artifact(spec, path, "tflite", tflite_details(read_tflite(view, str(path))))


def _keras(spec: str, path: Path, archive: SafeZip) -> Artifact:
    details, imports = read_keras(archive)
    return _artifact(spec, path, "keras", details, imports)


def _zip(spec: str, path: Path, view: memoryview) -> Artifact:
    archive = SafeZip(view, str(path))
    for matches, read in _ZIP_READERS:
        if matches(archive):
            return read(spec, path, archive)
    raise _foreign(path, *describe_zip(archive.names))


def _torchscript(spec: str, path: Path, archive: SafeZip) -> Artifact:
    details = {"entries": len(archive.names), "mobile": "bytecode.pkl" in archive}
    return _artifact(spec, path, "torchscript", details)


def _exported_program(spec: str, path: Path, archive: SafeZip) -> Artifact:
    all_imports = wishes_of_exported_program(archive)
    details = {"entries": len(archive.names), "layout": layout_of(archive), "all_imports": list(all_imports)}
    imports = tuple(name for name in all_imports if not is_harmless(name))
    return _artifact(spec, path, "exported_program", details, imports)


def _torch_pickle(spec: str, path: Path, archive: SafeZip) -> Artifact:
    return _checkpoint(spec, path, read_torch_zip(archive))


_ZIP_READERS: Final[tuple[tuple[Callable[[SafeZip], bool], Callable[[str, Path, SafeZip], Artifact]], ...]] = (
    (is_torchscript, _torchscript),
    (is_exported_program, _exported_program),
    (is_torch_pickle, _torch_pickle),
    (is_keras, _keras),
)


def _legacy(spec: str, path: Path, view: memoryview) -> Artifact | None:
    return _checkpoint(spec, path, read_legacy(view, str(path))) if is_legacy(view) else None


def _checkpoint(spec: str, path: Path, file: TorchPickle) -> Artifact:
    found = file.object
    if found.kind not in ("state_dict", "pickled_module"):
        what = "one tensor" if found.kind == "tensor" else f"a {found.cls} without tensors under names"
        keys = f" (keys {', '.join(map(repr, found.keys[:6]))})" if found.keys else ""
        remedy = "Save model.state_dict(), or name a function that builds the model: file.py:name."
        raise InputError(f"is a file of torch.save that holds {what}{keys}, no model", where=str(path), remedy=remedy)
    format_: Format = "state_dict" if found.kind == "state_dict" else "pickled_module"
    return _artifact(spec, path, format_, _checkpoint_details(file), found.imports)


def _checkpoint_details(file: TorchPickle) -> dict[str, Any]:
    found: PickledObject = file.object
    best = found.weights[0] if found.weights else None
    return {
        "legacy": file.legacy,
        "class": found.cls,
        "keys": list(found.keys),
        "module_key": ".".join(found.module_path) or None,
        "state_key": ".".join(best.path) if best and best.path else None,
        "tensors": len(best.tensors) if best else 0,
        "parameters": sum(tensor.numel for tensor in best.tensors) if best else 0,
        "dtypes": sorted({tensor.dtype for tensor in best.tensors}) if best else [],
        "others": list(best.others[:100]) if best else [],
        "candidates": [{"key": ".".join(each.path), "tensors": len(each.tensors)} for each in found.weights[:20]],
        "storage_bytes": sum(size for _, size in file.storages.values()),
        "weights_only": found.weights_only,
        "all_imports": list(found.all_imports),
    }


def _source(spec: str, path: Path, view: memoryview) -> Artifact | None:
    """A `.py` file or a notebook. Its name counts here, because any text may be Python; that it is text is looked at.
    What is wrong inside a notebook is said by whoever reads its cells."""
    if path.suffix == ".ipynb":
        return Artifact(spec, "python_source", "python", path, size=len(view))
    if path.suffix not in (".py", ".pyi") or len(view) > _MAX_SOURCE or b"\x00" in bytes(view):
        return None
    return Artifact(spec, "python_source", "python", path, size=len(view))


def _onnx(spec: str, path: Path, view: memoryview) -> Artifact | None:
    """An ONNX model; None for bytes that are none, unless they promise to be one and break off."""
    try:
        header = read_header(view)
        nodes = count_nodes(view, header.graph) if header.graph else 0
        external = external_files(path, external_tensors(view))
    except WireError as error:
        if path.suffix == ".onnx" and _begins_like_onnx(view):
            raise InputError(
                f"is a damaged or truncated ONNX model ({error})", where=str(path), remedy=_COPY
            ) from error
        return None
    if header.ir_version is None and not header.opsets:
        return None
    if header.graph is None:
        what = "an ONNX model without a graph" if header.opsets else "a protobuf file, but no ONNX model"
        raise InputError(f"is {what}", where=str(path), remedy=_COPY)
    require_external(path, external)
    details = {
        "ir_version": header.ir_version,
        "opsets": header.opsets,
        "producer": header.producer,
        "nodes": nodes,
        "functions": len(header.functions),
        "external": external,
    }
    return _artifact(spec, path, "onnx", details)


def _begins_like_onnx(view: memoryview) -> bool:
    return len(view) < 2 or (view[0] == 0x08 and view[1] < 0x40)


def _artifact(
    spec: str, path: Path, format_: Format, details: dict[str, Any], imports: tuple[str, ...] = ()
) -> Artifact:
    if _PROMISES.get(path.suffix, format_) != format_:
        details = {**details, "misnamed": f"is named {path.suffix}, but its content is {format_}"}
    framework = _FRAMEWORKS.get(format_, "pytorch")
    return Artifact(spec, format_, framework, path, size=path.stat().st_size, imports=imports, details=details)


def _foreign(path: Path, what: str, remedy: str) -> InputError:
    named = "is named .onnx, but " if path.suffix == ".onnx" else ""
    return InputError(f"{named}is {what}", where=str(path), remedy=remedy)
