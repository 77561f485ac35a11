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
