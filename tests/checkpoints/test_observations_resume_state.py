"""Parts of the state of training that a file of torch.save lacks."""

import zipfile

import pytest

torch = pytest.importorskip("torch")

from tensoraudit.checkpoints.observations import resume_state  # noqa: E402
from tensoraudit.checkpoints.torch_file import read  # noqa: E402


@pytest.fixture(scope="module")
def state():
    net = torch.nn.Linear(3, 5)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return {
        "model": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 3).state_dict(),
        "scaler": torch.amp.GradScaler("cpu").state_dict(),
        "step": 3,
        "rng": torch.get_rng_state(),
    }


def missing(folder, tree):
    torch.save(tree, folder / "a.pt")
    return [each.subject for each in resume_state.observe(read(folder / "a.pt"))]


def test_everything_is_there(state, tmp_path):
    assert missing(tmp_path, state) == []


@pytest.mark.parametrize("part", ["optimizer", "step", "rng"])
def test_a_part_that_is_missing(part, state, tmp_path):
    assert missing(tmp_path, {key: value for key, value in state.items() if key != part}) == [part]


def test_a_step_that_cannot_be_read_is_there(state, tmp_path):
    torch.save({**state, "step": torch.tensor(7)}, tmp_path / "little.pt")
    with zipfile.ZipFile(tmp_path / "little.pt") as old, zipfile.ZipFile(tmp_path / "big.pt", "w") as new:
        for name in old.namelist():
            new.writestr(name, b"big" if name.endswith("/byteorder") else old.read(name))
    assert list(resume_state.observe(read(tmp_path / "big.pt"))) == []


@pytest.mark.parametrize("part", ["scheduler", "scaler"])
def test_a_part_that_not_everybody_has(part, state, tmp_path):
    assert missing(tmp_path, {key: value for key, value in state.items() if key != part}) == []


def test_a_scaler_that_was_off(state, tmp_path):
    off = torch.amp.GradScaler("cpu", enabled=False).state_dict()
    assert off == {}
    assert missing(tmp_path, {**state, "scaler": off}) == ["scaler"]


def test_weights_alone_are_no_training_state(state, tmp_path):
    assert missing(tmp_path, state["model"]) == []
    assert missing(tmp_path, {"model": state["model"], "step": 3}) == []
    assert missing(tmp_path, {"model": state["model"], "epoch": 3}) == ["optimizer", "rng"]


def test_an_optimiser_before_its_first_step(state, tmp_path):
    fresh = torch.optim.Adam(torch.nn.Linear(3, 5).parameters()).state_dict()
    assert missing(tmp_path, {**state, "optimizer": fresh}) == ["optimizer"]
