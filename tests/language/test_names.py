"""Name patterns: what matches, what is captured, what stands literally at the ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensoraudit.language.names import MAX_WILDCARDS, compile_name, literal_name


@pytest.mark.parametrize(
    ("pattern", "name", "captures"),
    [
        ("torch.load", "torch.load", {}),
        ("torch.load", "torch.loads", None),
        ("torch.load", "Torch.load", None),
        ("torch.*", "torch.load", {}),
        ("torch.*", "torch.nn.Linear", None),
        ("torch.**", "torch.nn.Linear", {}),
        ("torch.**", "torch", None),
        ("**.weight", "a.b.weight", {}),
        ("**.weight", "weight", None),
        ("Random*", "RandomNormalLike", {}),
        ("aten::*", "aten::conv2d", {}),
        ("?.half", "?.half", {}),
        ("?.half", "x.half", None),
        ("{layer}.weight", "model.layers.0.weight", {"layer": "model.layers.0"}),
        ("{layer}.weight", ".weight", None),
        ("{a}.{a}", "x.x", {"a": "x"}),
        ("{a}.{a}", "x.y", None),
        ("a+b(c)", "a+b(c)", {}),
        ("torch.Tensor().*", "torch.Tensor().item", {}),
        ("*", "a\nb", {}),
        ("", "", {}),
    ],
)
def test_match(pattern, name, captures):
    assert compile_name(pattern).match(name) == captures


@pytest.mark.parametrize(
    ("pattern", "prefix", "suffix", "loose"),
    [
        ("torch.load", "torch.load", "torch.load", False),
        ("torch.**", "torch.", "", False),
        ("**.weight", "", ".weight", False),
        ("{x}.a.{y}", "", "", True),
        ("**", "", "", True),
        ("a*b", "a", "b", False),
    ],
)
def test_ends(pattern, prefix, suffix, loose):
    compiled = compile_name(pattern)
    assert (compiled.prefix, compiled.suffix, compiled.loose) == (prefix, suffix, loose)


def test_bind_puts_captures_in_literally():
    bound = compile_name("{layer}.scale").bind({"layer": "a.*"})
    assert bound.match("a.*.scale") == {}
    assert bound.match("a.b.scale") is None
    assert bound.exact


def test_bind_leaves_what_is_not_captured():
    assert compile_name("{a}.{b}").bind({"a": "x"}).match("x.y") == {"b": "y"}


@given(st.text())
def test_a_literal_matches_itself_alone(text):
    assert literal_name(text).match(text) == {}
    assert literal_name(text).match(text + "x") is None


@pytest.mark.parametrize("text", ["{", "a}", "{a b}", "{}", "*" * (MAX_WILDCARDS * 2 + 1) + "x*"])
def test_what_is_no_pattern(text):
    with pytest.raises(ValueError, match=r"wildcards|capture"):
        compile_name(text)
