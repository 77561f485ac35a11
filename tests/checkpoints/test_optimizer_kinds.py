"""Kinds of optimisers: every one of torch, stepped and saved, and fields of others put together by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tensoraudit.checkpoints.optimizer_diff import compare_training
from tensoraudit.checkpoints.optimizer_kinds import kind_before_state, kind_of
from tensoraudit.checkpoints.read import read_checkpoint
from tensoraudit.checkpoints.schema import OptimizerState, StoredCheckpoint, TrainingState
from tensoraudit.report.resumable import parts

CASES: list[tuple[str, dict[str, Any], str]] = [
    ("ASGD", {}, "asgd"),
    ("ASGD", {"weight_decay": 0.1}, "asgd"),
    ("Adadelta", {}, "adadelta"),
    ("Adafactor", {}, "adafactor"),
    ("Adagrad", {}, "adagrad"),
    ("Adagrad", {"initial_accumulator_value": 0.1}, "adagrad"),
    ("Adam", {}, "adam"),
    ("Adam", {"amsgrad": True}, "adam"),
    ("Adam", {"decoupled_weight_decay": True}, "adam"),
    ("AdamW", {}, "adam"),
    ("AdamW", {"amsgrad": True, "fused": True}, "adam"),
    ("Adamax", {}, "adamax"),
    ("LBFGS", {}, "lbfgs"),
    ("LBFGS", {"line_search_fn": "strong_wolfe"}, "lbfgs"),
    ("Muon", {}, "muon"),
    ("Muon", {"momentum": 0.0}, "muon"),
    ("NAdam", {}, "nadam"),
    ("NAdam", {"decoupled_weight_decay": True}, "nadam"),
    ("RAdam", {}, "radam"),
    ("RAdam", {"decoupled_weight_decay": True}, "radam"),
    ("RMSprop", {}, "rmsprop"),
    ("RMSprop", {"momentum": 0.9}, "rmsprop"),
    ("RMSprop", {"centered": True}, "rmsprop"),
    ("RMSprop", {"momentum": 0.9, "centered": True}, "rmsprop"),
    ("Rprop", {}, "rprop"),
    ("SGD", {"momentum": 0.9}, "sgd"),
    ("SGD", {"momentum": 0.9, "nesterov": True, "fused": True}, "sgd"),
    ("SparseAdam", {}, "sparseadam"),
]
WITHOUT_OWN_NAMES = {"Adamax"}


def made(name: str, options: dict[str, Any], steps: int) -> Any:
    import torch

    torch.manual_seed(3)
    model = (
        torch.nn.Embedding(5, 3, sparse=True) if name == "SparseAdam" else torch.nn.Linear(3, 4, bias=name != "Muon")
    )
    given = torch.tensor([1, 2]) if name == "SparseAdam" else torch.ones(2, 3)
    optimizer = getattr(torch.optim, name)(model.parameters(), **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(given).pow(2).sum()
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return optimizer.state_dict()


def saved(path: Path, name: str, options: dict[str, Any], steps: int = 2, **groups: Any) -> Any:
    import torch

    state = made(name, options, steps)
    for group in state["param_groups"]:
        group.update(groups)
    torch.save({"optimizer": state}, path)
    return read_checkpoint(path)


def test_every_optimizer_of_torch_is_a_case() -> None:
    import torch

    classes = {name for name in torch.optim.__all__ if isinstance(getattr(torch.optim, name), type)} - {"Optimizer"}
    assert classes == {name for name, _, _ in CASES}


@pytest.mark.parametrize(("name", "options", "kind"), CASES)
def test_kinds_of_torch(tmp_path: Path, name: str, options: dict[str, Any], kind: str) -> None:
    stored = saved(tmp_path / "a.pt", name, options)
    assert stored.training.optimizers[0].kind == kind
    assert parts(stored)["optimiser"].startswith(f"{kind}, state of ")
    scheduled = saved(tmp_path / "b.pt", name, options, initial_lr=0.1, lr_scale=0.5, group_name="decay")
    assert scheduled.training.optimizers[0].kind == kind


@pytest.mark.parametrize(("name", "options", "kind"), [*CASES, ("SGD", {}, "sgd")])
def test_before_the_first_step(tmp_path: Path, name: str, options: dict[str, Any], kind: str) -> None:
    stored = saved(tmp_path / "a.pt", name, options, steps=0)
    if name == "Adagrad":  # keeps its sums from the start
        assert stored.training.optimizers[0].kind == "adagrad"
        return
    assert stored.training.optimizers[0].kind == "none"
    told = parts(stored)["optimiser"]
    assert told.startswith("no state yet, 1 group" if name in WITHOUT_OWN_NAMES else f"{kind}, no state, 1 group")


def test_sgd_without_momentum_never_keeps_anything(tmp_path: Path) -> None:
    assert parts(saved(tmp_path / "a.pt", "SGD", {}))["optimiser"].startswith("sgd, no state, 1 group, lr 0.001")


def test_two_that_keep_the_same_are_told_apart_in_a_diff(tmp_path: Path) -> None:
    sgd = saved(tmp_path / "a.pt", "SGD", {"momentum": 0.9})
    muon = saved(tmp_path / "b.pt", "Muon", {})
    assert sgd.training.optimizers[0].fields == muon.training.optimizers[0].fields
    found = {each.kind: each.value for each in compare_training(sgd, muon)}
    assert found["optimizer_kind"] == ["sgd", "muon"]
    fresh = saved(tmp_path / "c.pt", "Muon", {}, steps=0)
    found = {each.kind: each.value for each in compare_training(muon, fresh)}
    assert "optimizer_kind" not in found and found["optimizer_parameters"] == [1, 0]


@pytest.mark.parametrize(
    ("fields", "groups", "kind"),
    [
        ("exp_avg exp_avg_sq step", "", "adam"),
        ("exp_avg exp_avg_sq step", "lr betas eps weight_decay", "adam"),
        ("exp_avg exp_avg_sq step", "lr bias_correction betas eps weight_decay lr_mult wd_mult is_expert", "adam"),
        ("exp_avg exp_avg_sq master_param", "lr bias_correction betas eps weight_decay", "adam"),
        ("exp_avg exp_avg_sq trust_ratio", "", "lamb"),
        ("exp_avg exp_avg_sq weight_norm adam_norm", "", "lamb"),
        ("exp_avg exp_avg_sq", "lr bias_correction betas eps weight_decay grad_averaging max_grad_norm", "lamb"),
        ("exp_avg_sq_row exp_avg_sq_col step RMS exp_avg", "", "adafactor"),
        ("step row_var col_var", "", "adafactor"),
        ("step variance", "lr beta2_decay eps d", "adafactor"),
        ("exp_avg_sq_row exp_avg_sq_col exp_avg_res_row exp_avg_res_col", "", "unknown"),  # CAME
        ("exp_avg exp_avg_sq exp_avg_diff neg_pre_grad", "lr betas eps", "unknown"),  # Adan
        ("exp_avg exp_avg_sq s p0", "lr betas d_coef", "unknown"),  # Prodigy
        ("exp_avg exp_avg_sq step", "lr betas eps weight_decay final_lr gamma amsbound", "unknown"),  # AdaBound
        ("exp_avg exp_avg_var step", "lr betas eps", "unknown"),  # AdaBelief
        ("momentum_buffer", "lr momentum dampening weight_decay nesterov trust_coeff", "unknown"),  # LARS
        ("momentum_buffer", "lr momentum weight_decay", "unknown"),  # Muon of others, or a plain SGD
        ("momentum_buffer", "", "unknown"),
        ("momentum_buffer", "lr momentum dampening weight_decay nesterov", "sgd"),
        ("square_avg step", "", "unknown"),
        ("step", "lr", "none"),
        ("", "", "none"),
    ],
)
def test_kinds_of_others(fields: str, groups: str, kind: str) -> None:
    assert kind_of(fields.split(), groups.split()) == kind


def test_no_groups_no_name() -> None:
    assert kind_before_state(()) == "unknown"
    assert kind_before_state({"lr", "betas", "eps", "weight_decay", "wd_ratio"}) == "unknown"


@pytest.mark.parametrize(
    ("kind", "fields", "told"),
    [("unknown", (), "of unknown kind"), ("unknown", ("z", "exp_avg_sq"), "fields z, exp_avg_sq"), ("sgd", (), "sgd")],
)
def test_no_empty_list_of_fields(kind: str, fields: tuple[str, ...], told: str) -> None:
    state = OptimizerState(("optimizer",), kind, "position", fields, 3)
    stored = StoredCheckpoint(Path("f"), Path(), "raw", "numpy", ("f",), (), TrainingState((state,)))
    assert parts(stored)["optimiser"] == f"{told}, state of 3 parameters by position"
