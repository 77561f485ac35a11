"""TorchScript archives made by torch itself: what was scripted is known line by line."""

from __future__ import annotations

import importlib.util
import pickle
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.errors import InputError
from tensoraudit.extract.torchscript import LARGEST_CODE, read_torchscript
from tensoraudit.facts import Model, Node, Tensor, Unknown, Value
from tensoraudit.facts.graph_index import GraphIndex

torch = pytest.importorskip("torch")

SOURCE = """
import torch
from typing import Dict, List, Optional, Tuple
from torch import nn


def scale(x: torch.Tensor, by: Optional[int] = None) -> torch.Tensor:
    return x * (2 if by is None else by)


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 3))

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.register_buffer("n", torch.zeros(1))
        self.steps = 0

    def forward(self, x: torch.Tensor, k: int, flag: bool = False) -> Tuple[torch.Tensor, int]:
        self.n += 1
        self.steps = self.steps + 1
        if k > 3:
            x = x * 2
        elif k == 0:
            raise ValueError("k must not be 0")
        for i in range(k):
            x = scale(x, i)
        while bool(x.sum() > 100):
            x = x / 2
        a, b = x.split(2, 1)
        v = a.t()
        v[0].add_(10)
        y = self.inner(x)
        return torch.cat([y, y], 1), len(x)

    @torch.jit.export
    def reset(self):
        self.steps = 0
"""


def line_of(text):
    return next(number for number, line in enumerate(SOURCE.splitlines(), 1) if text in line)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("torchscript")


@pytest.fixture(scope="module")
def module(folder):
    path = folder / "net.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("net_for_torchscript", path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def scripted(folder, module):
    path = folder / "net.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(module.Net().eval()).save(str(path))
    return path


@pytest.fixture(scope="module")
def facts(scripted, folder):
    return read_torchscript(scripted, root=folder)


def nodes(facts, *, op=None, graph=None):
    return [
        fact
        for fact in facts
        if isinstance(fact, Node) and (op is None or fact.op == op) and (graph is None or fact.graph == graph)
    ]


def test_the_model_and_its_signature(facts, scripted):
    (model,) = (fact for fact in facts if isinstance(fact, Model))
    with zipfile.ZipFile(scripted) as archive:
        version = int(next(archive.read(name) for name in archive.namelist() if name.endswith("/version")))
    assert (model.format, model.version, model.at.path) == ("torchscript", version, scripted.as_posix())
    assert model.metadata["class"].endswith(".Net")
    assert (model.metadata["training"], model.metadata["traced"], model.metadata["unread"]) == (False, False, [])
    assert [(value.name, value.dtype if isinstance(value.dtype, str) else None) for value in model.inputs] == [
        ("x", None), ("k", "int64"), ("flag", "bool"),
    ]  # fmt: skip
    assert isinstance(model.inputs[0].shape, Unknown)
    assert [value.dtype for value in model.outputs][1:] == ["int64"]


def test_control_flow_and_state_stand_at_the_users_lines(facts):
    found = {
        (node.op, node.at.line)
        for node in nodes(facts)
        if node.at.path == "net.py" and node.op in ("prim::If", "prim::Loop", "prim::SetAttr", "prim::RaiseException")
    }
    assert found >= {
        ("prim::SetAttr", line_of("self.n += 1")),
        ("prim::SetAttr", line_of("self.steps = self.steps + 1")),
        ("prim::If", line_of("if k > 3")),
        ("prim::If", line_of("elif k == 0")),
        ("prim::RaiseException", line_of("raise ValueError")),
        ("prim::Loop", line_of("for i in")),
        ("prim::Loop", line_of("while bool")),
    }


def test_a_write_names_the_attribute_and_its_owner(facts):
    written = {node.attributes["name"] for node in nodes(facts, op="prim::SetAttr", graph="main")}
    assert written == {"n", "steps"}
    (reset,) = nodes(facts, op="prim::SetAttr", graph=nodes(facts, op="prim::SetAttr")[-1].graph)
    assert reset.graph.endswith(".Net.reset")
    assert reset.attributes["class"].endswith(".Net")


def test_a_raise_carries_its_message(facts):
    (node,) = (node for node in nodes(facts, op="prim::RaiseException") if node.graph.startswith("main/"))
    assert node.attributes == {"message": "k must not be 0", "class": "builtins.ValueError"}
    assert node.metadata["text"] == 'raise ValueError("k must not be 0")'


