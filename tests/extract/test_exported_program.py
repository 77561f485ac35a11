"""ExportedProgram archives made by torch itself, read without it."""

from __future__ import annotations

import importlib.util
import json
import zipfile

import numpy as np
import pytest

from tensoraudit.errors import InputError
from tensoraudit.extract.exported_graph import dimension, expression, frames
from tensoraudit.extract.exported_program import read_exported_program
from tensoraudit.extract.user_source import SourceLine, choose_line
from tensoraudit.facts import ABSENT, Model, Node, Tensor, Unknown, Value
from tensoraudit.facts.graph_index import GraphIndex

torch = pytest.importorskip("torch")

SOURCE = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("n", torch.zeros(1))
        self.k = torch.tensor([1.0, 2.0, 3.0])

    def forward(self, x, scale=2.0):
        self.n += 1
        x = torch.cond(x.sum() > 0, lambda a: a + self.k, lambda a: a * 2, (x,))
        a, b = torch.chunk(x, 2, 1)
        y = torch.zeros(3, 3)
        y[:, torch.tensor([0, 1, 2])] = 1.0
        z = torch.cat([a, a], 1)
        h = x.reshape(x.shape[0] * 3)
        return self.linear(x), {"z": z.to(torch.float16), "h": h}, y
"""


def line_of(text):
    return next(number for number, line in enumerate(SOURCE.splitlines(), 1) if text in line)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("exported")


@pytest.fixture(scope="module")
def program(folder):
    path = folder / "net.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("net_for_exported_program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    batch = torch.export.Dim("batch", min=2, max=64)
    inputs, shapes = (torch.ones(4, 3),), {"x": {0: batch}, "scale": None}
    return torch.export.export(module.Net().eval(), inputs, {"scale": 2.0}, dynamic_shapes=shapes)


@pytest.fixture(scope="module")
def saved(folder, program):
    path = folder / "net.pt2"
    torch.export.save(program, path)
    return path


@pytest.fixture(scope="module")
def facts(saved, folder):
    return read_exported_program(saved, root=folder)


def model_of(facts):
    (model,) = (fact for fact in facts if isinstance(fact, Model))
    return model


def node(facts, op, graph="main"):
    (found,) = (fact for fact in facts if isinstance(fact, Node) and fact.op == op and fact.graph == graph)
    return found


def test_the_nodes_are_those_of_the_program(facts, program):
    """torch keeps `getitem` and `get_attr` nodes in memory that its JSON folds into the operator itself."""
    expected = [
        str(n.target) if not n.name.startswith("mul") else "_operator.mul"
        for n in program.graph.nodes
        if n.op == "call_function" and getattr(n.target, "__name__", "") != "getitem"
    ]
    ours = [fact.op for fact in facts if isinstance(fact, Node) and fact.graph == "main"]
    assert sorted(ours) == sorted("higher_order.cond" if "cond" in name else name for name in expected)


def test_nodes_stand_at_the_users_line_and_module(facts):
    linear = node(facts, "aten.linear.default")
    assert (linear.at.path, linear.at.line, linear.at.node) == ("net.py", line_of("self.linear(x)"), "linear")
    assert linear.metadata["module"] == "linear"
    assert linear.metadata["class"] == "torch.nn.modules.linear.Linear"
    assert linear.metadata["text"].startswith("return self.linear(x)")
    assert (linear.domain, linear.overload) == ("aten", "default")


def test_a_node_that_only_torch_knows_of_stands_in_the_model_file(facts, saved):
    size = node(facts, "aten.sym_size.int")
    assert (size.at.path, size.at.line) == (saved.as_posix(), None)


def test_arguments_are_inputs_or_attributes(facts):
    assert node(facts, "aten.chunk.default").attributes == {"chunks": 2, "dim": 1}
    assert node(facts, "aten.zeros.default").attributes == {"size": (3, 3), "device": "cpu", "pin_memory": False}
    assert node(facts, "aten.to.dtype").attributes == {"dtype": "float16"}
    put = node(facts, "aten.index_put_.default")
    assert (put.inputs[0], put.inputs[1]) == ("zeros", "")
    assert len(put.inputs) == 4
    cat = node(facts, "aten.cat.default")
    assert (len(cat.inputs), cat.attributes) == (2, {"dim": 1})
    reshape = node(facts, "aten.reshape.default")
    assert isinstance(reshape.attributes["shape"][0], Unknown)
    assert len(reshape.inputs) == 2


def test_several_results_are_several_outputs(facts):
    index = GraphIndex([f for f in facts if isinstance(f, Node)], [f for f in facts if isinstance(f, Value)])
    chunk, cat = node(facts, "aten.chunk.default"), node(facts, "aten.cat.default")
    assert len(chunk.outputs) == 2
    assert index.producer(cat, cat.inputs[0]) is chunk
    assert index.value(cat, cat.inputs[0]).shape[1] == 2


def test_branches_are_graphs_of_their_own(facts):
    graphs = {fact.graph: fact.op for fact in facts if isinstance(fact, Node) and fact.graph != "main"}
    assert graphs == {"main/cond.true_graph_0": "aten.add.Tensor", "main/cond.false_graph_0": "aten.mul.Tensor"}
    assert node(facts, "aten.add.Tensor", "main/cond.true_graph_0").at.line == line_of("torch.cond")


def test_the_signature_with_types_and_symbols(facts):
    model = model_of(facts)
    (x,) = model.inputs
    symbol = x.shape[0]
    assert (x.name, x.dtype, x.shape[1], x.constant) == ("x", "float32", 3, ABSENT)
    assert model.metadata["range_constraints"] == {symbol: (2, 64)}
    assert [(value.dtype, value.shape) for value in model.outputs] == [
        ("float32", (symbol, 3)),
        ("float16", (symbol, 4)),
        ("float32", (f"3*{symbol}",)),
        ("float32", (3, 3)),
    ]
    assert model.metadata["constants"] == {"scale": 2.0}
    assert model.metadata["torch"] == torch.__version__
    assert model.opsets["aten"] >= 10


def test_a_buffer_written_in_place_is_named(facts):
    assert model_of(facts).metadata["mutated"] == ["n"]


@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch warns of its own pytree
def test_a_buffer_mutation_of_a_functional_program_is_named(folder, program):
    path = folder / "functional.pt2"
    torch.export.save(program.run_decompositions({}), path)
    assert model_of(read_exported_program(path)).metadata["mutated"] == ["n"]


def test_values_have_roles(facts):
    roles = {fact.name: fact.role for fact in facts if isinstance(fact, Value) and fact.graph == "main"}
    assert roles["p_linear_weight"] == roles["b_n"] == roles["c_k"] == "initializer"
    assert (roles["x"], roles["linear"], roles["cat"]) == ("input", "output", "intermediate")


def test_tensors_are_found_by_name_and_bytes(facts, saved, program):
    found = {fact.name: fact for fact in facts if isinstance(fact, Tensor)}
    assert (found["linear.weight"].dtype, found["linear.weight"].shape, found["linear.weight"].bytes) == (
        "float32", (3, 3), 36,
    )  # fmt: skip
    content = saved.read_bytes()
    for name, expected in (("linear.weight", program.state_dict["linear.weight"]), ("k", program.constants["k"])):
        stored = np.frombuffer(content, "<f4", count=expected.numel(), offset=found[name].offset)
        assert stored.tolist() == expected.detach().flatten().tolist()


# the layout of before torch 2.8


def as_old(saved, target, change=lambda program: None):
    with zipfile.ZipFile(saved) as archive:
        name = next(name for name in archive.namelist() if name.endswith("models/model.json"))
        program = json.loads(archive.read(name))
    change(program)
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("serialized_exported_program.json", json.dumps(program))
        archive.writestr("version", "5.1")
    return target


def test_the_old_layout_is_read(saved, folder, facts):
    def age(program):
        program["schema_version"] = {"major": 5, "minor": 1}
        for key in ("torch_version", "guards_code", "verifiers"):
            program.pop(key)
        for entry in program["graph_module"]["graph"]["nodes"]:
            entry.pop("name")
            for argument in entry["inputs"]:
                argument["arg"] = {"as_none": None, "as_int": None, **argument["arg"]}  # the other members, as null

    old = read_exported_program(as_old(saved, folder / "old.pt2", age), root=folder)
    assert [fact.op for fact in old if isinstance(fact, Node)] == [fact.op for fact in facts if isinstance(fact, Node)]
    assert model_of(old).version == 5
    assert all(fact.offset is None for fact in old if isinstance(fact, Tensor))


def breaking(key):
    def change(program):
        graph = program["graph_module"]["graph"]
        {
            "no graph": lambda: program.pop("graph_module"),
            "nodes": lambda: graph.update(nodes=3),
            "node": lambda: graph["nodes"].append("x"),
            "argument": lambda: graph["nodes"][0]["inputs"].append({"name": "a", "arg": {}}),
            "values": lambda: graph.update(tensor_values={"x": {"dtype": 7}}),
            "signature": lambda: program["graph_module"].update(signature=[]),
            "layout": lambda: graph["nodes"][0]["inputs"].append({"name": "a", "arg": {"as_layout": 99}}),
        }[key]()

    return change


@pytest.mark.parametrize("key", ["no graph", "nodes", "node", "argument", "values", "signature", "layout"])
def test_a_program_outside_the_schema_is_refused_in_one_sentence(saved, folder, key):
    with pytest.raises(InputError, match=r"does not follow the schema of torch\.export"):
        read_exported_program(as_old(saved, folder / "broken.pt2", breaking(key)))


def test_other_archives_are_refused(folder):
    torch.save({"a": torch.ones(2)}, folder / "weights.pt")
    with pytest.raises(InputError, match="is no ExportedProgram archive"):
        read_exported_program(folder / "weights.pt")
    (folder / "text.pt2").write_text("not a zip")
    with pytest.raises(InputError):
        read_exported_program(folder / "text.pt2")


# pieces


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Symbol('s77', positive=True, integer=True)", "s77"),
        ("Mul(Integer(2), Symbol('s77', positive=True, integer=True))", "2*s77"),
        ("Mul(Integer(2), Add(Symbol('s0'), Integer(-1)))", "2*(s0 + -1)"),
        ("FloorDiv(Symbol('s0'), Integer(2))", "FloorDiv(s0, 2)"),
        ("Pow(Symbol('s0'), Integer(2))", "s0**2"),
        ("s0", "s0"),
        ("2*s0 + 1", "2*s0 + 1"),
        ("(((", "((("),
    ],
)
def test_symbolic_sizes_are_written_as_people_do(text, expected):
    assert expression(text) == expected


def test_sizes():
    assert dimension({"as_int": 3}) == 3
    assert dimension({"as_int": None, "as_expr": {"expr_str": "s0"}}) == "s0"
    assert isinstance(dimension({"as_expr": {"expr_str": "s0+" * 1000}}), Unknown)


def test_the_last_frame_outside_torch_is_the_users():
    stack = (
        'File "/home/me/net.py", line 7, in forward\n    return self.l(x)\n'
        '  File "/v/site-packages/transformers/bert.py", line 85, in forward\n    y = f(x)\n'
        '  File "/v/site-packages/torch/nn/modules/linear.py", line 134, in forward\n    return F.linear(x)\n'
        '  File "<eval_with_key>.5", line 10, in forward\n    cond = 1'
    )
    found = list(frames(stack))
    assert [line.line for line in found] == [7, 85, 134, 10]
    assert choose_line(reversed(found)) == SourceLine("/v/site-packages/transformers/bert.py", 85, "y = f(x)")


def test_a_users_folder_called_torch_is_no_part_of_torch():
    line = SourceLine("/home/me/torch/net.py", 3, "")
    assert choose_line([SourceLine("torch/fx/graph.py", 1, ""), line]) == line
