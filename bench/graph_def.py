"""Time and memory of reading the facts of a large TensorFlow graph, against TensorFlow's own parse of the same bytes.

    python bench/graph_def.py [NODES] [PYTHON_WITH_TENSORFLOW]

The graph is a GraphDef of NODES (100,000) nodes with three attributes each, written here. With an interpreter that has
TensorFlow the same file is parsed there by `GraphDef.FromString` and walked once.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tensoraudit.extract.tensorflow_saved import read_graph_def

WALK = """
import sys, time
from tensorflow.core.framework.graph_pb2 import GraphDef
raw = open(sys.argv[1], "rb").read()
start = time.process_time()
graph = GraphDef.FromString(raw)
count = sum(len(node.input) + len(node.attr) for node in graph.node)
print(f"{time.process_time() - start:.2f}")
"""


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.pb"
        path.write_bytes(b"".join(_node(number) for number in range(count)))
        print(f"{count:,} nodes, {path.stat().st_size / 2**20:.1f} MiB")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start, wall = time.process_time(), time.perf_counter()
        facts = read_graph_def(path)
        seconds, waited = time.process_time() - start, time.perf_counter() - wall
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        taken = f"{seconds:.2f} s of CPU ({waited:.2f} s on the clock; limit 5 for 100,000 nodes)"
        print(f"  read_graph_def: {taken}, {len(facts):,} facts, {memory / 2**10:.0f} MiB")
        if len(sys.argv) > 2:
            walk = [sys.argv[2], "-c", WALK, str(path)]
            done = subprocess.run(walk, capture_output=True, text=True, check=True)
            print(f"  TensorFlow's own parse and walk: {done.stdout.strip()} s, after its import")


def _node(number: int) -> bytes:
    name, before = f"block_{number // 40}/layer/op_{number}", f"block_{max(number - 1, 0) // 40}/layer/op_{number - 1}"
    inputs = _part(3, before.encode()) + _part(3, b"x") if number else b""
    attributes = b"".join(
        _part(5, _part(1, key) + _part(2, value))
        for key, value in (
            (b"T", b"\x30\x01"),
            (b"padding", b"\x12\x04SAME"),
            (b"strides", b"\x0a\x06\x1a\x04\x01\x02\x02\x01"),
        )
    )
    return _part(1, _part(1, name.encode()) + _part(2, b"AddV2") + inputs + attributes)


def _part(field: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])
    return bytes([field << 3 | 2]) + length + content


if __name__ == "__main__":
    main()
