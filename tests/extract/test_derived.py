"""Extractors of other packages: what they derive, and every way in which one can go wrong."""

import sys
import types
from importlib.metadata import EntryPoint

import pytest

from tensoraudit.errors import InputError
from tensoraudit.extract import derived
from tensoraudit.extract.derived import Extractor, complete_store, derive, installed_extractors
from tensoraudit.facts import Call, Measurement, Node, Package, Site
from tensoraudit.facts.store import FactStore
from tensoraudit.language.engine import match_rules
from tensoraudit.language.load import RuleSet, parse_rules

RULE = """\
id: TST-001
title: GELU written out
severity: low
layer: graph
match:
  node: DecomposedGelu
  absent: {node: Gelu, in: graph}
  input: {index: 0, dtype: float32}
  producer: {index: 0, node: MatMul}
message: "{name} ends at {outputs.0}"
why: x
remedy: x
examples:
  - nodes: [{op: DecomposedGelu, domain: acme}]
    flag: [DecomposedGelu]
  - nodes: [{op: Gelu}]
"""


def node(op, inputs, outputs, name=""):
    return Node(op, "", 18, name, {}, tuple(inputs), tuple(outputs), "main", Site("m.onnx", node=name), "target")


GELU = [
    node("MatMul", ["a", "w"], ["x"]),
    node("Div", ["x", "root"], ["d"]),
    node("Erf", ["d"], ["e"]),
    node("Add", ["e", "one"], ["s"]),
    node("Mul", ["x", "s"], ["m"]),
    node("Mul", ["m", "half"], ["y"], "last"),
]
"""0.5 * x * (1 + erf(x / sqrt 2)): x is read at two places, which is a diamond."""


def decomposed_gelu(store):
    """Yield a node for each Erf whose input, scaled, is multiplied by what becomes of it."""
    for erf in store.keyed("node").get("Erf", ()):
        scaled = store.graphs.producer(erf, erf.inputs[0])
        for add in store.graphs.consumers(erf, erf.outputs[0]):
            for product in store.graphs.consumers(add, add.outputs[0]):
                if scaled is not None and scaled.inputs[0] in product.inputs:
                    yield Node(
                        "DecomposedGelu", "acme", None, f"gelu of {scaled.inputs[0]}", {}, scaled.inputs[:1],
                        product.outputs, erf.graph, erf.at, erf.side,
                    )  # fmt: skip


@pytest.fixture
def install(monkeypatch):
    """Pretend that a package has these extractors."""

    def pretend(**functions):
        module = types.ModuleType("acme_extractors")
        module.__dict__.update(functions)
        monkeypatch.setitem(sys.modules, "acme_extractors", module)
        points = [EntryPoint(name, f"acme_extractors:{name}", derived.GROUP) for name in functions]
        monkeypatch.setattr(derived, "entry_points", lambda group: points if group == derived.GROUP else [])
        installed_extractors.cache_clear()

    yield pretend
    installed_extractors.cache_clear()


def test_a_rule_names_what_an_extractor_found(install):
    install(decomposed_gelu=decomposed_gelu)
    (rule,), _ = parse_rules(RULE)
    (match,) = match_rules(RuleSet((rule,)), complete_store(GELU), source="", target="")
    assert match.message == "gelu of x ends at m"
    assert (match.where.path, match.state) == ("m.onnx", "suspected")  # the dtype of x was not given


def test_a_shape_that_does_not_close_is_none(install):
    install(decomposed_gelu=decomposed_gelu)
    open_shape = [*GELU[:4], node("Mul", ["other", "s"], ["m"]), GELU[5]]
    assert "DecomposedGelu" not in complete_store(open_shape).keyed("node")


