"""Placeholders in texts."""

import pytest

from tensoraudit.facts import ABSENT, Name, Package, Site, Tensor, Unknown
from tensoraudit.facts.store import FactStore
from tensoraudit.language.templates import parse_template, show, unknown_placeholder

STORE = FactStore()


@pytest.fixture
def node(lang):
    return lang.node("Conv", ["x"], ["y"], name="", attributes={"pads": (1, 1)}, metadata={"a.b": "c"})


@pytest.mark.parametrize(
    ("text", "shown", "missing"),
    [
        ("plain", "plain", ()),
        ("{op} {name}", "Conv y", ()),
        ("{{{op}}}", "{Conv}", ()),
        ("{inputs.0} {inputs.3}", "x not given", ("inputs.3",)),
        ("{attribute:pads} {attribute:group}", "[1, 1] not given", ("attribute:group",)),
        ("{attributes.pads} {metadata.a.b}", "[1, 1] c", ()),
        ("{path}:{line} {node}", "m.onnx:not given y", ("line",)),
        ("{layer}!", "enc!", ()),
        ("{opset} {domain}", "18 ", ()),
    ],
)
def test_a_node(node, text, shown, missing):
    assert parse_template(text).render("node", node, {"layer": "enc"}, STORE) == (shown, missing)


def test_a_call(lang):
    call = lang.call("f", {0: "a.pt", "m": Name("x.y"), "u": Unknown("?")}, line=3)
    text = "{callee} {name} {arg:0|f} {arg:m} {arg:u} {args.0} {line} {assigned}"
    shown, missing = parse_template(text).render("call", call, {}, STORE)
    assert shown == "f f a.pt x.y not known a.pt 3 not given"
    assert missing == ("arg:u", "assigned")


def test_a_tensor_and_a_package():
    tensor = Tensor("w", "float8", (1,), "f", 0, 1, "inline", Site("f", tensor="w"), "source")
    assert parse_template("{tensor} {dtype} {shape}").render("tensor", tensor, {}, STORE)[0] == "w float8 [1]"
    package = Package("torch", "2.6", "source")
    assert parse_template("{package.x}").text == "{package.x}"
    assert parse_template("{name} {version} {side}").render("package", package, {}, STORE)[0] == "torch 2.6 source"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "true"),
        (None, "null"),
        (1e-5, "1e-05"),
        (3, "3"),
        ("a", "a"),
        ((1, "n"), "[1, n]"),
        (ABSENT, "not given"),
        (Unknown("?"), "not known"),
        ({"a": 1}, "{'a': 1}"),
        ((0,) * 99, "[" + "0, " * 39 + "0, ..."[:2] + "..."),
    ],
)
def test_values_as_readers_want_them(value, shown):
    assert show(value) == shown


@pytest.mark.parametrize(
    ("text", "kind", "captures", "words"),
    [
        ("{op}", "node", (), None),
        ("{layer}", "tensor", ("layer",), None),
        ("{layer}", "tensor", (), "'{layer}' is nothing that a tensor can fill"),
        ("{arg:x}", "call", (), None),
        ("{arg:x}", "node", (), "'{arg:x}' is nothing that a node can fill"),
        ("{attribute:x}", "node", (), None),
        ("{calle}", "call", (), "did you mean 'callee'?"),
        ("{version}", "package", (), None),
    ],
)
def test_placeholders_are_checked_against_the_anchor(text, kind, captures, words):
    found = unknown_placeholder(parse_template(text), kind, frozenset(captures))
    assert found is None if words is None else words in found
