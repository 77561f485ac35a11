"""States of optimizers: each claim is put to torch's own optimizers first."""

import json

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tensoraudit.checkpoints import torch_file  # noqa: E402
from tensoraudit.checkpoints.observations import optimizer  # noqa: E402


class Pair(nn.Module):
    def __init__(self, first="q", second="k"):
        super().__init__()
        shapes = {"q": (5, 3), "k": (3, 7)}
        for name in (first, second):
            self.register_module(name, nn.Linear(*shapes[name]))


def stepped(model, make=torch.optim.AdamW, named=False, **options):
    made = make(model.named_parameters() if named else model.parameters(), **options)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    made.step()
    return made


def observed(folder, model, state, **more):
    path = folder / "a.pt"
    torch.save({"model": model.state_dict(), "optimizer": state, **more}, path)
    found = list(optimizer.observe(torch_file.read(path)))
    return {each.kind: each for each in found}, [each.kind for each in found]


@pytest.mark.parametrize(
    ("make", "options", "kind"),
    [
        (torch.optim.AdamW, {}, "adam"),
        (torch.optim.Adam, {"amsgrad": True}, "adam"),
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, "sgd"),
        (torch.optim.SGD, {"lr": 0.1}, "none"),
    ],
)
def test_a_state_that_is_right_has_a_kind_and_nothing_else(tmp_path, make, options, kind):
    model = Pair()
    found, kinds = observed(tmp_path, model, stepped(model, make, **options).state_dict(), epoch=3)
    assert kinds == ["optimizer_kind"]
    assert found["optimizer_kind"].value == kind
    assert found["optimizer_kind"].subject == "optimizer"


def test_digits(tmp_path):
    model = Pair()
    state = stepped(model).state_dict()
    state["state"] = {str(key): value for key, value in state["state"].items()}
    fresh = torch.optim.AdamW(model.parameters())
    fresh.load_state_dict(state)
    assert [parameter for parameter in model.parameters() if parameter in fresh.state] == []
    found, kinds = observed(tmp_path, model, state)
    assert kinds == ["optimizer_kind", "optimizer_digit_keys"]
    assert found["optimizer_digit_keys"].value == 4


def test_state_beside_the_two_keys(tmp_path):
    model = Pair()
    state = {**stepped(model).state_dict(), "momentum_buffer": torch.zeros(3)}
    fresh = torch.optim.AdamW(model.parameters())
    fresh.load_state_dict(state)
    assert set(fresh.state_dict()) == {"state", "param_groups"}
    found, kinds = observed(tmp_path, model, state)
    assert kinds == ["optimizer_kind", "optimizer_extra"]
    assert found["optimizer_extra"].value == ["momentum_buffer"]


@pytest.mark.parametrize(("epoch", "kinds"), [(0, []), (3, ["optimizer_empty"])])
def test_no_state_at_a_later_step(tmp_path, epoch, kinds):
    model = Pair()
    state = torch.optim.AdamW(model.parameters()).state_dict()
    assert observed(tmp_path, model, state, epoch=epoch)[1] == ["optimizer_kind", *kinds]
    assert observed(tmp_path, model, state)[1] == ["optimizer_kind"]


def test_sgd_keeps_no_state_without_momentum(tmp_path):
    model = Pair()
    without = stepped(model, torch.optim.SGD, lr=0.1).state_dict()
    without["state"] = {}
    assert "optimizer_empty" not in observed(tmp_path, model, without, epoch=3)[1]
    momentum = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9).state_dict()
    assert "optimizer_empty" in observed(tmp_path, model, momentum, epoch=3)[1]


def test_the_state_of_one_under_the_groups_of_another(tmp_path):
    model = Pair()
    adam, sgd = stepped(model).state_dict(), stepped(model, torch.optim.SGD, lr=0.1, momentum=0.9).state_dict()
    mixed = {"state": sgd["state"], "param_groups": adam["param_groups"]}
    with pytest.raises(KeyError):
        torch.optim.AdamW(model.parameters()).load_state_dict(mixed)
    found, kinds = observed(tmp_path, model, mixed)
    assert kinds == ["optimizer_kind", "optimizer_mixed"]
    assert found["optimizer_mixed"].value == ["momentum_buffer"]
    other = {"state": adam["state"], "param_groups": sgd["param_groups"]}
    assert observed(tmp_path, model, other)[0]["optimizer_mixed"].value == ["exp_avg"]


def test_another_order_of_parameters(tmp_path):
    """torch gives the moments of q to k, and says nothing although the names are there."""
    model, swapped = Pair("q", "k"), Pair("k", "q")
    state = stepped(model, named=True).state_dict()
    fresh = torch.optim.AdamW(swapped.named_parameters())
    fresh.load_state_dict(state)
    assert fresh.state[swapped.k.weight]["exp_avg"].shape == model.q.weight.shape
    found, kinds = observed(tmp_path, swapped, state)
    assert kinds == ["optimizer_kind", "optimizer_order", *["optimizer_shape"] * 4]
    assert found["optimizer_order"].value == "q.weight"
    assert observed(tmp_path, model, state)[1] == ["optimizer_kind"]


def test_shapes_without_names(tmp_path):
    model, swapped = Pair("q", "k"), Pair("k", "q")
    path = tmp_path / "a.pt"
    torch.save({"model": swapped.state_dict(), "optimizer": stepped(model).state_dict()}, path)
    wrong = [each for each in optimizer.observe(torch_file.read(path)) if each.kind == "optimizer_shape"]
    shapes = zip(model.parameters(), swapped.parameters(), strict=True)
    assert [each.value for each in wrong] == [[list(ours.shape), list(theirs.shape)] for ours, theirs in shapes]
    assert wrong[0].subject == "optimizer.state.0.exp_avg"


def test_positions_mean_nothing_where_some_parameters_are_frozen(tmp_path):
    model = Pair()
    model.q.requires_grad_(False)
    made = torch.optim.AdamW(model.k.parameters())
    model.k.weight.grad, model.k.bias.grad = torch.ones(7, 3), torch.ones(7)
    made.step()
    assert observed(tmp_path, model, made.state_dict())[1] == ["optimizer_kind"]


def test_buffers_and_tied_weights_are_no_parameters(tmp_path):
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 5), nn.Linear(3, 5))
    model[3].weight = model[2].weight
    found, kinds = observed(tmp_path, model, stepped(model).state_dict())
    assert kinds == ["optimizer_kind"]
    assert json.dumps(found["optimizer_kind"].value) == '"adam"'
