"""Files that torch writes, against the tensors that torch holds: names, shapes, and the bytes at the stated places."""

from __future__ import annotations

import argparse
import random
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tensoraudit.checkpoints import torch_file
from tensoraudit.checkpoints.schema import Entry, StoredCheckpoint
from tensoraudit.checkpoints.stored_parts import UnreadableValues
from tensoraudit.checkpoints.values import read_entry
from tensoraudit.errors import InputError

BOTH = pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(5, 4)
        self.blocks = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.emb.weight
        self.register_buffer("hidden", torch.ones(2), persistent=False)
        self.register_buffer("table", torch.arange(6.0).reshape(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.emb(x)))


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net()


def save(content: Any, path: Path, legacy: bool = False) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch cannot find the source of classes that a test made
        torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    return path


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def stored_part(stored: StoredCheckpoint, entry: Entry) -> bytes:
    (part,) = entry.parts
    assert part.offset is not None
    with (stored.root / part.file).open("rb") as file:
        file.seek(part.offset)
        return file.read(part.bytes)


def check(stored: StoredCheckpoint, expected: dict[str, torch.Tensor], group: str = "model") -> None:
    found = {entry.full_name: entry for entry in stored.entries if entry.group == group}
    assert list(found) == list(expected)
    for name, tensor in expected.items():
        entry = found[name]
        assert (entry.dtype, entry.shape) == (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)), name
        if tensor.is_contiguous():
            assert stored_part(stored, entry) == raw(tensor), name


@BOTH
def test_a_state_dict(net: Net, tmp_path: Path, legacy: bool) -> None:
    path = save(net.state_dict(), tmp_path / "w.pt", legacy)
    assert torch_file.recognises(path)
    stored = torch_file.read(path)
    assert (stored.format, stored.framework) == ("torch_legacy" if legacy else "torch_zip", "pytorch")
    assert (stored.files, stored.root, stored.imports) == (("w.pt",), tmp_path, ())
    check(stored, net.state_dict())
    tied = {entry.name: entry.same_as for entry in stored.entries if entry.same_as}
    assert tied == {"head.weight": "emb.weight"}
    assert sum(entry.stored_bytes for entry in stored.entries) == sum(
        tensor.numel() * tensor.element_size() for name, tensor in net.state_dict().items() if name != "head.weight"
    )
    assert stored.observations == () and stored.training.optimizers == ()


@BOTH
def test_strides_views_and_empty_tensors(tmp_path: Path, legacy: bool) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    state = {"row": base[2], "turned": base.T, "one": torch.ones(1).expand(1000), "scalar": torch.tensor(3.5)}
    stored = torch_file.read(save(state, tmp_path / "w.pt", legacy))
    found = {entry.name: entry for entry in stored.entries}
    assert stored_part(stored, found["row"]) == raw(base[2])
    turned = found["turned"].parts[0]
    assert (found["turned"].shape, turned.stride, turned.bytes) == ((6, 4), (1, 6), 96)
    flat = np.frombuffer(stored_part(stored, found["turned"]), np.float32)
    strided = np.lib.stride_tricks.as_strided(flat, (6, 4), (4, 24))
    assert np.array_equal(strided, base.T.numpy())
    assert (found["one"].parts[0].bytes, found["one"].parts[0].stride) == (4, (0,))
    assert not any(entry.same_as for entry in stored.entries)
    assert stored.metadata["shared"]["0" if not legacy else next(iter(stored.metadata["shared"]))] == ["row", "turned"]


def training(net: Net, optimizer: torch.optim.Optimizer, **more: Any) -> dict[str, Any]:
    net(torch.tensor([0, 1, 2])).sum().backward()
    optimizer.step()
    return {"model": net.state_dict(), "optimizer": optimizer.state_dict(), **more}


