"""Tensors inside what is pickled in place of a tensor, and inside objects: each is an entry, against torch's own."""

from __future__ import annotations

import warnings
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tensoraudit import load_checkpoint
from tensoraudit.checkpoints import torch_file
from tensoraudit.checkpoints.schema import StoredCheckpoint
from tensoraudit.checkpoints.torch_names import names_apart
from tensoraudit.checkpoints.values import read_entry
from tensoraudit.errors import InputError

BOTH = pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])


class Wrapped(torch.Tensor):
    """A tensor without a storage of its own, as torchao's are: two others hold what it means."""

    @staticmethod
    def __new__(cls, codes: torch.Tensor, scale: torch.Tensor) -> Wrapped:
        return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=torch.float32)  # type: ignore[attr-defined]

    def __init__(self, codes: torch.Tensor, scale: torch.Tensor) -> None:
        self.codes, self.scale = codes, scale

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "detach" in str(function):
            return args[0]
        raise NotImplementedError(function)


class Marked(torch.Tensor):
    """A tensor of its own bytes with another as an attribute."""


class Box(dict[str, Any]):
    pass


class Row(list[Any]):
    pass


@dataclass
class State:
    weights: dict[str, torch.Tensor]
    step: int = 3
    me: Any = None


def save(content: Any, path: Path, legacy: bool = False, **how: Any) -> StoredCheckpoint:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(content, path, _use_new_zipfile_serialization=not legacy, **how)
    return torch_file.read(path)


def check(stored: StoredCheckpoint, expected: Mapping[str, torch.Tensor]) -> None:
    found = {entry.full_name: entry for entry in stored.entries}
    assert sorted(found) == sorted(expected)
    assert len(stored.entries) == len(expected)
    for name, tensor in expected.items():
        entry = found[name]
        assert (entry.dtype, entry.shape) == (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)), name
        np.testing.assert_array_equal(read_entry(stored, entry), tensor.detach().numpy())


CODES = torch.arange(6, dtype=torch.int8).reshape(2, 3)
SCALE = torch.tensor([0.5, 0.25])


@BOTH
def test_a_wrapper_subclass_lends_its_name_to_its_tensors(tmp_path: Path, legacy: bool) -> None:
    state = {"0.weight": Wrapped(CODES, SCALE), "0.bias": torch.ones(2)}
    stored = save({"model": state}, tmp_path / "w.pt", legacy)
    inner = {"model.0.weight.codes": CODES, "model.0.weight.scale": SCALE, "model.0.bias": torch.ones(2)}
    check(stored, inner)
    assert {(entry.path, entry.group) for entry in stored.entries} == {(("model",), "model")}


def test_a_wrapper_subclass_as_a_parameter_of_a_module(tmp_path: Path) -> None:
    module = nn.Linear(3, 2)
    module.weight = nn.Parameter(Wrapped(CODES, SCALE), requires_grad=False)
    stored = save(module, tmp_path / "m.pt")
    check(stored, {"weight.codes": CODES, "weight.scale": SCALE, "bias": module.bias})


def test_a_tied_wrapper_is_there_under_both_names(tmp_path: Path) -> None:
    tied = Wrapped(CODES, SCALE)
    stored = save({"a": tied, "b": tied}, tmp_path / "w.pt")
    check(stored, {"a.codes": CODES, "a.scale": SCALE, "b.codes": CODES, "b.scale": SCALE})
    assert {entry.full_name: entry.same_as for entry in stored.entries}["b.scale"] == "a.scale"


