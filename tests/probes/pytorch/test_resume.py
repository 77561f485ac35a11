"""Resume tests of real training programs of torch. Runs share this process here; that each has a process of its own in
an audit is tested in tests/audit/test_resume.py."""

import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tensoraudit.audit.resume_runs import Plan, Run, examine
from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.pytorch.resume import KINDS
from tensoraudit.probes.resume_state import parts_of
from tensoraudit.probes.resume_tree import differences

RESUMABLE = (Path(__file__).parent / "resumable.py").read_text()
PARTS = {
    "model": "model",
    "optimizer": "optimizer",
    "scheduler": "scheduler",
    "scaler": "scaler",
    "step": "value",
    "order": "value",
    "rng.torch": "rng",
    "rng.numpy": "rng",
    "rng.python": "rng",
}

pytestmark = pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")


@pytest.fixture
def run(job, tmp_path):
    """Make one run of a program that is given as text."""

    def make(text, **parameters):
        path = tmp_path / "program.py"
        path.write_text(text)
        for name in ("program", "_tensoraudit_program"):
            sys.modules.pop(name, None)  # as in a process of its own
        return job("resume", path=str(path), attribute="train_step", seed=0, **parameters)

    return make


@pytest.fixture
def tested(run, tmp_path):
    """Test the resume of a program."""

    def make(text, save_after=6, steps=6):
        fields = ("losses", "final", "kinds", "opaque", "saves", "differing", "stubborn", "error")

        def one(name, **parameters):
            given = {key: value for key, value in parameters.items() if value is not None}
            result = run(text, **given)
            return Run(**{key: result[key] for key in fields if key in result})

        return examine(one, Plan(save_after, steps, tmp_path))

    return make


def losing(part, **constants):
    text = RESUMABLE.replace('LOSE = ""', f'LOSE = "{part}"')
    for name, value in constants.items():
        text = re.sub(rf"(?m)^{name} = .*$", f"{name} = {value}", text)
    return text


def row(verdict, metric):
    return {subject: value for name, subject, value, _ in verdict.rows if name == f"resume.{metric}"}


@pytest.mark.parametrize("scaled", [True, False])
def test_a_right_program_resumes_in_every_bit(tested, scaled):
    verdict = tested(losing("", SCALED=scaled))
    assert verdict.status == "equal"
    assert row(verdict, "difference") == {"training": 0.0} and row(verdict, "cold_difference")["training"] > 0.1
    assert {part: verdict.kinds[part] for part in PARTS} == PARTS
    assert not (row(verdict, "lost") or row(verdict, "not_restored"))


@pytest.mark.parametrize("part", PARTS)
def test_the_part_that_a_program_loses_is_named(tested, part):
    verdict = tested(losing(part))
    assert verdict.status == "differs"
    assert row(verdict, "lost") == {part: PARTS[part]}
    assert not row(verdict, "hidden")


def test_a_disabled_scaler_has_nothing_to_lose(tested):
    assert tested(losing("scaler", SCALED=False)).status == "equal"


def test_two_lost_parts_are_both_named(tested):
    text = RESUMABLE.replace("if name != LOSE", 'if name not in ("optimizer", "step")')
    assert set(row(tested(text), "lost")) == {"optimizer", "step"}


def test_a_schedule_that_does_not_act_yet_is_no_loss_and_is_told(tested):
    verdict = tested(losing("scheduler").replace("step_size=4", "step_size=100"))
    assert verdict.status == "equal" and row(verdict, "not_restored") == {"scheduler": "scheduler"}


def test_without_hooks_the_state_that_a_save_needs_is_found(tested):
    text = RESUMABLE[: RESUMABLE.index("def save_state")]
    verdict = tested(text)
    assert verdict.status == "equal" and not verdict.saves
    assert set(row(verdict, "needed")) == set(PARTS)
    assert verdict.parts["data"] == "not_needed"


GLOBALS = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
step = 0

