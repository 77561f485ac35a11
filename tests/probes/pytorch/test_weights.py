"""Weights into a factory's module: strictly, safely, and with an answer that says what does not fit."""

import pytest
import torch

from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.pytorch.weights import load_weights


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 2)
        self.second = torch.nn.Linear(2, 2, bias=False)


def state(value=1.0):
    return {name: torch.full_like(tensor, value) for name, tensor in Net().state_dict().items()}


def loaded(path, **options):
    module = Net()
    load_weights(module, str(path), key=options.get("key"), trust=options.get("trust", False))
    return {float(tensor.unique()) for tensor in module.state_dict().values()}


def fails(path, **options):
    with pytest.raises(JobFailed) as caught:
        loaded(path, **options)
    assert caught.value.details["remedy"]
    return caught.value


def test_plain_state_dict(tmp_path):
    torch.save(state(3.0), tmp_path / "w.pt")
    assert loaded(tmp_path / "w.pt") == {3.0}


def test_legacy_format(tmp_path):
    torch.save(state(3.0), tmp_path / "w.pt", _use_new_zipfile_serialization=False)
    assert loaded(tmp_path / "w.pt") == {3.0}


def test_safetensors(tmp_path):
    from safetensors.torch import save_file

    save_file(state(4.0), str(tmp_path / "w.bin"))  # recognised by content, not by name
    assert loaded(tmp_path / "w.bin") == {4.0}


def test_nested_with_and_without_key(tmp_path):
    torch.save({"epoch": 3, "model_state": state(5.0), "optimizer": {"lr": 0.1}}, tmp_path / "w.pt")
    assert loaded(tmp_path / "w.pt", key="model_state") == {5.0}
    assert loaded(tmp_path / "w.pt") == {5.0}
    assert "nothing under 'ema'" in fails(tmp_path / "w.pt", key="ema").message


def test_deeper_key(tmp_path):
    torch.save({"a": {"b": state(6.0)}}, tmp_path / "w.pt")
    assert loaded(tmp_path / "w.pt", key="a.b") == {6.0}


def test_two_state_dicts_need_a_choice(tmp_path):
    torch.save({"model": state(), "ema": state()}, tmp_path / "w.pt")
    assert "several state_dicts: model, ema" in fails(tmp_path / "w.pt").message


def test_missing_unexpected_and_ill_shaped_names(tmp_path):
    weights = state()
    weights["third.weight"] = weights.pop("second.weight")
    weights["first.bias"] = torch.ones(7)
    torch.save(weights, tmp_path / "w.pt")
    message = fails(tmp_path / "w.pt").message
    assert "the file lacks second.weight" in message
    assert "the model has no place for third.weight" in message
    assert "the file has other shapes for first.bias [7] where the model wants [2]" in message


def test_prefix_of_a_wrapper_is_recognised(tmp_path):
    torch.save({f"module.{name}": tensor for name, tensor in state().items()}, tmp_path / "w.pt")
    assert "'module.'" in fails(tmp_path / "w.pt").details["remedy"]


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_pickled_code_does_not_run(tmp_path):
    torch.save({**state(), "extra": Bomb(tmp_path / "created")}, tmp_path / "w.pt")
    assert "--trust" in fails(tmp_path / "w.pt").details["remedy"]
    assert not (tmp_path / "created").exists()


def test_no_such_file_and_no_weights(tmp_path):
    assert "no such file" in fails(tmp_path / "none.pt").message
    (tmp_path / "w.pt").write_bytes(b"hello, this is not a checkpoint")
    assert (
        "cannot be read as weights" in fails(tmp_path / "w.pt").message or "import" in fails(tmp_path / "w.pt").message
    )
    torch.save([1, 2], tmp_path / "list.pt")
    assert "holds a list" in fails(tmp_path / "list.pt").message
