from __future__ import annotations

import networkx
from hypothesis import given
from hypothesis import strategies as st

from tensoraudit.extract.onnx_wiring import Wiring

NODES = st.lists(st.lists(st.integers(0, 11), max_size=3), min_size=1, max_size=12)
"""For each node, the nodes whose outputs it reads (an index beyond the last node stands for a graph input)."""


def wired(reads: list[list[int]]) -> Wiring:
    wiring = Wiring("main")
    for index in range(len(reads), 12):
        wiring.declare(f"v{index}")
    for index, makers in enumerate(reads):
        wiring.add(f"n{index}", tuple(f"v{maker}" for maker in makers), (f"v{index}",))
    return wiring


@given(NODES)
def test_cycles_as_networkx_finds_them(reads: list[list[int]]) -> None:
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(len(reads)))
    graph.add_edges_from((m, i) for i, makers in enumerate(reads) for m in makers if m < len(reads))
    wiring = wired(reads)
    cycle = [int(label[1:]) for label in wiring.cycle()]
    assert bool(cycle) == (not networkx.is_directed_acyclic_graph(graph))
    assert len(set(cycle)) == len(cycle)
    for first, second in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True):
        assert graph.has_edge(first, second), "the data flows along the cycle as it is shown"
    late = {m for i, makers in enumerate(reads) for m in makers if i <= m < len(reads)}
    if not cycle:
        assert [row["count"] for row in wiring.problems] == ([len(late)] if late else [])
    assert wiring.free() == {}


@given(NODES, st.integers(0, 11), st.lists(st.integers(0, 11), max_size=4))
def test_what_a_subgraph_reads_counts_as_read_by_its_node(reads: list[list[int]], at: int, inner: list[int]) -> None:
    at %= len(reads)
    inside = wired(reads)
    inside.captured(at, [f"v{each}" for each in inner])
    direct = wired([[*makers, *inner] if index == at else makers for index, makers in enumerate(reads)])
    assert bool(inside.cycle()) == bool(direct.cycle())


def test_free_and_duplicate_values() -> None:
    wiring = Wiring("g")
    wiring.declare("x")
    wiring.add("one", ("x", "outer", ""), ("y", ""))
    wiring.add("two", ("outer", "y"), ("y", "x"))
    assert wiring.free() == {"outer": "one"}
    assert wiring.problems == [
        {"kind": "duplicate", "graph": "g", "value": "y", "nodes": ["one", "two"]},
        {"kind": "duplicate", "graph": "g", "value": "x", "nodes": ["two"]},
    ]
    assert wiring.cycle() == []
