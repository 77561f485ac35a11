"""What DCK-019 to DCK-024 claim about torch and safetensors, tried on the installed ones."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

import safetensors  # noqa: E402
import safetensors.numpy  # noqa: E402
import safetensors.torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.optim.swa_utils import AveragedModel  # noqa: E402

from tensoraudit.checkpoints import safetensors_file, sharded_index, torch_file  # noqa: E402
from tensoraudit.checkpoints.observations import observe_all  # noqa: E402
from tensoraudit.extract.python_source import read_python_text  # noqa: E402
from tensoraudit.facts import Checkpoint, Measurement, Package, Site  # noqa: E402
from tensoraudit.facts.store import FactStore  # noqa: E402
from tensoraudit.findings.settle import findings_from_matches  # noqa: E402
from tensoraudit.language.confirm import settle_confirm  # noqa: E402
from tensoraudit.language.engine import match_rules  # noqa: E402
from tensoraudit.language.load import load_rules, rules_folder  # noqa: E402

pytestmark = pytest.mark.slow

RULES = load_rules([rules_folder()])


def reported(stored, python=""):
    """Rule and state of what the rules from DCK-019 on say about a checkpoint, and about a text beside it."""
    rows = [
        Measurement(f"checkpoint.{each.kind}", each.subject, each.value, detail=each.message, side="source")
        for each in (*stored.observations, *observe_all(stored))
    ]
    rows.append(Checkpoint(stored.format, stored.files, (), {}, Site(path="a"), "source"))
    store = FactStore([*rows, *read_python_text(python, path="a.py").facts])
    matches = match_rules(RULES, store, source="pytorch", target="pytorch")
    found = findings_from_matches(matches, store, probes={})
    return {(each.rule, str(each.state)) for each in found if "DCK-019" <= each.rule <= "DCK-024"}


def saved(tree, folder):
    torch.save(tree, folder / "a.pt")
    return torch_file.read(folder / "a.pt")


def settled(rule, python, *rows):
    store = FactStore([*read_python_text(python, path="a.py").facts, *rows])
    matches = match_rules(RULES, store, source="pytorch", target="pytorch")
    return {settle_confirm(match, store).state for match in matches if match.rule.id == rule}


# DCK-019


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(5))


def trained(**options):
    online = net()
    averaged = AveragedModel(online, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9), **options)
    optimizer = torch.optim.SGD(online.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(1)
    for _ in range(50):
        x = torch.randn(11, 7, generator=generator) * 3 + 1
        (online(x) - x[:, :5]).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        averaged.update_parameters(online)
    return online, averaged


def test_the_average_is_another_model():
    online, averaged = trained()
    state = averaged.state_dict()
    assert set(state) == {"n_averaged", *(f"module.{name}" for name in online.state_dict())}
    with pytest.raises(RuntimeError, match="Missing key"):
        net().load_state_dict(state)
    found = net()
    found.load_state_dict(state, strict=False)
    assert all(torch.equal(a, b) for a, b in zip(found.parameters(), net().parameters(), strict=True))
    assert 0.02 < (online[0].weight - averaged.module[0].weight).norm() / online[0].weight.norm() < 0.04


@pytest.mark.parametrize("use_buffers", [False, True])
def test_statistics_of_an_average(use_buffers):
    online, averaged = trained(use_buffers=use_buffers)
    assert torch.equal(online[1].running_mean, averaged.module[1].running_mean) is not use_buffers


def test_a_file_with_both_sets(tmp_path):
    online, averaged = trained()
    stored = saved({"model": online.state_dict(), "ema": averaged.state_dict()}, tmp_path)
    assert reported(stored) == {("DCK-019", "advice")}
    load = "import torch\nnet.load_state_dict(torch.load('a.pt')['model'])\n"
    assert ("DCK-019", "suspected") in reported(stored, load)
    assert reported(saved(online.state_dict(), tmp_path), load) == set()


# DCK-020


class Run:
    """Training of a small network with dropout, shuffling, momentum and a schedule."""

    def __init__(self):
        torch.manual_seed(3)
        self.net = nn.Sequential(nn.Linear(7, 16), nn.Dropout(0.5), nn.Linear(16, 1))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.05)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 4, 0.5)
        self.data = torch.randn(64, 7, generator=torch.Generator().manual_seed(5))

    def steps(self, count):
        losses = []
        for _ in range(count):
            rows = self.data[torch.randperm(64)[:16]]
            loss = (self.net(rows).squeeze(1) - rows.sum(1)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            losses.append(loss.item())
        return losses

    def state(self):
        parts = {"model": self.net, "optimizer": self.optimizer, "scheduler": self.schedule}
        return {**{name: each.state_dict() for name, each in parts.items()}, "rng": torch.get_rng_state(), "step": 10}

    def load(self, state):
        self.net.load_state_dict(state["model"])
        if "optimizer" in state:
            self.optimizer.load_state_dict(state["optimizer"])
        if "scheduler" in state:
            self.schedule.load_state_dict(state["scheduler"])
        if "rng" in state:
            torch.set_rng_state(state["rng"])


def resumed(folder, without=""):
    """The largest difference of five losses after a resume at step 10, and what was saved."""
    run = Run()
    run.steps(10)
    state = {key: value for key, value in run.state().items() if key != without}
    torch.save(state, folder / "a.pt")
    wanted = run.steps(5)
    again = Run()
    again.load(torch.load(folder / "a.pt"))
    return max(abs(a - b) for a, b in zip(wanted, again.steps(5), strict=True))


SAVE = """
import torch

