"""What the user handed over, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Format = Literal[
    "torchscript",
    "exported_program",
    "state_dict",
    "pickled_module",
    "saved_model",
    "keras",
    "keras_h5",
    "jax_export",
    "tflite",
    "onnx",
    "python_object",
    "python_source",
    "checkpoint",
]
Framework = Literal["pytorch", "tensorflow", "tflite", "jax", "onnx", "python"]


@dataclass(frozen=True, slots=True)
class Artifact:
    """An identified artifact. Nothing stored in it has run.

    `spec` is what the user typed. `path` is the file or folder (None for `package.module:name`), `attribute` the object
    name after the colon, `module` the dotted module. `imports` are the globals that a pickle inside wants to import
    (dotted), sorted. `details` is format specific, plain JSON data: versions, entry counts, `legacy: true`, external
    data files...  A `checkpoint` is what the checkpoint commands read; its own format is in `details`.
    """

    spec: str
    format: Format
    framework: Framework
    path: Path | None = None
    module: str | None = None
    attribute: str | None = None
    size: int | None = None
    imports: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