@BOTH
def test_training_state(net: Net, tmp_path: Path, legacy: bool) -> None:
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.25)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    rng = {"torch": torch.get_rng_state(), "numpy": np.random.get_state(), "python": random.getstate()}
    cuda = [torch.zeros(16, dtype=torch.uint8)]
    content = training(
        net, optimizer, global_step=7, epoch=2, lr_scheduler=scheduler.state_dict(), rng=rng, cuda_rng_state=cuda,
        scaler={}, best=torch.tensor(0.5), sampler={"position": 11},
    )  # fmt: skip
    stored = torch_file.read(save(content, tmp_path / "w.pt", legacy))
    found = stored.training
    (state,) = found.optimizers
    assert (state.path, state.kind, state.keyed, state.parameters) == (("optimizer",), "adam", "position", 5)
    assert set(state.fields) == {"step", "exp_avg", "exp_avg_sq"}
    (group,) = state.groups
    assert (group["lr"], group["params"], group["betas"]) == (0.25, [0, 1, 2, 3, 4], [0.9, 0.999])
    assert (found.step, found.epoch, found.scaler) == (7, 2, {})
    assert found.scheduler is not None and found.scheduler["step_size"] == 2
    assert found.loader == {"position": 11}
    assert set(found.rng) == {"torch", "numpy", "python", "cuda"}
    check(stored, {f"model.{name}": tensor for name, tensor in net.state_dict().items()})
    moments = {
        f"optimizer.state.{number}.{field}": tensor
        for number, fields in optimizer.state_dict()["state"].items()
        for field, tensor in fields.items()
    }
    check(stored, moments, "optimizer")
    by_group = {entry.full_name: entry.group for entry in stored.entries}
    assert by_group["best"] == "other"
    assert by_group["rng.torch"] == by_group["cuda_rng_state.0"] == "rng"


@pytest.mark.parametrize(
    ("make", "kind", "count"),
    [
        (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), "sgd", 5),
        (lambda p: torch.optim.SGD(p, 0.1), "none", 0),
        (lambda p: torch.optim.Adam(p, amsgrad=True), "adam", 5),
        (lambda p: torch.optim.Adafactor(p), "adafactor", 5),
        (lambda p: torch.optim.RMSprop(p), "rmsprop", 5),
    ],
)
def test_kinds_of_optimizers(net: Net, tmp_path: Path, make: Any, kind: str, count: int) -> None:
    stored = torch_file.read(save(training(net, make(net.parameters())), tmp_path / "w.pt"))
    (state,) = stored.training.optimizers
    assert (state.kind, state.keyed) == (kind, "position")
    assert state.parameters in (count, 5 if kind == "none" else count)


@pytest.mark.parametrize(("key", "keyed"), [(str, "digits"), (lambda n: f"block.{n}.weight", "name")])
def test_how_state_is_keyed(net: Net, tmp_path: Path, key: Callable[[int], str], keyed: str) -> None:
    state = training(net, torch.optim.AdamW(net.parameters()))["optimizer"]
    renamed = {"state": {key(number): value for number, value in state["state"].items()}, "param_groups": []}
    stored = torch_file.read(save({"opt": renamed}, tmp_path / "w.pt"))
    assert stored.training.optimizers[0].keyed == keyed
    assert stored.entries[0].full_name == f"opt.state.{key(0)}.step"


def test_averages(net: Net, tmp_path: Path) -> None:
    averaged = torch.optim.swa_utils.AveragedModel(net)
    content = {"model": net.state_dict(), "ema": averaged.state_dict()}
    stored = torch_file.read(save(content, tmp_path / "w.pt"))
    groups = {entry.full_name: entry.group for entry in stored.entries}
    assert {groups[f"model.{name}"] for name in net.state_dict()} == {"model"}
    assert {groups[f"ema.{name}"] for name in averaged.state_dict()} == {"ema"}
    alone = torch_file.read(save({"ema": averaged.state_dict()}, tmp_path / "alone.pt"))
    assert {entry.group for entry in alone.entries} == {"model"}


