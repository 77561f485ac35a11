"""Differences of training states: real optimisers of torch saved to files, and states put together by hand."""

from pathlib import Path

import pytest

from tensoraudit.checkpoints.optimizer_diff import compare_training
from tensoraudit.checkpoints.schema import OptimizerState, StoredCheckpoint, TrainingState


def stored(training):
    return StoredCheckpoint(Path("f"), Path(), "raw", "numpy", ("f",), (), training)


def kinds(one, other):
    return [(found.kind, found.subject) for found in compare_training(stored(one), stored(other))]


def adam(**changed):
    known = {
        "path": ("optimizer",),
        "kind": "adam",
        "keyed": "position",
        "fields": ("step", "exp_avg", "exp_avg_sq"),
        "parameters": 3,
        "groups": ({"lr": 1e-3, "betas": (0.9, 0.999), "fused": None, "params": [0, 1, 2]},),
    }
    return TrainingState((OptimizerState(**{**known, **changed}),))


def test_equal_states_differ_in_nothing():
    assert kinds(adam(), adam()) == []
    assert kinds(TrainingState(), TrainingState()) == []


def test_a_tuple_and_a_list_of_betas_are_equal():
    group = {"lr": 1e-3, "betas": [0.9, 0.999], "fused": None, "params": [0, 1, 2]}
    assert kinds(adam(), adam(groups=(group,))) == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"kind": "lamb"}, [("optimizer_kind", "optimizer")]),
        ({"keyed": "digits"}, [("optimizer_keys", "optimizer")]),
        ({"fields": ("step", "momentum_buffer")}, [("optimizer_fields", "optimizer")]),
        ({"parameters": 0}, [("optimizer_parameters", "optimizer")]),
        ({"extra": ("momentum",)}, [("optimizer_fields", "optimizer")]),
    ],
)
def test_each_difference_has_its_kind(changed, expected):
    assert kinds(adam(), adam(**changed)) == expected


def group(**changed):
    return {"lr": 1e-3, "betas": (0.9, 0.999), "fused": None, "params": [0, 1, 2], **changed}


def test_hyperparameters():
    found = list(compare_training(stored(adam()), stored(adam(groups=(group(lr=0.1, weight_decay=0.01),)))))
    assert [(each.kind, each.subject, each.value) for each in found] == [
        ("optimizer_hyperparameter", "optimizer, group 0, lr", [1e-3, 0.1]),
        ("optimizer_hyperparameter", "optimizer, group 0, weight_decay", [None, 0.01]),
    ]
    assert "0.001 in the reference and 0.1 in the candidate" in found[0].message
    assert "not there in the reference" in found[1].message


def test_fused_is_how_and_not_what():
    assert kinds(adam(), adam(groups=(group(fused=True),))) == [
        ("optimizer_implementation", "optimizer, group 0, fused")
    ]


def test_order_of_parameters():
    found = list(compare_training(stored(adam()), stored(adam(groups=(group(params=[0, 2, 1]),)))))
    assert [(each.kind, each.value) for each in found] == [("optimizer_order", [1, 2])]


def test_order_by_names_where_positions_hide_it():
    one, other = (adam(groups=(group(param_names=list(names)),)) for names in ("abc", "acb"))
    assert kinds(one, other) == [("optimizer_order", "optimizer, group 0")]


def test_groups_of_other_sizes():
    two = adam(groups=(group(params=[0]), group(params=[1, 2])))
    assert kinds(adam(), two) == [("optimizer_groups", "optimizer")]


def test_what_only_one_side_has():
    full = TrainingState(adam().optimizers, 10, 2, {"last_epoch": 2}, {}, {"at": 5}, ("torch", "cuda"))
    bare = TrainingState()
    missing = [("optimizer_missing", "optimizer")]
    missing += [("training_missing", part) for part in ("scheduler", "scaler", "loader", "step", "epoch")]
    assert kinds(full, bare) == [*missing, ("rng", "checkpoint")]
    assert [kind for kind, _ in kinds(bare, full)] == ["optimizer_extra", *["training_extra"] * 5, "rng"]


def test_other_values():
    one = TrainingState(step=10, scheduler={"last_epoch": 2, "base": 1})
    found = list(compare_training(stored(one), stored(TrainingState(step=11, scheduler={"last_epoch": 3, "base": 1}))))
    assert [(each.kind, each.subject, each.value) for each in found] == [
        ("training_value", "scheduler", ["last_epoch"]),
        ("training_value", "step", [10, 11]),
    ]


class TestTorch:
    """Files of torch.save, read by header."""

    @pytest.fixture
    def save(self, tmp_path):
        import torch

        from tensoraudit.checkpoints.read import read_checkpoint

        def write(name, make, keyed_by_name=False):
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(7, 11), torch.nn.BatchNorm1d(11), torch.nn.Linear(11, 11))
            optimizer = make(model)
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.randn(5, 7)).pow(2).mean().backward()
                optimizer.step()
            state = optimizer.state_dict()
            if keyed_by_name:
                from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

                state = get_optimizer_state_dict(model, optimizer)
            torch.save({"model": model.state_dict(), "optimizer": state}, tmp_path / name)
            return read_checkpoint(tmp_path / name)

        return write

    def adamw(self, **how):
        import torch

        return lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3, **how)

    def test_fused(self, save):
        sides = save("a.pt", self.adamw()), save("b.pt", self.adamw(fused=True))
        found = {(each.kind, each.subject.rpartition(", ")[2]) for each in compare_training(*sides)}
        assert ("optimizer_implementation", "fused") in found
        assert {kind for kind, _ in found} == {"optimizer_implementation"}

    def test_sgd_and_adafactor(self, save):
        import torch

        adamw = save("a.pt", self.adamw())
        sgd = save("b.pt", lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
        adafactor = save("c.pt", lambda model: torch.optim.Adafactor(model.parameters()))
        for other, kind in ((sgd, "sgd"), (adafactor, "adafactor")):
            found = {each.kind: each.value for each in compare_training(adamw, other)}
            assert found["optimizer_kind"] == ["adam", kind]
            assert "optimizer_fields" in found and "optimizer_hyperparameter" in found

    def test_state_by_position_is_paired_with_state_by_name(self, save):
        from tensoraudit.checkpoints.diff import diff_checkpoints

        sides = save("a.pt", self.adamw()), save("b.pt", self.adamw(), keyed_by_name=True)
        found = diff_checkpoints(*sides, values=True)
        assert {pair.status for pair in found.pairs} == {"equal"}
        pairs = {pair.reference: pair.candidate for pair in found.pairs}
        assert pairs["optimizer.state.4.exp_avg_sq"] == "optimizer.state.2.weight.exp_avg_sq"
        assert pairs["optimizer.state.5.step"] == "optimizer.state.2.bias.step"
        assert [each.kind for each in found.optimizer] == ["optimizer_keys"]

    def test_reversed_parameters(self, save):
        import torch

        from tensoraudit.checkpoints.diff import diff_checkpoints

        def turned(model):
            return torch.optim.AdamW(list(model.named_parameters())[::-1], lr=1e-3)

        def named(model):
            return torch.optim.AdamW(model.named_parameters(), lr=1e-3)

        sides = save("a.pt", named), save("b.pt", turned)
        found = diff_checkpoints(*sides, values=True)
        assert [each.kind for each in found.optimizer] == ["optimizer_order"]
        status = {pair.reference: pair.status for pair in found.pairs}
        assert status["model.0.weight"] == "equal" and status["optimizer.state.0.exp_avg"] == "different"