optimizer = torch.optim.Adam(net.parameters())
torch.save({"model": net.state_dict(), "epoch": 3}, "a.pt")
"""


@pytest.mark.parametrize(
    ("without", "least", "most"), [("", 0, 0), ("rng", 0.5, 3), ("optimizer", 0.3, 2), ("scheduler", 1e-3, 0.1)]
)
def test_a_resume(without, least, most, tmp_path):
    difference = resumed(tmp_path, without)
    assert least <= difference <= most
    found = reported(torch_file.read(tmp_path / "a.pt"))
    assert (
        found
        == {"": set(), "rng": {("DCK-020", "advice")}, "optimizer": {("DCK-020", "suspected")}, "scheduler": set()}[
            without
        ]
    )
    status = Measurement("resume.status", "training", "differs" if difference else "equal")
    assert settled("DCK-020", SAVE, status) == {"confirmed" if difference else "refuted"}


def test_a_scaler_that_was_off():
    state = torch.amp.GradScaler("cpu", enabled=False).state_dict()
    assert state == {}
    with pytest.raises(RuntimeError, match="empty"):
        torch.amp.GradScaler("cpu").load_state_dict(state)


# DCK-021


class Rope(nn.Module):
    def __init__(self, base=10000.0):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("inv_freq", base ** -(torch.arange(8) / 8), persistent=False)


def test_a_buffer_that_nothing_fills():
    state = Rope().state_dict()
    assert "inv_freq" not in state
    with torch.device("meta"):
        made = Rope()
    made = made.to_empty(device="cpu")
    made.inv_freq.fill_(float("nan"))  # whatever the memory held
    made.load_state_dict(state)
    assert made.inv_freq.isnan().all()
    with torch.device("meta"):
        made = Rope()
    made.load_state_dict(state, assign=True)
    assert made.inv_freq.is_meta
    assert not made.fc.weight.is_meta


def test_a_buffer_of_another_configuration():
    made = Rope(500000.0)
    made.load_state_dict(Rope().state_dict())
    assert not torch.equal(made.inv_freq, Rope().inv_freq)
    assert Rope().half().inv_freq.dtype is torch.float16
    with pytest.raises(RuntimeError, match="Unexpected key"):
        Rope().load_state_dict({**Rope().state_dict(), "inv_freq": torch.zeros(8)})


# DCK-022

CONTIGUOUS = np.arange(6, dtype="f4").reshape(2, 3)
WRITTEN = safetensors.__version__ >= "0.8"


@pytest.mark.parametrize(
    "array", [CONTIGUOUS.T, CONTIGUOUS[:, ::2], CONTIGUOUS[::-1], np.broadcast_to(CONTIGUOUS[:1], (4, 3))]
)
def test_an_array_that_is_not_contiguous(array, tmp_path):
    safetensors.numpy.save_file({"k": array}, tmp_path / "a.safetensors")
    found = safetensors.numpy.load_file(tmp_path / "a.safetensors")["k"]
    assert found.shape == array.shape
    assert np.array_equal(found, array) is not WRITTEN
    safetensors.numpy.save_file({"k": np.ascontiguousarray(array)}, tmp_path / "a.safetensors")
    assert np.array_equal(safetensors.numpy.load_file(tmp_path / "a.safetensors")["k"], array)


def test_how_much_of_a_kernel_is_wrong(tmp_path):
    kernel = torch.randn(8, 3, 3, 3).permute(2, 3, 1, 0).numpy()
    safetensors.numpy.save_file({"k": kernel}, tmp_path / "a.safetensors")
    found = safetensors.numpy.load_file(tmp_path / "a.safetensors")["k"]
    assert bool(np.mean(found != kernel) > 0.98) is WRITTEN
    assert np.array_equal(found.reshape(8, 3, 3, 3), kernel.transpose(3, 2, 0, 1)) is WRITTEN
    with pytest.raises(ValueError, match="non contiguous"):
        safetensors.torch.save_file({"k": torch.from_numpy(kernel)}, tmp_path / "b.safetensors")


@pytest.mark.parametrize(("version", "states"), [("0.8.0", {"likely"}), ("0.7.0", set())])
def test_versions_of_safetensors(version, states):
    python = "from safetensors.numpy import save_file\ndef f(w):\n    save_file({'k': w.T}, 'a')\n"
    store = FactStore([*read_python_text(python, path="a.py").facts, Package("safetensors", version, "both")])
    found = [each for each in match_rules(RULES, store, source="jax", target="jax") if each.rule.id == "DCK-022"]
    assert {each.state for each in found} == states


# DCK-023


@pytest.mark.parametrize(("kind", "ratio"), [("int8", 2277), ("float8", 5156)])
def test_codes_pass_a_strict_load(kind, ratio, tmp_path):
    torch.manual_seed(0)
    weight = torch.randn(256, 128) * 0.02
    if kind == "int8":
        scale = weight.abs().amax(1, keepdim=True) / 127
        codes = (weight / scale).round().to(torch.int8)
    else:
        scale = weight.abs().max() / 448
        codes = (weight / scale).to(torch.float8_e4m3fn)
    layer = nn.Linear(128, 256, bias=False)
    layer.load_state_dict({"weight": codes})
    assert (layer.weight.norm() / weight.norm()).item() == pytest.approx(ratio, rel=0.1)
    assert (codes.float() * scale - weight).norm() < 0.04 * weight.norm()
    stored = saved({"fc.weight": codes, "fc.weight_scale": scale}, tmp_path)
    assert reported(stored) == set()
    assert reported(stored, "net.load_state_dict(state, strict=False)\n") == {("DCK-023", "suspected")}
    assert reported(saved({"fc.weight": codes}, tmp_path)) == {("DCK-023", "suspected")}


@pytest.mark.parametrize("quantised", [False, True])
def test_the_model_settles_what_the_codes_are_for(quantised):
    """A float layer gets codes for weights; a layer of a quantised class keeps them, and its scale beside them."""
    layer = nn.Linear(4, 4, bias=False)
    if quantised:
        layer.weight = nn.Parameter(torch.zeros(4, 4, dtype=torch.int8), requires_grad=False)
        layer.register_buffer("weight_scale", torch.ones(4))
    state = {"weight": torch.ones(4, 4, dtype=torch.int8), "weight_scale": torch.full((4,), 0.5)}
    unexpected = layer.load_state_dict(state, strict=False).unexpected_keys
    kept = layer.weight.dtype is torch.int8
    assert (kept, unexpected) == (quantised, [] if quantised else ["weight_scale"])
    rows = [Measurement("checkpoint.codes_with_scale", "weight", ["weight_scale"], side="source")]
    rows.append(Measurement("checkpoint.dtypes_kept", "checkpoint", 1.0 if kept else 0.5, side="source"))
    if not kept:
        rows.append(Measurement("checkpoint.codes_as_weights", "weight", "int8", side="source"))
    python = "net.load_state_dict(state, strict=False)\n"
    assert settled("DCK-023", python, *rows) == {"refuted" if quantised else "confirmed"}


# DCK-024


@pytest.fixture
def shards(tmp_path):
    tensors = {"a.weight": torch.randn(4, 4), "b.weight": torch.randn(4, 4)}
    names = {name: f"model-0000{number}-of-00002.safetensors" for number, name in enumerate(tensors, 1)}
    for name, file in names.items():
        safetensors.torch.save_file({name: tensors[name]}, tmp_path / file)
    index = {"metadata": {"total_size": 128}, "weight_map": names}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    return tmp_path


def test_whole_shards(shards):
    assert reported(sharded_index.read(shards)) == set()


def test_a_shard_that_is_missing(shards):
    (shards / "model-00002-of-00002.safetensors").unlink()
    state = {}
    for path in sorted(shards.glob("*.safetensors")):
        state.update(safetensors.torch.load_file(path))
    model = nn.ModuleDict({"a": nn.Linear(4, 4, bias=False), "b": nn.Linear(4, 4, bias=False)})
    assert model.load_state_dict(state, strict=False).missing_keys == ["b.weight"]
    assert reported(sharded_index.read(shards)) == {("DCK-024", "confirmed")}


def flipped(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 0x40
    path.write_bytes(data)


def test_a_changed_byte_is_not_noticed(tmp_path):
    tensor = torch.randn(64, 64)
    torch.save({"w": tensor}, tmp_path / "a.pt")
    at = (tmp_path / "a.pt").read_bytes().index(tensor.numpy().tobytes()[:64])
    flipped(tmp_path / "a.pt", at + 3)
    assert not torch.equal(torch.load(tmp_path / "a.pt")["w"], tensor)
    with zipfile.ZipFile(tmp_path / "a.pt") as opened:
        assert opened.testzip() == "a/data/0"
    safetensors.torch.save_file({"w": tensor}, tmp_path / "a.safetensors")
    flipped(tmp_path / "a.safetensors", -1)
    assert not torch.equal(safetensors.torch.load_file(tmp_path / "a.safetensors")["w"], tensor)


def test_a_cut_file_is_noticed(tmp_path):
    safetensors.torch.save_file({"w": torch.randn(64, 64)}, tmp_path / "a.safetensors")
    torch.save({"w": torch.randn(64, 64)}, tmp_path / "a.pt")
    for name in ("a.safetensors", "a.pt"):
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data[: len(data) // 2])
    with pytest.raises(safetensors.SafetensorError):
        safetensors.torch.load_file(tmp_path / "a.safetensors")
    with pytest.raises((RuntimeError, OSError)):
        torch.load(tmp_path / "a.pt")
    assert reported(safetensors_file.read(tmp_path / "a.safetensors")) == {("DCK-024", "confirmed")}


def test_the_command_that_checks_a_file(tmp_path):
    torch.save({"w": torch.ones(3)}, tmp_path / "a.pt")
    command = [sys.executable, "-m", "zipfile", "-t", str(Path(tmp_path / "a.pt"))]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