@BOTH
def test_a_nested_tensor(tmp_path: Path, legacy: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nested = torch.nested.nested_tensor([torch.arange(2.0), torch.arange(3.0)])
    sizes, strides = torch.tensor([[2], [3]]), torch.tensor([[1], [1]])
    stored = save({"x": nested, "w": SCALE}, tmp_path / "n.pt", legacy)
    values = torch.tensor([0.0, 1.0, 0.0, 1.0, 2.0])
    inner = {"x.values": values, "x.sizes": sizes, "x.strides": strides, "x.storage_offsets": torch.tensor([0, 2])}
    check(stored, {**inner, "w": SCALE})


def test_a_jagged_tensor(tmp_path: Path) -> None:
    jagged = torch.nested.nested_tensor([torch.arange(2.0), torch.arange(3.0)], layout=torch.jagged)
    stored = save({"x": jagged}, tmp_path / "n.pt")
    found = {entry.full_name: entry for entry in stored.entries}
    np.testing.assert_array_equal(read_entry(stored, found["x.values"]), [0, 1, 0, 1, 2])
    np.testing.assert_array_equal(read_entry(stored, found["x.offsets"]), [0, 2, 5])


def test_the_attributes_of_a_parameter_and_of_a_subclass(tmp_path: Path) -> None:
    parameter = nn.Parameter(torch.ones(2))
    parameter.scale, parameter.note = SCALE, "no tensor"  # type: ignore[attr-defined]
    marked = torch.zeros(3).as_subclass(Marked)
    marked.mask, marked.me = torch.tensor([True, False]), marked  # type: ignore[attr-defined]
    stored = save({"p": parameter, "m": marked}, tmp_path / "p.pt")
    inner = {"p": torch.ones(2), "p.scale": SCALE, "m": torch.zeros(3), "m.mask": torch.tensor([True, False])}
    check(stored, {**inner, "m.me": torch.zeros(3)})


def test_the_scales_of_a_quantised_tensor(tmp_path: Path) -> None:
    scales, zeros = torch.tensor([0.5, 0.25], dtype=torch.float64), torch.tensor([1, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = torch.quantize_per_channel(torch.ones(2, 3), scales, zeros, 0, torch.qint8)
    stored = save({"q": quantised}, tmp_path / "q.pt")
    found = {entry.full_name: read_entry(stored, entry) for entry in stored.entries}
    assert list(found) == ["q", "q.scales", "q.zero_points"]
    np.testing.assert_array_equal(found["q.scales"], scales.numpy())
    np.testing.assert_array_equal(found["q.zero_points"], zeros.numpy())


def test_objects_are_containers_and_each_is_entered_once(tmp_path: Path) -> None:
    state = State({"w": torch.ones(2)})
    state.me = state
    row = Row([SCALE])
    stored = save(
        {"box": Box(a=torch.zeros(1)), "row": row, "state": state, "queue": deque([CODES])}, tmp_path / "o.pt"
    )
    check(stored, {"box.a": torch.zeros(1), "row.0": SCALE, "state.weights.w": torch.ones(2), "queue.0": CODES})


def test_a_dict_with_tensors_as_keys_keeps_every_value(tmp_path: Path) -> None:
    keyed = {torch.zeros(1): torch.ones(1), torch.zeros(2): torch.ones(2)}
    stored = save({"k": keyed}, tmp_path / "k.pt")
    assert sorted(entry.shape for entry in stored.entries) == [(1,), (2,)]


def test_an_optimizer_that_is_pickled_whole_is_of_its_own_group(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    stored = save({"model": model.state_dict(), "optimizer": optimizer}, tmp_path / "t.pt")
    groups = {entry.path[0]: entry.group for entry in stored.entries}
    assert groups == {"model": "model", "optimizer": "optimizer"}
    moments = [entry for entry in stored.entries if entry.name.endswith("exp_avg")]
    assert sorted(entry.shape for entry in moments) == [(2,), (2, 2)]


def test_a_storage_alone_is_a_tensor(tmp_path: Path) -> None:
    stored = save({"s": SCALE.untyped_storage()}, tmp_path / "s.pt")
    (entry,) = stored.entries
    assert (entry.full_name, read_entry(stored, entry).tobytes()) == ("s", SCALE.numpy().tobytes())


def test_a_lazily_conjugated_tensor_is_never_read_as_another(tmp_path: Path) -> None:
    base = torch.tensor([1 + 2j, 3 - 1j])
    lazy = {"c": base.conj(), "n": base.clone().conj().imag, "v": torch._neg_view(SCALE)}
    stored = save({**lazy, "p": base}, tmp_path / "c.pt")
    assert not any(entry.same_as for entry in stored.entries)
    words = {"c": "conjugate bit", "n": "negative bit", "v": "negative bit"}
    with load_checkpoint(tmp_path / "c.pt") as loaded:
        np.testing.assert_array_equal(loaded["p"], base.numpy())
        for name, word in words.items():
            with pytest.raises(InputError, match=word) as error:
                loaded[name]
            assert "resolve_conj" in error.value.remedy


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["<f8", ">f4", "u1", "U3", "c16"])
def test_numpy_arrays_count_their_bytes(tmp_path: Path, protocol: int, dtype: str) -> None:
    array = np.ones((3, 4)).astype(dtype)
    stored = save(
        {"a": array, "o": np.array([{"w": SCALE}], dtype=object)}, tmp_path / "a.pt", pickle_protocol=protocol
    )
    entry = stored.entries[0]
    assert (entry.full_name, entry.shape, entry.stored_bytes) == ("a", (3, 4), array.nbytes)
    assert entry.dtype == ("str" if dtype == "U3" else array.dtype.name)
    assert [each.name.rpartition(".")[2] for each in stored.entries[1:]] == ["w"]


@BOTH
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_sparse_tensors_of_every_layout(tmp_path: Path, layout: str, legacy: bool) -> None:
    dense = torch.diag(torch.arange(1.0, 7.0))[:4]
    block = {"blocksize": (2, 2)} if layout.startswith("b") else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sparse = dense.to_sparse(layout=getattr(torch, f"sparse_{layout}"), **block)
    rows = layout in ("csr", "bsr")
    pieces = (
        [sparse._indices(), sparse._values()]
        if layout == "coo"
        else [sparse.crow_indices(), sparse.col_indices(), sparse.values()]
        if rows
        else [sparse.ccol_indices(), sparse.row_indices(), sparse.values()]
    )
    stored = save({"s": sparse}, tmp_path / "s.pt", legacy)
    (entry,) = stored.entries
    assert (entry.full_name, entry.dtype, entry.shape) == ("s", "float32", (4, 6))
    assert [part.bytes for part in entry.parts] == [piece.numel() * piece.element_size() for piece in pieces]
    with load_checkpoint(tmp_path / "s.pt") as loaded, pytest.raises(InputError, match="sparse") as error:
        loaded["s"]
    assert "to_dense" in error.value.remedy
    assert "Fetch" not in error.value.remedy


@pytest.mark.parametrize(
    ("how", "word"), [({"dtype": torch.complex32}, "complex64"), ({"device": "meta"}, "another checkpoint")]
)
def test_the_remedy_is_one_that_helps(tmp_path: Path, how: dict[str, Any], word: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save({"x": torch.empty(2, **how)}, tmp_path / "x.pt")
    with load_checkpoint(tmp_path / "x.pt") as loaded, pytest.raises(InputError) as error:
        loaded["x"]
    assert word in error.value.remedy


def test_two_tensors_never_have_one_name(tmp_path: Path) -> None:
    first, second = torch.ones(2), torch.zeros(3)
    for number, content in enumerate([{"a.b": first, "a": {"b": second}}, {"a": {"b": second}, "a.b": first}]):
        check(save(content, tmp_path / f"{number}.pt"), {"a.b (one key)": first, "a.b": second})
        with load_checkpoint(tmp_path / f"{number}.pt") as loaded:
            assert {name: len(values) for name, values in loaded.items()} == {"a.b (one key)": 2, "a.b": 3}


def test_names_apart() -> None:
    assert names_apart([("a",), ("b", "c"), (0,)]) == [None, None, None]
    assert names_apart([(0,), ("0",)]) == [("0",), ("0 (text)",)]
    assert names_apart([("a.b", "c"), ("a", "b.c")]) == [
        ("a.b", "c (one key) (text)"),
        ("a", "b.c (one key) (text) #2"),
    ]
    assert names_apart([(), ("tensor",)]) == [("tensor",), ("tensor (text)",)]


def test_a_call_that_refers_to_itself_ends(tmp_path: Path) -> None:
    marked = torch.zeros(1).as_subclass(Marked)
    marked.other = OrderedDict(deep=[marked, State({"w": SCALE}, me=marked)])  # type: ignore[attr-defined]
    stored = save({"m": marked}, tmp_path / "m.pt")
    assert len(stored.entries) < 8
    assert {"m", "m.other.deep.1.weights.w"} <= {entry.full_name for entry in stored.entries}


def test_what_lies_too_deep_is_told(tmp_path: Path) -> None:
    deep: Any = State({"w": SCALE})
    for _ in range(150):
        deep = State({}, me=deep)
    stored = save({"deep": deep}, tmp_path / "d.pt")
    assert not stored.entries
    assert "tensors in them are not listed" in stored.observations[0].message