def test_a_derived_node_is_no_reader_and_no_maker():
    store = FactStore(GELU)
    derive(store, [Extractor("extractor 'x'", decomposed_gelu)])
    (found,) = store.keyed("node")["DecomposedGelu"]
    assert [reader.op for reader in store.graphs.consumers(GELU[0], "x")] == ["Div", "Mul"]
    assert store.graphs.producer(GELU[5], "m") is GELU[4]
    assert store.graphs.producer(found, "x") is GELU[0]
    assert store.graphs.consumers(found, "m") == [GELU[5]]
    store.add([node("Relu", ["y"], ["z"])])
    assert [reader.op for reader in store.graphs.consumers(GELU[0], "x")] == ["Div", "Mul"]


def test_extractors_do_not_see_each_other():
    seen = []

    def counting(store):
        seen.append(len(store))
        yield Package("found", "1", "source")

    store = FactStore(GELU)
    derive(store, [Extractor("a", counting), Extractor("b", counting)])
    assert seen == [6, 6]
    assert len(store) == 8


def test_nothing_installed_changes_nothing(install):
    install()
    assert len(complete_store(GELU)) == 6


def fails_late(store):
    yield GELU[0]
    raise KeyError("weights")


def endless(store):
    while True:
        yield GELU[0]


def leaves(store):
    sys.exit("bye")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (fails_late, "failed: KeyError: 'weights' (test_derived.py:"),
        (endless, "yields more than 100 facts"),
        (leaves, "failed: SystemExit: bye"),
        (lambda: [], "failed: TypeError"),
        (lambda store: None, "failed: TypeError: 'NoneType' object is not iterable"),
        (lambda store: [GELU[0], 3], "fact 2 of 2 is wrong: a int is no fact"),
        (lambda store: [Measurement("run.error", "model", "x")], "a Measurement is made by a probe, never derived"),
        (lambda store: [node(3, [], [])], "Node.op is 3, not str"),
        (lambda store: [Node("A", "", 1, "", {}, ["x"], (), "main", Site(), "target")], "Node.inputs is ['x'], not"),
        (lambda store: [Node("A", "", 1, "", {}, (), (), "main", None, "target")], "Node.at is None, not Site"),
        (lambda store: [Call("f", {}, False, 0, (), 0, Site(), "left")], "Call.side is 'left', not Side"),
        (lambda store: [Call("f", (), False, 0, (), 0, Site(), "source")], "Call.args is (), not Mapping"),
    ],
)
def test_one_that_misbehaves_is_named(install, monkeypatch, function, words):
    monkeypatch.setattr(derived, "MAX_FACTS", 100)
    install(broken=function)
    with pytest.raises(InputError) as error:
        complete_store(GELU)
    assert str(error.value).startswith("extractor 'broken' ")
    assert words in str(error.value)
    assert str(error.value).endswith("Correct the package, or uninstall it.")


def test_one_that_cannot_be_loaded_is_named(install, monkeypatch):
    install(broken=3)
    with pytest.raises(InputError, match=r"extractor 'broken' is no function: 'acme_extractors:broken' is a int"):
        installed_extractors()
    missing = EntryPoint("gone", "acme_missing:f", derived.GROUP)
    monkeypatch.setattr(derived, "entry_points", lambda group: [missing])
    with pytest.raises(InputError, match=r"extractor 'gone' cannot be loaded from 'acme_missing:f': ModuleNotFound"):
        installed_extractors()


def test_an_installed_package_is_found(monkeypatch, tmp_path):
    info = tmp_path / "acme_rules-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-rules\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[{derived.GROUP}]\nfused = acme_fused:fused\n")
    (tmp_path / "acme_fused.py").write_text("def fused(store):\n    raise OSError('no licence')\n")
    monkeypatch.syspath_prepend(tmp_path)
    installed_extractors.cache_clear()
    try:
        with pytest.raises(InputError) as error:
            complete_store(GELU)
    finally:
        installed_extractors.cache_clear()
    assert str(error.value) == (
        "extractor 'fused' of acme-rules 1.2 failed: OSError: no licence (acme_fused.py:2). "
        "Correct the package, or uninstall it."
    )
