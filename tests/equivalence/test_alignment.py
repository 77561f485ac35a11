"""Synthetic traces in the shape of the two workers' answers; real models are aligned by the tests of the audit."""

from __future__ import annotations

from typing import Any

import pytest

from tensoraudit.equivalence.alignment import Pair, align, module_path

QUERY = "encoder.layer.0.attention.self.query"


def event(
    index: int, op: str, module: str = "", line: int = 0, shape: tuple[int, ...] = (2, 3), call: int = 0, **other: Any
) -> dict[str, Any]:
    source = {"path": "/home/me/net.py", "line": line, "text": ""} if line else None
    outputs = [{"shape": list(shape), "dtype": "float32"}]
    return {"index": index, "op": op, "module": module, "call": call, "source": source, "outputs": outputs, **other}


def value(
    name: str,
    module: str | None = "",
    line: int = 0,
    shape: tuple[int | str, ...] | None = (2, 3),
    call: int | None = None,
    inputs: tuple[str, ...] = (),
    path: str = "/build/net.py",
) -> dict[str, Any]:
    return {
        "name": name,
        "node": f"node_{name}",
        "op": "Op",
        "module": module,
        "call": call,
        "source": {"path": path, "line": line} if line else None,
        "shape": None if shape is None else list(shape),
        "dtype": "float32",
        "inputs": list(inputs),
    }


def names(pairs: tuple[Pair, ...]) -> list[tuple[int, str]]:
    return [(pair.event, pair.value) for pair in pairs]


def test_the_last_operations_of_a_line_are_a_pair() -> None:
    """One line is one linear layer in PyTorch, and a product and a sum in the graph."""
    events = [event(0, "aten.view", QUERY, 5), event(1, "aten.addmm", QUERY, 5), event(2, "aten.relu", "act", 9)]
    values = [value("matmul", QUERY, 5), value("add", QUERY, 5), value("relu", "act", 9)]
    pairs = align(events, values)
    assert names(pairs) == [(1, "add"), (2, "relu")]
    first = pairs[0]
    assert (first.module, first.path, first.line, first.shape) == (QUERY, "/home/me/net.py", 5, (2, 3))
    assert (first.node, first.reference_op, first.candidate_op, first.output) == ("node_add", "aten.addmm", "Op", 0)


def test_only_equal_shapes_are_a_pair_and_the_last_of_them() -> None:
    events = [event(0, "a", "m", 1, (2, 3)), event(1, "b", "m", 1, (6,))]
    values = [value("x", "m", 1, (2, 3)), value("y", "m", 1, (3, 2))]
    assert names(align(events, values)) == [(0, "x")]
    assert align(events, [value("y", "m", 1, (3, 2))]) == ()


@pytest.mark.parametrize("shape", [None, ("batch", 3)])
def test_a_shape_that_the_graph_does_not_know_fits(shape: Any) -> None:
    assert names(align([event(0, "a", "m", 1)], [value("x", "m", 1, shape)])) == [(0, "x")]


def test_module_paths_are_the_same_in_dots_and_slashes_and_files_in_any_folder() -> None:
    assert module_path("/encoder/layer.0/attention") == module_path("encoder.layer.0.attention")
    events = [event(0, "a", "encoder.layer.0", 5)]
    assert names(align(events, [value("x", "/encoder/layer.0", 5, path="C/other/net.py")])) == [(0, "x")]
    assert align(events, [value("x", "/encoder/layer.0", 5, path="/build/other.py")]) == ()


def test_the_same_line_of_two_modules_is_two_places() -> None:
    events = [event(0, "a", "layers.0", 7), event(1, "a", "layers.1", 7)]
    values = [value("x0", "layers.0", 7), value("x1", "layers.1", 7)]
    assert names(align(events, values)) == [(0, "x0"), (1, "x1")]


def test_turns_of_a_loop_are_paired_in_order() -> None:
    events = [event(2 * t + k, "a", "cell", line) for t in range(3) for k, line in enumerate((4, 5))]
    values = [value(f"v{t}{line}", "cell", line) for t in range(3) for line in (4, 5)]
    assert names(align(events, values)) == [(0, "v04"), (1, "v05"), (2, "v14"), (3, "v15"), (4, "v24"), (5, "v25")]


