"""`checkpoint resume` end to end: every run in a process of its own, exit codes, reports."""

import json
from pathlib import Path

import pytest

from tensoraudit.cli.app import run

PROGRAM = (Path(__file__).parents[1] / "probes" / "pytorch" / "resumable.py").read_text()

pytestmark = pytest.mark.slow


@pytest.fixture
def resume(tmp_path, monkeypatch, capsys):
    """Test a program that is given as text; exit code, JSON document or None, standard error."""
    monkeypatch.chdir(tmp_path)

    def call(text, *options, name="train.py:train_step"):
        (tmp_path / "train.py").write_text(text)
        code = run(["checkpoint", "resume", name, "--report", "json", *options])
        captured = capsys.readouterr()
        return code, json.loads(captured.out) if captured.out else None, captured.err

    return call


def test_a_program_that_resumes_exactly_passes(resume):
    code, report, _ = resume(PROGRAM, "--save-after", "6", "--steps", "4")
    assert (code, report["exit_code"], report["findings"]) == (0, 0, [])
    found = report["resume"]
    assert (found["status"], found["save_after"], found["steps"], found["own_save"]) == ("equal", 6, 4, True)
    assert found["losses"]["uninterrupted"][-4:] == found["losses"]["resumed"] != found["losses"]["cold"]
    assert {part["state"] for part in found["parts"].values()} == {"restored"}
    assert report["grade"] == {} and report["targets"] == []


def test_each_lost_part_is_a_finding_that_names_it(resume):
    text = PROGRAM.replace("if name != LOSE", 'if name not in ("optimizer", "step")')
    code, report, _ = resume(text, "--save-after", "6", "--steps", "4")
    findings = [each for each in report["findings"] if each["rule"] == "RSM-001"]
    assert (code, {each["where"]["variable"] for each in findings}) == (1, {"optimizer", "step"})
    for each in findings:
        assert (each["severity"], each["state"], each["where"]["path"]) == ("high", "confirmed", "train.py")
        assert f"'{each['where']['variable']}'" in each["message"]
    assert report["resume"]["parts"]["optimizer"] == {"kind": "optimizer", "state": "lost"}
    assert report["resume"]["parts"]["scheduler"]["state"] == "restored"


def test_globals_of_an_earlier_run_do_not_reach_the_next(resume):
    """A counter at the top of the file begins anew in every process: a resume that does not save it is another run."""
    text = (
        "import torch\nmodel = torch.nn.Linear(1, 1)\ncount = 0\n"
        "def train_step():\n    global count\n    count += 1\n"
        "    with torch.no_grad():\n        model.weight += count\n    return model.weight.item()\n"
        "def save_state(path):\n    torch.save(model.state_dict(), path)\n"
        "def load_state(path):\n    model.load_state_dict(torch.load(path))\n"
    )
    code, report, _ = resume(text)
    assert (code, report["resume"]["parts"]["count"]["state"]) == (1, "lost")


def test_a_program_that_nobody_seeded_cannot_be_judged(resume):
    text = PROGRAM.replace("random.seed(3)", "random.seed()")
    code, report, _ = resume(text, "--save-after", "2", "--steps", "2")
    assert (code, report["resume"]["status"]) == (3, "unknown")
    (probe,) = [each for each in report["probes"] if each["name"] == "resume"]
    assert probe["status"] == "failed" and "two uninterrupted runs differ" in probe["reason"]
    assert report["findings"] == []


def test_a_program_that_dies_on_the_way_cannot_be_judged(resume):
    old, new = "    held = torch.load(Path(path), weights_only=False)", "    import os; os._exit(3)"
    code, report, _ = resume(PROGRAM.replace(old, new), "--save-after", "2", "--steps", "2")
    assert (code, report["resume"]["status"]) == (3, "unknown")
    assert "the run 'resumed' did not end well: exited with code 3" in report["resume"]["reason"]
    assert any(probe["required"] and probe["status"] == "crashed" for probe in report["probes"])


EPOCHS = """
import torch

def make_state():
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    return {"model": model, "optimizer": torch.optim.AdamW(model.parameters(), lr=0.01), "step": 0}

def train_step(state):
    loss = (state["model"](torch.full((4, 8), state["step"] / 10)) - 1).pow(2).mean()
    state["optimizer"].zero_grad()
    loss.backward()
    state["optimizer"].step()
    state["step"] += 1
    return loss

def save_state(state, path):
    torch.save({"model": state["model"].state_dict(), "step": state["step"]}, path)

def load_state(state, path):
    held = torch.load(path)
    state["model"].load_state_dict(held["model"])
    state["step"] = held["step"]
"""


def test_what_the_source_made_us_suspect_is_confirmed(resume):
    """The line that saves the step without the optimiser is a suspicion of DCK-020; the runs settle it."""
    code, report, _ = resume(EPOCHS)
    assert code == 1
    told = {each["rule"]: (each["state"], each["where"]["line"]) for each in report["findings"]}
    line = EPOCHS.splitlines().index("def save_state(state, path):") + 2
    assert told == {"RSM-001": ("confirmed", None), "DCK-020": ("confirmed", line)}


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        ("import torch\n", "train.py:train_step", "there is no function 'train_step'"),
        ("import torch\ndef train_step(state): pass\n", "train.py:train_step", "there is no make_state"),
        ("import torch\n", "gone.py:train_step", "does not exist"),
        ("import torch\n", "train.py", "Name the function that takes one training step"),
    ],
)
def test_what_is_the_user_s_to_mend_is_exit_code_2(resume, text, name, says):
    code, report, errors = resume(text, name=name)
    assert (code, report) == (2, None)
    assert says in errors


def test_a_step_count_must_be_positive(resume):
    code, _, errors = resume(PROGRAM, "--steps", "0")
    assert code == 2 and "positive" in errors
