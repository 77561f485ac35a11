"""How the result of a resume test reads."""

from tensoraudit.findings.result import Result
from tensoraudit.report import console, json

FOUND = {
    "status": "differs",
    "reason": "",
    "save_after": 10,
    "steps": 2,
    "own_save": True,
    "losses": {"uninterrupted": [0.5] * 10 + [0.25, 0.125], "saved": [], "cold": [2.0, 1.0], "resumed": [0.25]},
    "parts": {"optimizer": {"kind": "optimizer", "state": "lost"}, "step": {"kind": "value", "state": "restored"}},
    "opaque": ["batches (generator)"],
}


def result(**more):
    tool, artifact = {"name": "tensoraudit"}, {"spec": "train.py:train_step"}
    return Result(tool, artifact, (), {}, 1, {}, (), resume={**FOUND, **more})


def test_the_answer_comes_first_and_the_losses_stand_by_step():
    lines = console.render(result()).splitlines()
    assert lines[0] == "A resumed run is another run than the uninterrupted one."
    assert "10 steps, state saved and loaded by the program itself, 2 steps more" in lines[1]
    assert next(line.split() for line in lines if line.startswith("11")) == ["11", "0.25", "0.25", "2"]
    assert not any(line.startswith("12") for line in lines), "the resumed run ended early"
    assert any(line.split()[:3] == ["optimizer", "optimizer", "LOST:"] for line in lines)
    assert any(line.startswith("batches (generator)") for line in lines)


def test_without_losses_there_is_no_table_of_them():
    text = console.render(result(losses={"uninterrupted": [None] * 12, "resumed": [None] * 2}))
    assert "Loss of the steps" not in text and "optimizer" in text


def test_what_could_not_be_told_says_why():
    text = console.render(result(status="unknown", reason="two uninterrupted runs differ"))
    assert text.startswith("Cannot tell whether a resumed run is the uninterrupted one: two uninterrupted runs differ")


def test_losses_by_name_are_shown_by_name():
    losses = {"uninterrupted": [{"a": 1.0, "b": None}] * 12, "resumed": [{"a": 1.0, "b": None}] * 2}
    assert "a 1, b none" in console.render(result(losses=losses))


def test_json_has_all_of_it():
    assert json.document(result())["resume"] == {key: FOUND[key] for key in sorted(FOUND)}