def test_a_loop_that_was_folded_is_left_out() -> None:
    events = [event(2 * t + k, "a", "cell", line) for t in range(3) for k, line in enumerate((4, 5))]
    assert align(events, [value("v4", "cell", 4), value("v5", "cell", 5)]) == ()


def test_calls_of_a_module_are_told_apart_where_the_exporter_numbers_them() -> None:
    events = [event(k, "a", "norm", 4, call=k) for k in range(3)]
    numbered = [value("v2", "norm", 4, call=2), value("v0", "norm", 4), value("v1", "norm", 4, call=1)]
    assert names(align(events, numbered)) == [(0, "v0"), (1, "v1"), (2, "v2")]
    without = [value("other", "norm", 9), value("v", "norm", 4)]
    assert names(align(events, without)) == [(2, "v")]


def test_a_reordered_graph_still_gives_the_end_of_a_place() -> None:
    events = [event(0, "a", "m", 1), event(1, "b", "m", 1), event(2, "c", "m", 2)]
    values = [value("x", "m", 1), value("z", "m", 2), value("y", "m", 1)]
    assert names(align(events, values)) == [(1, "y"), (2, "z")]


def test_without_lines_on_one_side_the_module_path_is_used() -> None:
    events = [event(0, "a", "m", 1), event(1, "b", "m", 2), event(2, "c", "n", 3)]
    values = [value("x", "/m"), value("y", "/m"), value("z", "/n")]
    assert names(align(events, values)) == [(1, "y"), (2, "z")]


def test_operations_of_no_known_place_are_left_out() -> None:
    assert align([event(0, "a")], [value("x", None)]) == ()
    assert align([], [value("x", "m", 1)]) == align([event(0, "a", "m", 1)], []) == ()


def test_outputs_that_are_no_tensors_are_skipped() -> None:
    several = event(0, "split", "m", 1)
    several["outputs"] = [None, {"shape": [2, 3], "dtype": "float32"}, None]
    pairs = align([several], [value("x", "m", 1)])
    assert [(pair.event, pair.output) for pair in pairs] == [(0, 1)]


def test_a_pair_knows_which_pairs_read_it() -> None:
    events = [event(k, "a", "m", 1 + k) for k in range(3)]
    values = [
        value("x", "m", 1, inputs=("input",)),
        value("between", None, inputs=("x", "weight")),
        value("y", "m", 2, inputs=("between", "x")),
        value("z", "m", 3, inputs=("x", "y")),
    ]
    assert {pair.value: pair.feeds for pair in align(events, values)} == {"x": ("y", "z"), "y": ("z",), "z": ()}


def test_a_batch_norm_that_was_folded_into_the_convolution_is_paired_with_it() -> None:
    shape = {"shape": [2, 7, 9, 11], "dtype": "float32"}

    def event(index: int, op: str, module: str) -> dict[str, object]:
        return {"index": index, "op": op, "module": module, "call": 0, "source": None, "outputs": [shape]}

    def value(name: str, module: str) -> dict[str, object]:
        return {"name": name, "node": name, "op": "Conv", "module": module, "call": 0, "source": None, **shape}

    events = [
        event(0, "aten.convolution.default", "0"),
        event(1, "module", "0"),
        {**event(2, "aten.empty.memory_format", "1"), "outputs": [{"shape": [0], "dtype": "uint8"}]},
        event(3, "aten.native_batch_norm.default", "1"),
        event(4, "module", "1"),
        event(5, "aten.relu.default", "2"),
        event(6, "module", "2"),
    ]
    folded = align(events, [value("/0/Conv", "0"), value("/2/Relu", "2")])
    assert [(pair.value, pair.module) for pair in folded] == [("/0/Conv", "1"), ("/2/Relu", "2")]
    whole = align(events, [value("/0/Conv", "0"), value("/1/BN", "1"), value("/2/Relu", "2")])
    assert [(pair.value, pair.module) for pair in whole] == [("/0/Conv", "0"), ("/1/BN", "1"), ("/2/Relu", "2")]