def test_the_operators_are_those_of_torchs_own_graph(facts, scripted):
    """Every operator that torch's own parser finds in forward, counted; torch inlines nothing at this level."""
    graph = torch.jit.load(str(scripted)).forward.graph
    expected = sorted(node.kind() for node in walk(graph) if node.kind().startswith("aten::"))
    ours = sorted(
        node.op for node in nodes(facts) if node.graph.split("/")[0] == "main" and node.op.startswith("aten::")
    )
    assert ours == expected


def walk(block):
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from walk(inner)


def test_edges_lead_from_value_to_value(facts):
    index = GraphIndex(nodes(facts), [fact for fact in facts if isinstance(fact, Value)])
    (add,) = (node for node in nodes(facts, op="aten::add_", graph="main") if node.at.line == line_of("v[0].add_"))
    select = index.producer(add, add.inputs[0])
    view = index.producer(select, select.inputs[0])
    unpack = index.producer(view, view.inputs[0])
    split = index.producer(unpack, unpack.inputs[0])
    assert [node.op for node in (select, view, unpack, split)] == [
        "aten::select", "aten::t", "prim::ListUnpack", "aten::split",
    ]  # fmt: skip
    assert index.value(add, add.inputs[1]).constant == 10
    loop = index.producer(split, split.inputs[0])
    assert loop.op == "prim::Loop"


def test_a_branch_is_a_graph_whose_results_leave_through_the_node(facts):
    (branch,) = (node for node in nodes(facts, op="aten::mul") if node.at.line == line_of("x = x * 2"))
    assert branch.graph == "main/If_0.then_branch"
    (outer,) = (node for node in nodes(facts, op="prim::If", graph="main") if node.name == "If_0")
    assert len(outer.outputs) == 1
    assert branch.inputs[0] == "x"


def test_calls_name_their_target(facts):
    (call,) = nodes(facts, op="prim::CallMethod", graph="main")
    assert call.attributes["name"] == "forward"
    assert call.attributes["class"].endswith(".Inner")
    (function,) = nodes(facts, op="prim::CallFunction", graph="main/Loop_0.body")
    assert function.attributes["name"].endswith(".scale")


def test_tensors_are_found_by_their_state_dict_names_and_bytes(facts, scripted):
    found = {fact.name: fact for fact in facts if isinstance(fact, Tensor)}
    assert {name: (t.dtype, t.shape, t.bytes) for name, t in found.items()} == {
        "inner.weight": ("float32", (2, 3), 24),
        "n": ("float32", (1,), 4),
    }
    weight = found["inner.weight"]
    stored = np.frombuffer(scripted.read_bytes(), "<f4", count=6, offset=weight.offset)
    assert stored.tolist() == [1.0] * 6


def test_a_traced_model_shows_the_users_frame(folder, module):
    path = folder / "traced.pt"
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(module.Inner(), torch.ones(1, 3)).save(str(path))
    found = read_torchscript(path, root=folder)
    assert next(fact for fact in found if isinstance(fact, Model)).metadata["traced"] is True
    (linear,) = nodes(found, op="aten::linear")
    assert (linear.at.path, linear.at.line) == ("net.py", line_of("functional.linear"))


@pytest.mark.real
def test_silero_has_state_branches_and_raises_at_its_authors_lines():
    package = pytest.importorskip("importlib.util").find_spec("silero_vad")
    if package is None:
        pytest.skip("silero-vad is not installed")
    path = Path(package.origin).parent / "data" / "silero_vad.jit"
    found = read_torchscript(path)
    main = [node for node in nodes(found) if node.graph.split("/")[0] == "main"]
    assert {node.attributes["name"] for node in main if node.op == "prim::SetAttr"} == {
        "_state", "_context", "_last_sr", "_last_batch_size",
    }  # fmt: skip
    assert any(node.op == "prim::If" for node in main)
    raises = [node for node in main if node.op == "prim::RaiseException"]
    assert any("Provided number of samples" in node.attributes.get("message", "") for node in raises)
    at = {node.op: node.at for node in main}
    assert all(
        at[op].path.endswith("vad/model/vad_annotator.py") and at[op].line
        for op in ("prim::If", "prim::RaiseException")
    )
    assert not next(fact for fact in found if isinstance(fact, Model)).metadata["unread"]


# hostile archives


