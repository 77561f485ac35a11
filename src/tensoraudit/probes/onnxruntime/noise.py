"""Fill the `perturbed` of the rows of a run: how far outputs move when inputs move by one unit in the last place.

Where no input is floating the weights move instead. Knows neither ONNX Runtime nor the evaluator: a `Runner` is either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tensoraudit.probes.bfloat16 import BFLOAT16, stepped
from tensoraudit.probes.onnxruntime.model_file import all_graphs, all_nodes
from tensoraudit.probes.onnxruntime.widen import NARROW
from tensoraudit.probes.protocol import Session
from tensoraudit.probes.ulp import move, perturb

SCALES = {"Resize": (2, 1), "Upsample": (1,)}
"""Inputs that say how large an output is: one unit in the last place may add a row."""

Row = dict[str, Any]
Runner = Callable[[Mapping[str, Any]], Row]
"""From a sample to its answer, with `outputs` and `error`."""


def add_draws(
    params: Mapping[str, Any], rows: Sequence[Row], session: Session, plain: Runner, moved: Callable[[int], Runner]
) -> None:
    """Add `perturbations` runs (0) of each of a job's samples to `perturbed` of its row.

    `moved` gives what runs the model with its weights moved by a seed. A draw that fails leaves its reason as
    `perturbed_error`.
    """
    seed, samples = int(params.get("seed") or 0), params["inputs"]
    open_rows = [(sample, row) for sample, row in zip(samples, rows) if not row["error"]]  # noqa: B905 - Python 3.9
    for draw in range(int(params.get("perturbations") or 0)):
        own = 1000 * (seed + 1) + draw
        weights: Runner | None = None
        for sample, row in open_rows:
            arrays, names = _moved_inputs(sample["arrays"], session, own)
            row["perturbed_by"] = "inputs" if names else "weights"
            try:
                if not names and weights is None:
                    weights = moved(own)
                answer = (plain if names else weights)({**sample, "arrays": arrays})  # type: ignore[misc]
            except Exception as problem:
                row["perturbed_error"] = str(problem)
                continue
            if answer["error"]:
                row["perturbed_error"] = answer["error"]["message"]
            else:
                row["perturbed"].append(answer["outputs"])


def _moved_inputs(arrays: Mapping[str, Any], session: Session, seed: int) -> tuple[dict[str, Any], list[str]]:
    known = {name: each for name, each in arrays.items() if "file" in each and each.get("logical") in (None, BFLOAT16)}
    leaves = {name: session.get(each) for name, each in known.items()}
    moved, names = perturb(leaves, seed)
    narrow = {name: stepped(leaves[name], moved[name]) for name in names if known[name].get("logical")}
    references = {name: session.put({**moved, **narrow}[name], known[name].get("logical")) for name in names}
    return {**arrays, **references}, names


def move_weights(model: Any, seed: int) -> Any:
    """Move every floating weight and constant of a model with all its data, in place, and return it.

    Single numbers, and arrays of 0 and 1, stay: they are settings and masks.
    """
    from onnx import numpy_helper

    draws = np.random.default_rng(seed)
    for tensor in _weights(model):
        array = np.asarray(numpy_helper.to_array(tensor))
        if array.size > 1 and not ((array == 0) | (array == 1)).all():
            moved = numpy_helper.from_array(move(array, draws), tensor.name)
            if moved.data_type == tensor.data_type:  # an older onnx package reads bfloat16 as float32
                tensor.CopyFrom(moved)
    return model


def _weights(model: Any) -> Iterator[Any]:
    nodes = list(all_nodes(model))
    sizes = {node.input[at] for node in nodes for at in SCALES.get(node.op_type, ()) if len(node.input) > at}
    constants = (node for node in nodes if node.op_type == "Constant" and node.output[0] not in sizes)
    for tensor in (tensor for graph in all_graphs(model) for tensor in graph.initializer):
        if tensor.data_type in NARROW and tensor.name not in sizes:
            yield tensor
    for attribute in (attribute for node in constants for attribute in node.attribute):
        if attribute.name == "value" and attribute.t.data_type in NARROW:
            yield attribute.t
