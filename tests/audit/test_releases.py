"""Which packages differ, and which rules speak of them."""

from dataclasses import replace

import pytest

from tensoraudit.audit.releases import Change, changes, crossings, mentions
from tensoraudit.language.packs import chosen_rules
from tensoraudit.options import Options


@pytest.fixture(scope="module")
def rules():
    options = Options()
    return list(chosen_rules(("default",), root=options.root, severity={}, off=(), examples=False))


def test_frameworks_come_first_and_what_is_missing_is_empty():
    old = {"zlib": "1", "numpy": "2.0", "torch": "2.6.0", "gone": "3", "same": "1"}
    new = {"zlib": "2", "numpy": "2.1", "torch": "2.13.0", "added": "1", "same": "1"}
    found = changes(old, new)
    assert [each.name for each in found] == ["torch", "numpy", "added", "gone", "zlib"]
    assert [str(each) for each in found[2:4]] == ["added (none) -> 1", "gone 3 -> (none)"]
    assert changes(old, old) == ()


def test_a_range_that_holds_on_one_side_only_names_the_rule(rules):
    found = (Change("onnxruntime", "1.20.1", "1.31.1"),)
    crossed = {each.rule: each for each in crossings(rules, found, "onnx")}
    assert crossed["ONX-023"].holds == "old" and crossed["ONX-023"].range == "<1.21"
    assert "onnxruntime<1.21: that is 1.20.1, the one before" in str(crossed["ONX-023"])
    assert "ONX-023" not in {each.rule for each in crossings(rules, (Change("onnxruntime", "1.22", "1.31.1"),), "onnx")}


def test_what_is_no_version_is_in_no_range(rules):
    crossed = crossings(rules, (Change("onnxruntime", "no version", "1.31.1"),), "onnx")
    assert crossed and {each.holds for each in crossed} == {"new"}


def test_another_distribution_of_the_same_package_is_no_new_version():
    found = changes({"onnxruntime-gpu": "1.31.1"}, {"onnxruntime": "1.31.1"})
    assert found == (Change("onnxruntime (distribution)", "onnxruntime-gpu", "onnxruntime"),)
    assert Change("tensorflow", "2.20.0", "2.21.0") in changes({"tensorflow-cpu": "2.20.0"}, {"tensorflow": "2.21.0"})


def test_a_package_that_comes_or_goes_is_in_a_range_on_one_side(rules):
    crossed = crossings(rules, (Change("onnxruntime", "", "1.20.1"),), "onnx")
    assert ("ONX-023", "new") in {(each.rule, each.holds) for each in crossed}


def test_rules_that_speak_of_a_package_in_words_are_named(rules):
    spoken = mentions(rules, (Change("torch", "2.6.0", "2.13.0"), Change("six", "1", "2")), "pytorch")
    assert set(spoken) == {"torch"} and "ONX-015" in spoken["torch"]
    assert "ONX-023" not in mentions(rules, (Change("torchvision", "1", "2"),), "pytorch").get("torchvision", [])


def test_retired_rules_and_those_of_other_sources_are_not_named(rules):
    found = (Change("onnxruntime", "1.20.1", "1.31.1"),)
    named = next(rule for rule in rules if rule.id == "ONX-023")
    assert crossings([named], found, "onnx")
    assert crossings([replace(named, deprecated=True)], found, "onnx") == ()
    assert crossings([replace(named, source=("jax",))], found, "onnx") == ()
