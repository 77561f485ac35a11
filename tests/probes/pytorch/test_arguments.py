"""Flat names to calls and back."""

from collections import namedtuple

import pytest
import torch

from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.pytorch.arguments import containers_of, flatten, signature_of, unflatten

Pair = namedtuple("Pair", "left right")


def module(forward):
    made = torch.nn.Module()
    made.forward = forward
    return made


def test_flatten_names_every_leaf():
    value = (1, [2, {"a": 3, "b": (4,)}], None, Pair(5, 6))
    assert dict(flatten(value, "x")) == {
        "x.0": 1, "x.1.0": 2, "x.1.1.a": 3, "x.1.1.b.0": 4, "x.2": None, "x.3.left": 5, "x.3.right": 6,
    }  # fmt: skip


def test_unflatten_is_the_way_back():
    value = {"x": ([1, 2], {"a": (3,)}), "y": 4}
    leaves = {name: leaf for key, each in value.items() for name, leaf in flatten(each, key)}
    kinds = {name: kind for key, each in value.items() for name, kind in containers_of(each, key)}
    assert unflatten(leaves, kinds) == value


def test_without_knowledge_counting_keys_make_tuples_in_numeric_order():
    leaves = {f"x.{index}": index for index in (10, 2, 0, 1, 3, 4, 5, 6, 7, 8, 9)}
    assert unflatten(leaves, {}) == {"x": tuple(range(11))}
    assert unflatten({"x.a": 1}, {}) == {"x": {"a": 1}}


def test_bind_by_position_then_by_keyword_after_a_gap():
    signature = signature_of(module(lambda a, b=1, c=2, *, d=3: None))
    call = signature.bind({"c": 5, "a": 4, "d": 6})
    assert (call.args, call.kwargs) == ((4,), {"c": 5, "d": 6})
    assert list(call.leaves) == ["a", "c", "d"]


def test_bind_variable_arguments():
    signature = signature_of(module(lambda a, *rest, **more: None))
    call = signature.bind({"a": 1, "rest.0": 2, "rest.1": 3, "k": 4})
    assert (call.args, call.kwargs) == ((1, 2, 3), {"k": 4})


def test_missing_and_unknown_arguments():
    signature = signature_of(module(lambda a, b: None))
    with pytest.raises(JobFailed, match="it has no argument c and the inputs lack b") as caught:
        signature.bind({"a": 1, "c": 2})
    assert "a, b" in caught.value.details["remedy"]


def test_script_signature_and_numbers():
    class Net(torch.nn.Module):
        def forward(self, x, n: int, parts: list[torch.Tensor]):
            return x * n + parts[0]

    script = torch.jit.script(Net())
    signature = signature_of(script)
    assert [(each.name, each.required, each.annotation) for each in signature.arguments] == [
        ("x", True, "Tensor"),
        ("n", True, "int"),
        ("parts", True, "List[Tensor]"),
    ]
    call = signature.bind({"x": torch.ones(1), "n": torch.tensor(3), "parts.0": torch.ones(1)})
    assert call.args[1] == 3 and type(call.args[1]) is int
    assert isinstance(call.args[2], list)
    assert script(*call.args).item() == 4
