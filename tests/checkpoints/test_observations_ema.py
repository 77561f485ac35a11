"""Two sets of weights, in files that torch writes."""

import pytest

torch = pytest.importorskip("torch")

from tensoraudit.checkpoints.observations import ema  # noqa: E402
from tensoraudit.checkpoints.paired import CheckpointDiff, PairedTensor  # noqa: E402
from tensoraudit.checkpoints.torch_file import read  # noqa: E402


def net():
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5))


def averaged(**options):
    return torch.optim.swa_utils.AveragedModel(net(), **options).state_dict()


def saved(folder, tree):
    torch.save(tree, folder / "a.pt")
    return read(folder / "a.pt")


def seen(stored):
    return [(each.kind, each.subject, each.value) for each in ema.observe(stored)]


def test_an_averaged_model_beside_the_trained_one(tmp_path):
    stored = saved(tmp_path, {"model": net().state_dict(), "ema": averaged()})
    assert seen(stored) == [("ema_twin", "ema", ["model", 7]), ("averaged_model", "ema", "ema.n_averaged")]


def test_an_average_of_parameters_alone(tmp_path):
    weights = {name: each.detach() for name, each in net().named_parameters()}
    stored = saved(tmp_path, {"state_dict": net().state_dict(), "state_dict_ema": weights})
    assert seen(stored) == [("ema_twin", "state_dict_ema", ["state_dict", 4])]


def test_an_averaged_model_alone(tmp_path):
    assert seen(saved(tmp_path, averaged())) == [("averaged_model", "checkpoint", "n_averaged")]


def test_one_set(tmp_path):
    assert seen(saved(tmp_path, {"model": net().state_dict(), "epoch": 3})) == []
    assert seen(saved(tmp_path, {"model": net().state_dict(), "n_averaged": torch.tensor(3)})) == []


def test_a_set_of_other_shapes_is_no_average(tmp_path):
    other = {name: torch.zeros(2) for name, _ in net().named_parameters()}
    stored = saved(tmp_path, {"model": net().state_dict(), "ema": other})
    assert seen(stored) == []


def pairs_of(taken, values=True):
    digests = ("a", "a") if values else ("", "")
    other = "ema" if taken == "model" else "model"
    prefix = {"model": "model.", "ema": "ema.module."}
    return (
        PairedTensor(f"{prefix[taken]}0.weight", "0.weight", "equal" if values else "same_header", digests=digests),
        PairedTensor(f"{prefix[other]}0.weight", "", "missing"),
    )


@pytest.mark.parametrize(
    ("taken", "values", "found"),
    [("model", True, [("ema_taken", "ema", 1)]), ("ema", True, []), ("model", False, [])],
)
def test_which_set_was_taken(taken, values, found, tmp_path):
    reference = saved(tmp_path, {"model": net().state_dict(), "ema": averaged()})
    diff = CheckpointDiff(reference, reference, pairs_of(taken, values), (), ())
    assert [(each.kind, each.subject, each.value) for each in ema.observe_diff(diff)] == found


def test_a_reference_with_one_set(tmp_path):
    reference = saved(tmp_path, {"model": net().state_dict()})
    diff = CheckpointDiff(reference, reference, pairs_of("model"), (), ())
    assert list(ema.observe_diff(diff)) == []


def groups_of(stored):
    found = {}
    for each in stored.entries:
        found.setdefault(each.group, []).append(each.full_name)
    return {group: len(names) for group, names in found.items()}


def of_ema_pytorch(trained):
    """What a module of ema-pytorch saves; `initted` and `step` are its own."""
    module = {"initted": torch.tensor(True), "step": torch.tensor(3)}
    module |= {f"online_model.{name}": each for name, each in trained.items()}
    return module | {f"ema_model.{name}": each + 1 for name, each in trained.items()}


def test_both_models_of_one_module(tmp_path):
    stored = saved(tmp_path, of_ema_pytorch(net().state_dict()))
    assert seen(stored) == [("ema_twin", "ema_model", ["online_model", 7])]
    assert groups_of(stored) == {"model": 7, "ema": 7, "other": 2}
    assert "ema_model.0.weight" in {each.full_name for each in stored.entries}


def test_such_a_module_beside_the_trained_model(tmp_path):
    trained = net().state_dict()
    stored = saved(tmp_path, {"model": trained, "ema": of_ema_pytorch(trained)})
    assert seen(stored) == [("ema_twin", "ema.ema_model", ["model", 7])]
    assert groups_of(stored) == {"model": 7, "ema": 7, "other": 9}


def test_such_a_module_that_keeps_the_average_alone(tmp_path):
    """`include_online_model=False`."""
    trained = net().state_dict()
    module = {name: each for name, each in of_ema_pytorch(trained).items() if not name.startswith("online")}
    stored = saved(tmp_path, {"model": trained, "ema": module})
    assert seen(stored) == [("ema_twin", "ema.ema_model", ["model", 7])]
    assert groups_of(stored) == {"model": 7, "ema": 7, "other": 2}
    assert groups_of(saved(tmp_path, module)) == {"model": 7, "other": 2}


def of_lightning(**more):
    trained = {f"net.{name}": each for name, each in net().state_dict().items()}
    averaged_ones = {name: each + 1 for name, each in trained.items()}
    return {"state_dict": averaged_ones, "current_model_state": trained, "epoch": 2, **more}


def test_the_average_in_the_usual_place(tmp_path):
    """As the WeightAveraging callback of Lightning leaves them."""
    stored = saved(tmp_path, of_lightning(averaging_state={"n_averaged": torch.tensor(4)}))
    assert seen(stored) == [("ema_twin", "state_dict", ["current_model_state", 7])]
    assert groups_of(stored) == {"model": 7, "ema": 8}
    assert {each.path for each in stored.entries if each.group == "model"} == {("current_model_state",)}


def test_two_sets_without_a_count_are_no_average(tmp_path):
    assert groups_of(saved(tmp_path, of_lightning())) == {"model": 14}


def test_layers_with_such_names_are_layers(tmp_path):
    weights = {f"{layer}.weight": torch.zeros(3) for layer in ("avg", "max", "online_model", "step")}
    assert groups_of(saved(tmp_path, {"model": weights})) == {"model": 4}