def train_step():
    global step
    step += 1
    loss = model(torch.full((2, 4), step / 40)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""


def test_the_least_program_is_a_file_with_a_step(tested):
    verdict = tested(GLOBALS)
    assert verdict.status == "equal"
    assert set(row(verdict, "needed")) == {"model", "optimizer", "step", "rng.torch"}


def test_a_step_without_a_loss_is_judged_by_the_weights(tested):
    verdict = tested(GLOBALS.replace("return loss", ""))
    assert verdict.status == "equal" and not row(verdict, "difference")
    assert row(verdict, "needed")["optimizer"] == "optimizer"


def test_a_data_iterator_is_state_that_nobody_can_give_back(tested):
    text = GLOBALS.replace("step = 0", "step = 0\nbatches = iter([torch.full((2, 4), i / 9) for i in range(40)])")
    verdict = tested(text.replace("torch.full((2, 4), step / 40)", "next(batches)"))
    assert verdict.status == "differs" and row(verdict, "hidden") == {"training": True}
    assert any("batches (list_iterator)" in text for *_, text in verdict.rows)


def test_a_program_that_nobody_seeded_cannot_be_judged(tested):
    text = GLOBALS.replace("step / 40", "__import__('time').perf_counter()")
    verdict = tested(text)
    assert verdict.status == "unknown" and row(verdict, "deterministic") == {"training": False}


def test_a_training_that_is_ruined_is_no_pass(tested):
    verdict = tested(GLOBALS.replace("step / 40", "step * 1e20"))
    assert verdict.status == "unknown" and "NaN or infinite" in verdict.reason


def test_a_step_that_trains_nothing_is_no_pass(tested):
    verdict = tested("import torch\nmodel = torch.nn.Linear(1, 1)\ndef train_step():\n    return 0.0\n")
    assert verdict.status == "unknown" and "a cold start gives the same steps" in verdict.reason


def test_saving_that_draws_numbers_changes_the_training(tested):
    verdict = tested(RESUMABLE.replace("    torch.save(held, path)", "    torch.rand(1)\n    torch.save(held, path)"))
    assert verdict.status == "differs" and row(verdict, "saving_changes") == {"training": True}


def test_a_load_that_the_library_refuses_fails_with_its_line(tested):
    """A scaler saved while it was disabled holds nothing, and one that is enabled does not take that."""
    text = RESUMABLE.replace("state[name].load_state_dict(held[name])", "state[name].load_state_dict({})")
    with pytest.raises(JobFailed, match=r"load_state fails at program\.py:\d+"):
        tested(text)


PAGE = (Path(__file__).parents[3] / "docs" / "checkpoint-resume.md").read_text()
LEAST, HOOKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_examples_of_the_documentation(tested):
    verdict = tested(LEAST)
    assert verdict.status == "equal" and set(row(verdict, "needed")) == {"model", "optimizer", "rng.torch"}
    step = LEAST[LEAST.index("def train_step") :]
    for old, new in (
        ("train_step()", "train_step(state)"),
        ("model(", 'state["model"]('),
        ("optimizer.", 'state["optimizer"].'),
    ):
        step = step.replace(old, new)
    counted = step.replace("    return loss", '    state["step"] += 1\n    return loss')
    verdict = tested(f"import torch\n{HOOKS}\n{counted}")
    assert verdict.status == "equal" and verdict.saves and set(verdict.parts.values()) == {"restored"}


# parts of torch


def trained(steps):
    """A module with everything that a module can remember, and raw parameters beside it."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.norm = nn.BatchNorm1d(3)
            self.register_buffer("average", torch.zeros(3), persistent=False)
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            y = self.norm(self.layer(x))
            self.average += y.detach().mean(0)
            return y

    torch.manual_seed(0)
    state = {
        "net": Net(),
        "raw": [nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(3, dtype=torch.bfloat16))],
        "generator": torch.Generator().manual_seed(1),
        "history": [],
        "device": torch.device("cpu"),
        "dtype": torch.float32,
        "ema": torch.zeros(3),
    }
    parameters = [*state["net"].parameters(), *state["raw"]]
    state["optimizer"] = torch.optim.Adam(parameters, lr=0.1)
    state["plateau"] = torch.optim.lr_scheduler.ReduceLROnPlateau(state["optimizer"], patience=0)
    return state, [step(state) for _ in range(steps)]


def step(state):
    x = torch.randn(4, 3, generator=state["generator"]) * random.random() + float(np.random.rand())
    loss = (state["net"](x) * state["raw"][0] + state["raw"][1] + torch.rand(3)).pow(2).sum() + state["ema"].sum()
    state["optimizer"].zero_grad()
    loss.backward()
    state["optimizer"].step()
    state["plateau"].step(1.0)
    state["ema"] += loss.detach()
    state["history"].append((loss, loss.item()))
    return loss.item()


def test_every_part_of_torch_is_given_back_in_every_bit(tmp_path):
    state, _ = trained(3)
    KINDS.save(parts_of(state, KINDS).read(), tmp_path / "state")
    expected = [step(state) for _ in range(4)]
    after = parts_of(state, KINDS).read()
    other, _ = trained(0)
    truth = KINDS.load(tmp_path / "state")
    parts_of(other, KINDS).give(truth, truth)
    assert [step(other) for _ in range(4)] == expected
    assert list(differences(after, parts_of(other, KINDS).read(), KINDS.array)) == []
    found = parts_of(other, KINDS)
    assert {name: part.kind for name, part in found.parts.items()} == {
        "net": "model", "raw.0": "value", "raw.1": "value", "generator": "generator", "history": "value",
        "ema": "value", "optimizer": "optimizer", "plateau": "scheduler",
        "rng.python": "rng", "rng.numpy": "rng", "rng.torch": "rng",
    }  # fmt: skip
    assert other["net"].calls == 7 and found.opaque == []


def test_parameters_stay_the_ones_that_the_optimiser_moves(tmp_path):
    state, _ = trained(1)
    held = [id(each) for group in state["optimizer"].param_groups for each in group["params"]]
    before = parts_of(state, KINDS).read()
    step(state)
    parts_of(state, KINDS).give(before, before)
    assert [id(each) for each in (*state["net"].parameters(), *state["raw"])] == held


def test_a_buffer_that_state_dict_leaves_out_is_part_of_the_model():
    state, _ = trained(2)
    read = parts_of(state, KINDS).parts["net"].read()
    assert "average" not in state["net"].state_dict() and read["average"].abs().sum() > 0
    assert read["calls"] == 2


def test_the_training_mode_is_part_of_the_model():
    state, _ = trained(0)
    before = parts_of(state, KINDS).read()
    state["net"].norm.eval()
    told = list(differences(before, parts_of(state, KINDS).read(), KINDS.array))
    assert told == ["net.training.norm: True, then False"]
    parts_of(state, KINDS).give(before, ["net"])
    assert state["net"].norm.training
