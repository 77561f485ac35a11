"""Graphs of TensorFlow as facts, from bytes written by hand, and what hostile files do."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tensoraudit.errors import InputError
from tensoraudit.extract.tensorflow_graph import node_of, value_name
from tensoraudit.extract.tensorflow_saved import read_graph_def, read_saved_model_graph
from tensoraudit.facts import ABSENT, Model, Node, Unknown, Value
from tensoraudit.facts.store import FactStore

FLOAT, INT32, BOOL = 1, 3, 10

# The wire format is three rules long; TensorFlow's own writer is not at hand here.


def varint(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value & (1 << 64) - 1)


def part(field: int, content: bytes | str) -> bytes:
    raw = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def single(field: int, value: float) -> bytes:
    return varint(field << 3 | 5) + struct.pack("<f", value)


def fixed(field: int, value: int) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<Q", value)


def shape(*sizes: int) -> bytes:
    return b"".join(part(2, number(1, size)) for size in sizes)


def tensor(dtype: int, sizes: tuple[int, ...], content: bytes) -> bytes:
    """`content` are further fields of the TensorProto."""
    return number(1, dtype) + part(2, shape(*sizes)) + content


def entry(key: str, value: bytes) -> bytes:
    return part(1, key) + part(2, value)


def node(name: str, op: str, inputs: tuple[str, ...] = (), attributes: Mapping[str, bytes] | None = None) -> bytes:
    parts = [part(1, name), part(2, op), *(part(3, each) for each in inputs)]
    return b"".join([*parts, *(part(5, entry(key, value)) for key, value in (attributes or {}).items())])


def const(name: str, dtype: int, sizes: tuple[int, ...], content: bytes) -> bytes:
    return node(name, "Const", (), {"dtype": number(6, dtype), "value": part(8, tensor(dtype, sizes, content))})


def graph(*nodes: bytes, functions: tuple[bytes, ...] = ()) -> bytes:
    library = part(2, b"".join(part(1, each) for each in functions)) if functions else b""
    return b"".join(part(1, each) for each in nodes) + library + part(4, number(1, 1_882))


def function(name: str, inputs: Mapping[str, int], returns: Mapping[str, str], *nodes: bytes) -> bytes:
    """`inputs` maps an argument to its type; results are float32."""
    arguments = [part(2, part(1, key) + number(3, dtype)) for key, dtype in inputs.items()]
    results = [part(3, part(1, key) + number(3, 1)) for key in returns]
    signature = part(1, name) + b"".join([*arguments, *results])
    rets = b"".join(part(4, part(1, key) + part(2, value)) for key, value in returns.items())
    return part(1, signature) + b"".join(part(3, each) for each in nodes) + rets


def tensor_info(name: str, dtype: int, *sizes: int) -> bytes:
    return part(1, name) + number(2, dtype) + part(3, shape(*sizes))


def saved_model(graph_def: bytes, inputs: Mapping[str, bytes], outputs: Mapping[str, bytes]) -> bytes:
    signature = b"".join(part(1, entry(key, value)) for key, value in inputs.items())
    signature += b"".join(part(2, entry(key, value)) for key, value in outputs.items())
    info = part(4, "serve") + part(5, "2.21.0")
    meta = part(1, info) + part(2, graph_def) + part(5, entry("serving_default", signature))
    return number(1, 1) + part(2, meta)


# What is read


@pytest.fixture
def read(tmp_path):
    """Read a GraphDef, or a SavedModel when it has a signature."""

    def make(content, inputs=None, outputs=None, debug=None):
        if outputs is None:
            path = tmp_path / "graph.pb"
            path.write_bytes(content)
            return read_graph_def(path)
        (tmp_path / "saved_model.pb").write_bytes(saved_model(content, inputs or {}, outputs))
        if debug is not None:
            (tmp_path / "debug").mkdir()
            (tmp_path / "debug" / "saved_model_debug_info.pb").write_bytes(debug)
        return read_saved_model_graph(tmp_path, root=Path("/home/me"))

    return make


def nodes(facts, **wanted):
    found = [fact for fact in facts if isinstance(fact, Node)]
    return [each for each in found if all(getattr(each, key) == value for key, value in wanted.items())]


def value(facts, name, graph="main"):
    return next(fact for fact in facts if isinstance(fact, Value) and (fact.name, fact.graph) == (name, graph))


CNN = (
    node("x", "Placeholder", (), {"dtype": number(6, FLOAT), "shape": part(7, shape(-1, 29, 31, 3))}),
    const("w", FLOAT, (1, 1, 3, 1), part(4, struct.pack("<3f", 0.5, -2.0, 1e-5))),
    node(
        "c", "Conv2D", ("x", "w"),
        {
            "T": number(6, FLOAT), "padding": part(2, "SAME"), "strides": part(1, part(3, bytes([1, 2, 2, 1]))),
            "explicit_paddings": part(1, b""), "use_cudnn_on_gpu": number(5, 1),
            "_output_shapes": part(1, part(7, shape(-1, 15, 16, 1))),
        },
    ),
    node("r", "LeakyRelu", ("c", "^side"), {"T": number(6, FLOAT), "alpha": single(4, 0.2)}),
    node("side", "NoOp"),
    node("never", "Frob", ("x",)),
)  # fmt: skip


def test_nodes_and_values_of_a_signature(read):
    ends = {"image": tensor_info("x:0", FLOAT, -1, 29, 31, 3)}
    facts = read(graph(*CNN), ends, {"y": tensor_info("r:0", FLOAT, -1, 15, 16, 1)})
    model = facts[0]
    assert isinstance(model, Model)
    assert (model.format, model.producer, model.version) == ("saved_model", "tensorflow 2.21.0", 1_882)
    assert [(each.name, each.dtype) for each in (*model.inputs, *model.outputs)] == [
        ("image", "float32"), ("y", "float32"),
    ]  # fmt: skip
    assert isinstance(model.inputs[0].shape[0], Unknown) and model.inputs[0].shape[1:] == (29, 31, 3)
    assert [each.op for each in nodes(facts)] == ["Placeholder", "Const", "Conv2D", "LeakyRelu", "NoOp"]
    (conv,) = nodes(facts, op="Conv2D")
    assert (conv.domain, conv.name, conv.graph) == ("tf", "c", "main")
    assert (conv.inputs, conv.outputs) == (("x:0", "w:0"), ("c:0",))
    assert conv.attributes == {
        "T": "float32", "padding": "SAME", "strides": (1, 2, 2, 1), "explicit_paddings": (), "use_cudnn_on_gpu": True,
    }  # fmt: skip
    (relu,) = nodes(facts, op="LeakyRelu")
    assert relu.attributes["alpha"] == 0.2 and relu.inputs == ("c:0",) and relu.metadata == {"control": "side"}
    assert value(facts, "c:0").shape[1:] == (15, 16, 1) and value(facts, "c:0").dtype == "float32"
    assert value(facts, "r:0").role == "output" and value(facts, "x:0").role == "input"
    weight = value(facts, "w:0")
    assert (weight.role, weight.shape, weight.constant) == (
        "initializer",
        (1, 1, 3, 1),
        ((((0.5,), (-2.0,), (1e-5,)),),),
    )
    assert value(facts, "c:0").constant is ABSENT


def test_a_graph_without_a_signature_is_read_whole(read):
    facts = read(graph(*CNN))
    assert facts[0].format == "graph_def" and nodes(facts, op="Frob")


def test_edges_lead_from_consumer_to_producer(read):
    store = FactStore(read(graph(*CNN)))
    (relu,) = (each for each in store.of("node") if each.op == "LeakyRelu")
    conv = store.graphs.producer(relu, relu.inputs[0])
    assert conv.op == "Conv2D" and store.graphs.producer(conv, "x:0").op == "Placeholder"
    assert [each.op for each in store.graphs.consumers(conv, "x:0")] == ["Conv2D", "Frob"]


@pytest.mark.parametrize(
    ("dtype", "sizes", "content", "expected"),
    [
        (FLOAT, (), single(5, 2.5), 2.5),
        (FLOAT, (3,), single(5, 1e-12), (1e-12, 1e-12, 1e-12)),  # one value stands for all
        (INT32, (2, 2), part(7, bytes([1, 2, 3, 4])), ((1, 2), (3, 4))),
        (INT32, (2,), number(7, -1) + number(7, 7), (-1, 7)),
        (9, (2,), part(4, struct.pack("<2q", -5, 1 << 40)), (-5, 1 << 40)),
        (BOOL, (2,), number(11, 1) + number(11, 0), (True, False)),
        (7, (2,), part(8, "a") + part(8, "b"), ("a", "b")),
        (19, (1,), number(13, 0x3C00), (1.0,)),
        (14, (1,), number(13, 0x3F80), (1.0,)),
        (FLOAT, (2,), b"", (0.0, 0.0)),  # an empty tensor is zeros
        (FLOAT, (0, 5), b"", ()),
    ],
)
def test_constants(read, dtype, sizes, content, expected):
    facts = read(graph(const("k", dtype, sizes, content), node("y", "Identity", ("k",))))
    assert value(facts, "k:0").constant == expected


def test_constants_that_are_not_told(read):
    facts = read(graph(const("k", FLOAT, (65,), single(5, 1.0)), node("y", "Identity", ("k",))))
    assert value(facts, "k:0").constant == Unknown("a constant of 65 elements")
    facts = read(graph(const("k", 29, (1,), b"\x00"[:0]), node("y", "Identity", ("k",))))
    assert isinstance(value(facts, "k:0").constant, (Unknown, tuple))


CONDITION = function("cond", {"i": INT32}, {"go": "l:z:0"}, node("l", "Less", ("i", "k:output:0")),
                     const("k", INT32, (), number(7, 9)))  # fmt: skip
BODY = function("body", {"i": INT32}, {"out": "a:z:0"}, node("a", "AddV2", ("i", "i"), {"T": number(6, INT32)}))


def calls(**functions):
    return {key: part(10, part(1, name)) for key, name in functions.items()}


def test_loops_and_calls_lead_to_their_functions(read):
    loop = node("w", "StatelessWhile", ("x",), {**calls(cond="cond", body="body"), "T": part(1, number(6, INT32))})
    content = graph(node("x", "Placeholder", (), {"dtype": number(6, INT32)}), loop, functions=(BODY, CONDITION, OTHER))
    facts = read(content, {"x": tensor_info("x:0", INT32)}, {"y": tensor_info("w:0", INT32)})
    (found,) = nodes(facts, op="StatelessWhile")
    assert found.attributes["cond"] == "fn:cond" and found.attributes["body"] == "fn:body"
    (add,) = nodes(facts, op="AddV2")
    assert (add.graph, add.inputs, add.outputs) == ("fn:body", ("i", "i"), ("a:z:0",))
    assert value(facts, "i", "fn:body").role == "input" and value(facts, "a:z:0", "fn:body").role == "output"
    assert value(facts, "k:output:0", "fn:cond").constant == 9
    assert facts[0].metadata["unreached"] == ["other"] and not nodes(facts, graph="fn:other")
    assert sorted(facts[0].metadata["functions"]) == ["fn:body", "fn:cond"]


OTHER = function("other", {"x": FLOAT}, {"y": "r:y:0"}, node("r", "Relu", ("x",)))


def test_branches_in_a_list(read):
    case = node("c", "Case", ("x",), {"branches": part(1, part(9, part(1, "a")) + part(9, part(1, "b")))})
    branches = tuple(function(name, {}, {}, node("n", f"Op{name}")) for name in "ab")
    facts = read(graph(case, functions=branches))
    assert nodes(facts, op="Case")[0].attributes["branches"] == ("fn:a", "fn:b")
    assert {each.graph for each in nodes(facts)} == {"main", "fn:a", "fn:b"}


def test_a_function_that_calls_itself_is_read_once(read):
    one = function("f", {}, {}, node("c", "PartitionedCall", (), calls(f="g")))
    two = function("g", {}, {}, node("c", "PartitionedCall", (), calls(f="f")))
    facts = read(graph(node("m", "PartitionedCall", (), calls(f="f")), functions=(one, two)))
    assert sorted(each.graph for each in nodes(facts)) == ["fn:f", "fn:g", "main"]


def test_a_call_of_nothing_is_told(read):
    facts = read(graph(node("m", "PartitionedCall", (), calls(f="gone"))))
    assert facts[0].metadata["missing"] == ["gone"]


def test_a_loop_of_tensorflow_1_is_a_circle_of_nodes(read):
    ring = (node("m", "Merge", ("e", "n")), node("n", "NextIteration", ("m",)), node("e", "Enter"))
    facts = read(graph(*ring), {}, {"y": tensor_info("m:0", FLOAT)})
    assert {each.op for each in nodes(facts)} == {"Merge", "NextIteration", "Enter"}


def test_lines_of_the_users_source(read):
    """Both forms of GraphDebugInfo; frames stand outermost first, and TensorFlow's own are not the user's."""
    frames = {1: (0, 7), 2: (1, 42), 3: (2, 900)}
    files = ["/home/me/run.py", "/home/me/net.py", "/usr/lib/python3/site-packages/tensorflow/python/ops/math_ops.py"]
    table = b"".join(
        part(4, fixed(1, key) + part(2, number(1, file) + number(2, line) + part(5, " return f(x)")))
        for key, (file, line) in frames.items()
    )
    trace = part(6, fixed(1, 77) + part(2, part(2, struct.pack("<3Q", 1, 2, 3))))
    info = b"".join(part(1, each) for each in files) + table + trace + part(5, part(1, "r@") + fixed(2, 77))
    facts = read(graph(*CNN), {}, {"y": tensor_info("r:0", FLOAT)}, debug=info)
    (relu,) = nodes(facts, op="LeakyRelu")
    assert (relu.at.path, relu.at.line) == ("net.py", 42) and relu.metadata["text"] == "return f(x)"
    assert relu.file.endswith("saved_model.pb") and facts[0].metadata["debug"] is True
    assert nodes(facts, op="Conv2D")[0].at.line is None


def test_lines_in_the_older_form(read):
    stack = b"".join(part(1, number(1, file) + number(2, line)) for file, line in ((0, 3), (0, 5)))
    info = part(1, "/home/me/net.py") + part(2, part(1, "r@") + part(2, stack))
    facts = read(graph(*CNN), {}, {"y": tensor_info("r:0", FLOAT)}, debug=info)
    assert nodes(facts, op="LeakyRelu")[0].at.line == 5


def test_damaged_lines_change_nothing(read):
    facts = read(graph(*CNN), {}, {"y": tensor_info("r:0", FLOAT)}, debug=b"\x0a\xff\xff")
    assert facts[0].metadata["debug"] is False and len(nodes(facts)) == 5


# Hostile files


@pytest.mark.parametrize("cut", range(1, 200, 7))
def test_a_truncated_file_is_an_input_error_or_a_smaller_graph(tmp_path, cut):
    whole = saved_model(graph(*CNN), {}, {"y": tensor_info("r:0", FLOAT)})
    (tmp_path / "saved_model.pb").write_bytes(whole[: len(whole) - cut])
    with pytest.raises(InputError, match="damaged or truncated SavedModel"):
        read_saved_model_graph(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        part(1, number(1, 5)),  # a node whose name is a number
        part(1, part(1, "n") + part(5, entry("T", single(6, 1.0)))),  # a type that is a float
        part(1, part(1, "n") + part(5, entry("v", part(1, part(4, b"abc"))))),  # floats that are cut short
        part(1, part(1, "n") + part(5, part(1, "k") + part(2, b"\x1a\xff"))),  # an attribute that ends too early
        number(1, 7),  # a node that is a number
    ],
)
def test_wrong_types_are_an_input_error(read, content):
    with pytest.raises(InputError):
        read(content)


def test_shapes_that_no_memory_holds(read):
    facts = read(graph(const("k", FLOAT, (1 << 40, 0), b""), node("y", "Identity", ("k",))))
    assert value(facts, "k:0").constant == ()
    facts = read(graph(const("k", FLOAT, (1 << 40, 1 << 20), b""), node("y", "Identity", ("k",))))
    assert isinstance(value(facts, "k:0").constant, Unknown)


def test_texts_are_cut(read):
    facts = read(graph(node("m", "XlaCallModule", (), {"module": part(2, "x" * 70_000)})))
    assert nodes(facts)[0].attributes["module"] == Unknown("a text of 70,000 bytes")


def test_functions_nested_without_end_in_an_attribute(read):
    attribute = part(1, "f")
    for _ in range(5_000):
        attribute = part(1, "f") + part(2, part(1, "a") + part(2, part(10, attribute)))
    facts = read(graph(node("m", "PartitionedCall", (), {"f": part(10, attribute)})))
    assert nodes(facts)[0].attributes["f"] == "fn:f"


@pytest.mark.slow
def test_a_small_file_of_a_million_nodes_is_refused(read):
    with pytest.raises(InputError, match="more than 1,000,000 nodes"):
        read(b"\x0a\x00" * 1_000_010)


def test_a_chain_of_calls_needs_no_stack(read):
    links = [function(f"f{n}", {}, {}, node("c", "PartitionedCall", (), calls(f=f"f{n + 1}"))) for n in range(5_000)]
    facts = read(graph(node("m", "PartitionedCall", (), calls(f="f0")), functions=tuple(links)))
    assert len(nodes(facts)) == 5_001


@pytest.mark.slow
def test_a_hundred_thousand_nodes_take_seconds(read):
    attributes = {"T": number(6, FLOAT), "name": part(2, "n")}
    chain = [node(f"scope/layer_{n}", "AddV2", (f"scope/layer_{n - 1}", "x"), attributes) for n in range(1, 100_001)]
    content = graph(node("x", "Placeholder"), node("scope/layer_0", "Identity", ("x",)), *chain)
    started = time.process_time()
    facts = read(content, {}, {"y": tensor_info("scope/layer_100000:0", FLOAT)})
    assert time.process_time() - started < 20  # about 4 s; a quadratic step would take minutes
    assert len(nodes(facts)) == 100_002


def test_names():
    assert [node_of(each) for each in ("a", "a:1", "^a", "a/b:out:2")] == ["a", "a", "a", "a/b"]
    assert value_name("a", main=True) == "a:0" and value_name("a:1", main=True) == "a:1"
    assert value_name("a:out:0", main=False) == "a:out:0"
