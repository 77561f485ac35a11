"""The indexes over facts: by name, by place in the code, by checkpoint, by environment."""

import pytest

from tensoraudit.facts import (
    ABSENT,
    Call,
    Checkpoint,
    ClassDef,
    Device,
    Import,
    Measurement,
    Package,
    Scope,
    Site,
    Tensor,
    Value,
    Variable,
)
from tensoraudit.facts.store import KEYS, KINDS, FactStore, key_of, on_side, side_of, site_of


def call(callee, path="a.py", scope=0):
    return Call(callee, {}, False, scope, (), 0, Site(path, 1, 1), "source")


def scope(number, kind, name, parent=None, path="a.py", module="a", decorators=()):
    return Scope(number, kind, name, parent, decorators, module, Site(path, 1, 1))


def test_every_kind_has_a_key():
    assert set(KEYS) == (set(KINDS.values()) - {"scope"}) | {"function"}


def test_facts_by_name_in_the_order_they_came():
    first, second, other = call("f"), call("f", "b.py"), call("g")
    store = FactStore([first, other, second])
    assert store.keyed("call") == {"f": [first, second], "g": [other]}
    assert store.in_file("call", "b.py") == {"f": [second]}
    assert store.in_file("call", "c.py") == {}
    assert len(store) == 3
    assert store.of("node") == []


def test_added_facts_are_found():
    store = FactStore([call("f")])
    assert list(store.keyed("call")) == ["f"]
    assert store.keyed("measurement") == {}
    store.add([call("g"), Measurement("m", "model", 1)])
    assert list(store.keyed("call")) == ["f", "g"]
    assert list(store.in_file("call", "a.py")) == ["f", "g"]
    assert [row.metric for row in store.measurements()] == ["m"]


def test_classes_and_functions_by_their_last_part_too():
    store = FactStore([scope(1, "function", "Net.forward"), scope(2, "class", "Net")])
    assert sorted(store.keyed("function")) == ["Net.forward", "forward"]
    assert list(store.keyed("scope", "kind")) == ["function", "class"]


def test_a_field_of_several_names_files_a_fact_under_each():
    store = FactStore([scope(1, "function", "f", decorators=("a", "b", "a"))])
    assert {name: len(facts) for name, facts in store.keyed("function", "decorators").items()} == {"a": 1, "b": 1}


def test_classes_by_bases_through_the_project():
    facts = [
        scope(0, "module", "pkg.net", path="pkg/net.py", module="pkg.net"),
        scope(1, "class", "Net", 0, path="pkg/net.py", module="pkg.net"),
        scope(10, "module", "pkg.base", path="pkg/base.py", module="pkg.base"),
        scope(11, "class", "Base", 10, path="pkg/base.py", module="pkg.base"),
        ClassDef("Net", ("pkg.base.Base", "Mixin"), (), 1, Site("pkg/net.py", 2, 1), "source"),
        ClassDef("Mixin", ("Net",), (), 2, Site("pkg/net.py", 9, 1), "source"),  # a cycle must end
        ClassDef("Base", ("torch.nn.Module",), (), 11, Site("pkg/base.py", 2, 1), "source"),
    ]
    store = FactStore(facts)
    assert store.code.bases(facts[4]) == ("pkg.base.Base", "torch.nn.Module", "Mixin", "Net")
    assert [fact.name for fact in store.keyed("class", "bases")["torch.nn.Module"]] == ["Net", "Mixin", "Base"]


def test_a_base_of_the_other_side_is_another_class():
    facts = [
        scope(0, "module", "base", path="base.py", module="base"),
        scope(1, "class", "Base", 0, path="base.py", module="base"),
        ClassDef("Net", ("base.Base",), (), 9, Site("net.py", 2, 1), "source"),
        ClassDef("Base", ("torch.nn.Module",), (), 1, Site("base.py", 2, 1), "target"),
    ]
    assert FactStore(facts).code.bases(facts[2]) == ("base.Base",)


def test_scopes_around():
    facts = [scope(0, "module", ""), scope(1, "class", "Net", 0), scope(2, "function", "Net.f", 1), call("g", scope=2)]
    definition = ClassDef("Net", (), (), 1, Site("a.py", 1, 1), "source")
    code = FactStore([*facts, definition]).code
    assert [found.id for found in code.scopes_around(facts[3])] == [2, 1, 0]
    assert [found.id for found in code.scopes_around(facts[2])] == [1, 0]
    assert [found.id for found in code.scopes_around(definition)] == [0]
    assert code.innermost(facts[3], "class") is facts[1]
    assert code.innermost(definition, "class") is facts[1]
    assert code.innermost(facts[2], "function") is facts[2]
    assert code.innermost(call("g", scope=0), "class") is None
    assert code.class_of(facts[1]) is definition
    assert list(code.scopes_around(call("g", "other.py", 2))) == []
    assert list(code.scopes_around(Package("x", "1", "source"))) == []


@pytest.mark.parametrize(
    ("name", "external"),
    [
        ("torch.load", True),
        ("torch.load().x", True),
        ("torch", True),
        ("open", True),
        ("pkg.f", False),
        ("x", False),
        ("self.x", False),
        ("?.x", False),
        ("", False),
    ],
)
def test_names_from_outside_the_project(name, external):
    facts = [
        Import("torch.nn", ("nn",), 0, Site("a.py", 1, 1), "source"),
        Import("pkg.a", ("f",), 0, Site("a.py", 1, 1), "source"),
        scope(0, "module", "pkg.a", module="pkg.a"),
    ]
    assert FactStore(facts).code.is_external(name) is external


def tensor(file, side="source"):
    return Tensor("w", "float32", (1,), file, 0, 4, "inline", Site(file), side)


def test_files_of_a_checkpoint():
    store = FactStore([Checkpoint("safetensors", ("1", "2"), (), {}, Site("x"), "source")])
    assert store.files_beside(tensor("2")) == {"1", "2"}
    assert store.files_beside(tensor("2", "target")) == {"2"}
    assert store.files_beside(tensor("3")) == {"3"}
    store.add([Checkpoint("safetensors", ("3", "4"), (), {}, Site("y"), "both")])
    assert store.files_beside(tensor("3", "target")) == {"3", "4"}


@pytest.mark.parametrize(
    ("side", "wanted", "on"),
    [
        ("source", "source", True),
        ("source", "target", False),
        ("both", "target", True),
        ("source", None, True),
        ("source", "both", True),
    ],
)
def test_sides(side, wanted, on):
    assert on_side(Package("x", "1", side), wanted) is on


def test_what_was_read_of_an_environment():
    store = FactStore([Package("x", "1", "source")])
    assert store.environment_read("source")
    assert not store.environment_read("target")
    assert store.environment_read(None)
    store.add([Device("cuda", "", "", "", "target")])
    assert store.environment_read("target")


def test_places_and_names():
    assert site_of(Variable("A", "1", "source")) == Site(variable="A")
    assert site_of(Package("x", "1", "source")) == Site()
    assert side_of(scope(0, "module", "")) == "both"
    assert key_of("value", Value("v", "float32", (), ABSENT, "input", "main", "target")) == "v"