@BOTH
@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: {"epoch": 1, "net": m}], ids=["bare", "in a dict"])
def test_a_pickled_module(net: Net, tmp_path: Path, legacy: bool, wrap: Any) -> None:
    content = wrap(net)
    stored = torch_file.read(save(content, tmp_path / "m.pt", legacy))
    prefix = "net." if isinstance(content, dict) else ""
    assert {entry.full_name for entry in stored.entries} == {f"{prefix}{name}" for name in net.state_dict()}
    by_name = {entry.name: entry for entry in stored.entries}
    for name, tensor in net.state_dict().items():
        assert stored_part(stored, by_name[name]) == raw(tensor)
    assert f"{__name__}.Net" in stored.imports


def test_torchscript(net: Net, tmp_path: Path) -> None:
    path = tmp_path / "t.pt"
    module = torch.jit.trace(net.eval(), torch.tensor([0, 1]))
    module.save(str(path))
    stored = torch_file.read(path)
    assert stored.format == "torchscript"
    expected = torch.jit.load(str(path)).state_dict()
    found = {entry.name: entry for entry in stored.entries if entry.group == "model"}
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert stored_part(stored, found[name]) == raw(tensor), name
    assert stored.imports == ()


class Exported(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("bias", torch.ones(2))
        self.tied = self.linear.weight
        self.constant = torch.arange(3.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + self.bias + x @ self.tied.T + self.constant.sum()


def test_an_exported_program(tmp_path: Path) -> None:
    model = Exported()
    torch.export.save(torch.export.export(model, (torch.ones(1, 3),)), tmp_path / "e.pt2")
    stored = torch_file.read(tmp_path / "e.pt2")
    assert stored.format == "exported_program"
    found = {entry.name: entry for entry in stored.entries}
    for name, tensor in model.state_dict().items():
        assert (found[name].group, found[name].shape) == ("model", tuple(tensor.shape))
        assert stored_part(stored, found[name]) == raw(tensor)
    assert found["constant"].group == "other" and stored_part(stored, found["constant"]) == raw(model.constant)
    assert {entry.name: entry.same_as for entry in stored.entries if entry.same_as} == {"linear.weight": "tied"}


def test_what_its_pickle_would_import(tmp_path: Path) -> None:
    content = {"model": {"w": torch.ones(2)}, "args": argparse.Namespace(lr=1), "loss": np.float64(0.5)}
    stored = torch_file.read(save(content, tmp_path / "w.pt"))
    assert stored.imports == ("argparse.Namespace",)
    assert "torch._utils._rebuild_tensor_v2" in stored.all_imports
    assert stored.metadata["weights_only"] is False and stored.metadata["keys"] == ["model", "args", "loss"]
    assert stored.metadata["values"] == {"loss": 0.5}


def test_placeholders_and_nothing(tmp_path: Path) -> None:
    state = {"w": torch.empty(0), "meta": torch.empty(4, 5, device="meta"), "b": torch.ones(2)}
    seen = torch_file.read(save(state, tmp_path / "w.pt")).observations
    assert [(each.kind, each.subject) for each in seen] == [("placeholder", "w"), ("placeholder", "meta")]
    empty = torch_file.read(save({"epoch": 3}, tmp_path / "e.pt"))
    assert [each.kind for each in empty.observations] == ["no_tensors"] and empty.training.epoch == 3


def test_sparse_and_quantised_tensors(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = {"s": torch.eye(3).to_sparse(), "q": torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 3, torch.quint8)}
    found = {entry.name: entry for entry in torch_file.read(save(state, tmp_path / "w.pt")).entries}
    assert (found["s"].shape, found["s"].dtype) == ((3, 3), "float32")
    assert {part.codec for part in found["s"].parts} == {"sparse"}
    assert (found["q"].shape, found["q"].dtype) == ((2, 3), "quint8")


def in_byte_order(order: bytes, path: Path) -> Path:
    """A copy of a file that says it has another byte order."""
    copy = path.with_name("other.pt")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(copy, "w") as new:
        for name in old.namelist():
            new.writestr(name, order if name.endswith("/byteorder") else old.read(name))
    return copy


@pytest.mark.parametrize(("order", "codec"), [(b"big", "big_endian"), (b"middle", "byte_order")])
def test_another_byte_order_is_said_and_not_read(tmp_path: Path, order: bytes, codec: str) -> None:
    save({"w": torch.ones(2)}, tmp_path / "little.pt")
    stored = torch_file.read(in_byte_order(order, tmp_path / "little.pt"))
    (part,) = stored.entries[0].parts
    assert (part.offset, part.bytes, part.codec) == (None, 8, codec)
    assert stored.metadata["byte_order"] == order.decode()
    with pytest.raises(UnreadableValues, match=codec):
        read_entry(stored, stored.entries[0])


@BOTH
def test_counters_that_are_tensors(net: Net, tmp_path: Path, legacy: bool) -> None:
    counts = torch.tensor([5, 70_000, 9])
    content = {"model": net.state_dict(), "step": counts[1], "epoch": torch.tensor(1.5, dtype=torch.bfloat16)}
    stored = torch_file.read(save(content, tmp_path / "w.pt", legacy))
    assert (stored.training.step, stored.training.epoch) == (70_000, 1.5)
    assert {each.full_name: each.group for each in stored.entries if each.path == ()} == {
        "step": "other",
        "epoch": "other",
    }


def test_a_counter_in_another_byte_order_is_there(net: Net, tmp_path: Path) -> None:
    save({"model": net.state_dict(), "step": torch.tensor(7)}, tmp_path / "little.pt")
    training = torch_file.read(in_byte_order(b"big", tmp_path / "little.pt")).training
    assert (training.step, training.unread) == (None, ("step",))


def test_no_counter(tmp_path: Path) -> None:
    """Several elements, a flag, a complex number, a buffer beside weights: none of them counts steps."""
    content = {"model": {"step": torch.tensor(3)}, "step": torch.tensor([1, 2]), "epoch": torch.tensor(True)}
    stored = torch_file.read(save({**content, "iter": torch.tensor(1j)}, tmp_path / "w.pt"))
    assert (stored.training.step, stored.training.epoch, stored.training.unread) == (None, None, ())


def test_lightning_says_who_wrote(tmp_path: Path) -> None:
    content = OrderedDict({"pytorch-lightning_version": "2.5.0", "state_dict": {"w": torch.ones(1)}})
    assert torch_file.read(save(content, tmp_path / "w.ckpt")).writer == "pytorch-lightning 2.5.0"


@BOTH
def test_a_tree_that_refers_to_itself(tmp_path: Path, legacy: bool) -> None:
    looped: dict[str, Any] = {"w": torch.ones(2)}
    looped["self"] = looped
    stored = torch_file.read(save(looped, tmp_path / "w.pt", legacy))
    assert stored.entries[0].full_name == "w" and len(stored.entries) <= 101


def test_shared_containers_that_multiply(tmp_path: Path) -> None:
    """A small file whose tree has 2 ** 40 leaves is refused and not walked."""
    tree: Any = [1]
    for _ in range(40):
        tree = {"a": tree, "b": tree}
    with pytest.raises(InputError, match="more than 2,000,000 values"):
        torch_file.read(save(tree, tmp_path / "w.pt"))


@BOTH
def test_every_truncation_is_noticed(net: Net, tmp_path: Path, legacy: bool) -> None:
    whole = save(net.state_dict(), tmp_path / "w.pt", legacy).read_bytes()
    path = tmp_path / "cut.pt"
    for length in range(1, len(whole), 31):
        path.write_bytes(whole[:length])
        torch_file.recognises(path)
        with pytest.raises(InputError):
            torch_file.read(path)
