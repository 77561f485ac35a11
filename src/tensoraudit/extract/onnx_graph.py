"""The nodes, values and tensors of ONNX graphs, subgraphs and functions as facts.

1. A subgraph is named after its node and attribute: `main/If_3.then_branch`; a node without a name is called by its
   operator and its place in the graph, `If_3`.
2. A node reads values of its own graph or of any graph around it; what a subgraph reads from outside counts as an input
   of the node that holds it.
3. A name has one Value per graph: an input or initializer that is also an output is an input or initializer.
4. Dtypes and shapes are what the file declares. Nothing is inferred.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tensoraudit.artifacts.onnx_file import MAX_GRAPH_DEPTH, Span, TensorHeader
from tensoraudit.artifacts.protobuf import BYTES, WireError, fields
from tensoraudit.extract.onnx_declarations import FUNCTION_NODE, GRAPH_NODE, Declarations, read_declarations
from tensoraudit.extract.onnx_nodes import Context, ReadNode, read_node
from tensoraudit.extract.onnx_schema import UNTYPED, Type, dtype_name
from tensoraudit.extract.onnx_source import OnnxSource
from tensoraudit.extract.onnx_tensors import size_problem, tensor_fact
from tensoraudit.extract.onnx_wiring import MAX_PROBLEMS, Wiring
from tensoraudit.facts import ABSENT, Fact, Side, Site, Unknown, Value

MAX_FACTS: Final = 3_000_000
"""Facts of one file, about 2 GB: a million nodes. Two bytes can be a node, so a small file could ask for any memory."""


class GraphReader:
    """Reads the graphs of one file. `facts`, `problems` and `cycles` (graph, nodes in a circle) grow as it reads."""

    def __init__(self, source: OnnxSource, path: str, side: Side) -> None:
        self.facts: list[Fact] = []
        self.problems: list[dict[str, Any]] = []
        self.cycles: list[tuple[str, list[str]]] = []
        self._source, self._path, self._side = source, path, side

    def read_main(self, span: Span, opsets: Mapping[str, int]) -> Declarations:
        """Read a model's graph under the name "main". Raises WireError for bytes that are no graph."""
        declared = read_declarations(self._source, span, GRAPH_NODE)
        self._read_outermost(span, GRAPH_NODE, declared, Context("main", opsets, self._path, self._side))
        return declared

    def read_function(self, span: Span, opsets: Mapping[str, int]) -> str:
        """Read a FunctionProto; return the name of its graph. Raises WireError."""
        declared = read_declarations(self._source, span, FUNCTION_NODE)
        qualified = f"{declared.domain}.{declared.name}" if declared.domain else declared.name
        name = f"fn:{qualified}:{declared.overload}" if declared.overload else f"fn:{qualified}"
        context = Context(name, {**opsets, **declared.opsets}, self._path, self._side)
        self._read_outermost(span, FUNCTION_NODE, declared, context)
        return name

    def _read_outermost(self, span: Span, node_field: int, declared: Declarations, context: Context) -> None:
        free = self._read_body(span, node_field, declared, context, 0)
        for name, node in free.items():
            self.note({"kind": "undefined", "graph": context.graph, "value": name, "nodes": [node]})

    def _read_body(
        self, span: Span, node_field: int, declared: Declarations, context: Context, depth: int
    ) -> dict[str, str]:
        """Emit the facts of a graph and of those in it; return what it reads from outside, with the first reader."""
        if depth > MAX_GRAPH_DEPTH:
            raise WireError(f"subgraphs are nested more than {MAX_GRAPH_DEPTH} deep, which no runtime reads")
        body = _Body(self, declared, context)
        body.start()
        index = 0
        for number, wire, start, end in fields(self._source.data, *span):
            if number != node_field:
                continue
            if wire != BYTES:
                raise WireError(f"node {index} of graph {context.graph!r} has wire type {wire}")
            if len(self.facts) > MAX_FACTS:
                raise WireError(f"the model has more than {MAX_FACTS:,} nodes, values and tensors")
            node = read_node(self._source, (start, end), index, context)
            body.add(node)
            for inner_span, name in node.subgraphs:
                inner = read_declarations(self._source, inner_span, GRAPH_NODE)
                inner_context = Context(name, context.opsets, context.path, context.side)
                body.wiring.captured(index, self._read_body(inner_span, GRAPH_NODE, inner, inner_context, depth + 1))
            index += 1
        body.finish()
        return body.wiring.free()

    def constant(self, tensor: TensorHeader) -> Any:
        """Return the value of a small tensor of the file."""
        return self._source.constant(tensor)

    def note(self, problem: dict[str, Any]) -> None:
        """Keep a problem, if it is among the first."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)


class _Body:
    """The facts of one graph while its nodes are read."""

    def __init__(self, reader: GraphReader, declared: Declarations, context: Context) -> None:
        self.wiring = Wiring(context.graph)
        self._reader, self._declared, self._context = reader, declared, context
        self._outputs = set(declared.outputs)
        self._emitted: set[str] = set()
        self._site = Site(path=context.path)

    def start(self) -> None:
        """Emit inputs and initializers."""
        declared = self._declared
        for name in declared.repeated:
            self._reader.note({"kind": "duplicate", "graph": self._context.graph, "value": name, "nodes": []})
        for name, tensor in declared.initializers.items():
            kind = (dtype_name(tensor.dtype), tuple(tensor.dims))
            self._emit(name, kind, self._reader.constant(tensor), "initializer")
            self._emit_tensor(name, tensor)
        for name, tensor in declared.sparse.items():
            kind = (dtype_name(tensor.dtype), tuple(tensor.dims))
            self._emit(name, kind, Unknown("a sparse tensor"), "initializer")
        for name in declared.inputs:
            if name not in self._emitted:
                self._emit(name, declared.types.get(name, UNTYPED), ABSENT, "input")
        for name in self._emitted:
            self.wiring.declare(name)

    def add(self, node: ReadNode) -> None:
        """Emit a node and its outputs."""
        self._reader.facts.append(node.fact)
        self.wiring.add(node.fact.name, node.fact.inputs, node.fact.outputs)
        for name in node.fact.outputs:
            if name and name not in self._emitted:
                self._emit_output(name, node)
        if node.constant is not None and node.constant[2] is not None and node.fact.outputs:
            self._emit_tensor(node.fact.outputs[0], node.constant[2])

    def finish(self) -> None:
        """Emit outputs that no node makes, and what is wrong with the wiring."""
        for name in self._declared.outputs:
            if name not in self._emitted:
                self._emit(name, self._declared.types.get(name, UNTYPED), ABSENT, "output")
        cycle = self.wiring.cycle()
        if cycle:
            self._reader.cycles.append((self._context.graph, cycle))
        for problem in self.wiring.problems:
            self._reader.note(problem)

    def _emit_output(self, name: str, node: ReadNode) -> None:
        kind, constant = self._declared.types.get(name, UNTYPED), ABSENT
        if node.constant is not None:
            kind, constant, _ = node.constant
        self._emit(name, kind, constant, "output" if name in self._outputs else "intermediate")

    def _emit(self, name: str, kind: Type, constant: Any, role: Any) -> None:
        self._emitted.add(name)
        context = self._context
        self._reader.facts.append(
            Value(name, kind[0], kind[1], constant, role, context.graph, context.side, self._site)
        )

    def _emit_tensor(self, name: str, tensor: TensorHeader) -> None:
        context = self._context
        self._reader.facts.append(tensor_fact(name, tensor, context.path, context.side))
        problem = size_problem(name, tensor, context.graph)
        if problem is not None:
            self._reader.note(problem)
