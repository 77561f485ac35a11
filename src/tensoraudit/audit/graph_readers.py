"""Which reader gives the facts of the graph in a file, by the format of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tensoraudit.extract.exported_program import read_exported_program
from tensoraudit.extract.keras_config import read_keras_h5_layers, read_keras_layers, read_saved_model_layers
from tensoraudit.extract.onnx import read_onnx
from tensoraudit.extract.tensorflow_saved import read_saved_model_graph
from tensoraudit.extract.tflite_graph import read_tflite_graph
from tensoraudit.extract.torchscript import read_torchscript
from tensoraudit.facts import Fact, Side

GraphReader = Callable[[Path, Side, Path], Iterable[Fact]]

GRAPH_READERS: Mapping[str, GraphReader] = {
    "torchscript": lambda path, side, root: read_torchscript(path, side=side, root=root),
    "exported_program": lambda path, side, root: read_exported_program(path, side=side, root=root),
    "onnx": lambda path, side, root: read_onnx(path, side=side),
    "saved_model": lambda path, side, root: (
        *read_saved_model_graph(path, side, root=root),
        *read_saved_model_layers(path, side),
    ),
    "keras": lambda path, side, root: read_keras_layers(path, side),
    "keras_h5": lambda path, side, root: read_keras_h5_layers(path, side),
    "tflite": lambda path, side, root: read_tflite_graph(path, side),
}
"""Formats that carry a graph. An operator of a new format is one line here and one reader in `extract/`."""