def rewrite(source, target, **entries):
    """Copy an archive; `entries` maps a suffix of an entry's name to its new content (None removes it)."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            suffix = next((key for key in entries if info.filename.endswith(key)), None)
            content = old.read(info) if suffix is None else entries[suffix]
            if content is not None:
                new.writestr(info.filename, content)
    return target


def test_an_archive_without_places_is_read_all_the_same(scripted, folder):
    found = read_torchscript(rewrite(scripted, folder / "bare.pt", **{".debug_pkl": None}))
    node = nodes(found, op="prim::SetAttr", graph="main")[0]
    assert (node.at.path, node.at.line) == ((folder / "bare.pt").as_posix(), None)
    assert node.metadata["code"].startswith("code/__torch__")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a pickle",
        pickle.dumps(("FORMAT_WITH_STRING_TABLE", 3, ((1, 2), None))),
        pickle.dumps(
            ("FORMAT_WITH_STRING_TABLE", ("a" * 100_000,), tuple((i, (([0] * 10_000, 0, 1), 0, 0)) for i in range(3)))
        ),
        pickle.dumps(("FORMAT_WITH_STRING_TABLE", (None,), ((0, (([0, -1, "x", 2**70], 9, "y"), "a", 0)),))),
        pickle.dumps(((0, (("def f():\n  pass\n", "old.py", 7), 9, 10)),)),
        b"cos\nsystem\n(S'touch /tmp/pwned-by-debug-pkl'\ntR.",
    ],
    ids=["empty", "text", "wrong", "repeats", "types", "old", "code"],
)
def test_places_that_cannot_be_trusted(scripted, folder, content):
    found = read_torchscript(rewrite(scripted, folder / "places.pt", **{".debug_pkl": content}))
    assert len(nodes(found)) > 30
    assert not Path("/tmp/pwned-by-debug-pkl").exists()


def test_places_of_the_format_before_torch_1_12(scripted, folder):
    content = pickle.dumps(((0, (("def f():\n  pass\n", "old.py", 7), 11, 12)),))
    found = read_torchscript(rewrite(scripted, folder / "old.pt", **{".debug_pkl": content}))
    assert {(node.at.path, node.at.line) for node in nodes(found)} == {("old.py", 8)}


def test_a_code_file_that_cannot_be_read_is_named_and_the_rest_read(scripted, folder):
    with zipfile.ZipFile(scripted) as archive:
        broken = next(n for n in archive.namelist() if n.endswith(".py") and "net_for_torchscript" in n)
        others = [n for n in archive.namelist() if n.endswith(".py") and n != broken]
    for content in (b"def f(:", b"\xff", b"x = " + b"-" * 100_000 + b"1", b"#" * (LARGEST_CODE + 1)):
        found = read_torchscript(rewrite(scripted, folder / "broken.pt", **{broken: content}))
        model = next(fact for fact in found if isinstance(fact, Model))
        assert len(model.metadata["unread"]) == 1
        assert broken.split("/", 1)[1] in model.metadata["unread"][0]
        assert len(model.metadata["code"]) == len(others)


def test_code_that_no_exporter_writes_does_not_crash(scripted, folder):
    with zipfile.ZipFile(scripted) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".py") and "net_for_torchscript" in n)
    strange = b"""
def f(*a, **k):
    a.b.c = d = [x for x in y if z]
    a[0], (b, c) = lambda: 1
    async_ = await_ = yield_ = a < b < c
    annotate()
    uninitialized()
    CONSTANTS.c99
    ops.x
    torch.format(x)
    ops.prim.RaiseException()
    for a.b in c: pass
    while 1: pass
    return
def bad():
    getattr()
class A(B):
    __annotations__[x] = 1
    def g(): return CONSTANTS
"""
    found = read_torchscript(rewrite(scripted, folder / "strange.pt", **{name: strange}))
    assert [node.graph for node in nodes(found, op="prim::RaiseException") if node.graph.endswith(".f")]
    (unread,) = next(fact for fact in found if isinstance(fact, Model)).metadata["unread"]
    assert "bad is not code that torch writes (IndexError)" in unread


@pytest.mark.parametrize("content", [b"", b"PK", b"\x80\x02}."], ids=["empty", "cut", "pickle"])
def test_what_is_no_archive_is_refused(folder, content):
    path = folder / "bad.pt"
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_torchscript(path)


def test_a_zip_without_code_is_refused(folder):
    path = folder / "weights.pt"
    torch.save({"a": torch.ones(2)}, path)
    with pytest.raises(InputError, match="holds no TorchScript code"):
        read_torchscript(path)


def test_the_module_object_may_be_missing_or_odd(scripted, folder):
    for content in (None, b"", pickle.dumps([1, 2]), pickle.dumps({"a": 1})):
        found = read_torchscript(rewrite(scripted, folder / "object.pt", **{"/data.pkl": content}))
        assert not [fact for fact in found if isinstance(fact, Tensor)]
        assert next(fact for fact in found if isinstance(fact, Model)).inputs == ()
        assert len(nodes(found)) > 30
