"""How a user's functions are found and called."""

from pathlib import Path

import pytest

from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.resume_program import open_program


@pytest.fixture
def program(tmp_path):
    number = iter(range(100))

    def make(text, name="train_step"):
        path = tmp_path / f"program_{next(number)}.py"
        path.write_text(text)
        return open_program({"path": str(path), "attribute": name}, "pytorch")

    return make


STATE = "def make_state():\n    return {'step': 0}\n"
STEP = "def train_step(state):\n    state['step'] += 1\n    return state['step']\n"


def test_a_step_changes_the_state_and_returns_the_loss(program):
    found = program(STATE + STEP)
    state = found.fresh()
    assert found.train(state) == ({"step": 1}, 1)
    assert not found.saves


def test_a_step_may_return_a_new_state(program):
    found = program(STATE + "def train_step(state):\n    return {'step': state['step'] + 1}, 0.5\n")
    assert found.train(found.fresh()) == ({"step": 1}, 0.5)


def test_two_losses_are_no_state(program):
    found = program(STATE + "def train_step(state):\n    return 0.5, 0.25\n")
    state = found.fresh()
    assert found.train(state) == (state, (0.5, 0.25))


def test_without_make_state_the_globals_are_the_state(program):
    found = program("step = 0\ndef train_step():\n    global step\n    step += 1\n    return step\n")
    state = found.fresh()
    assert found.train(state) == (state, 1)
    assert state.step == 1


@pytest.mark.parametrize(
    ("hooks", "expected"),
    [
        ("def load_state(state, path):\n    state['step'] = int(open(path).read())\n", 1),
        ("def load_state(path):\n    return {'step': int(open(path).read())}\n", 1),
        ("def load_state(state, path):\n    return {'step': 10 + int(open(path).read())}\n", 11),
    ],
)
def test_loading_in_place_or_anew(program, tmp_path, hooks, expected):
    save = "def save_state(state, path):\n    open(path, 'w').write(str(state['step']))\n"
    found = program(STATE + STEP + save + hooks)
    state = found.fresh()
    found.train(state)
    found.save(state, tmp_path / "saved")
    assert found.saves and found.load(tmp_path / "saved") == {"step": expected}


def test_hooks_of_globals_take_the_path_alone(program, tmp_path):
    found = program(
        "step = 3\ndef train_step(): pass\ndef save_state(path): open(path, 'w').write(str(step))\n"
        "def load_state(path):\n    global step\n    step = 10 * int(open(path).read())\n"
    )
    found.save(found.fresh(), tmp_path / "saved")
    assert found.load(tmp_path / "saved").step == 30


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        (STATE + STEP, "train", "there is no function 'train'; it has make_state, train_step"),
        ("x = 1\n", "train_step", "it defines none"),
        ("train_step = 5\n", "train_step", "there is no function 'train_step'"),
        (STEP, "train_step", "there is no make_state beside it"),
        (STATE + "def train_step(state, batch): pass\n", "train_step", "takes 2 arguments"),
        (STATE + STEP + "def save_state(state, path): pass\n", "train_step", "with save_state and without load_state"),
        (STATE + STEP + "def load_state(state, path): pass\n", "train_step", "with load_state and without save_state"),
        ("import nothing_of_that_name\n", "train_step", "cannot be imported"),
    ],
)
def test_what_does_not_fit_is_the_program_s_own_fault(program, text, name, says):
    with pytest.raises(JobFailed, match=says) as caught:
        program(text, name)
    assert caught.value.details["stage"] == "program" and caught.value.details["remedy"]


def test_a_function_that_raises_is_named_with_its_line(program, tmp_path):
    found = program(STATE + "def train_step(state):\n    return 1 / 0\n")
    with pytest.raises(JobFailed, match=r"train_step fails at program_\d+\.py:4: ZeroDivisionError"):
        found.train(found.fresh())


def test_a_save_that_writes_nothing_is_told(program, tmp_path):
    hooks = "def save_state(state, path): pass\ndef load_state(path): pass\n"
    found = program(STATE + STEP + hooks)
    with pytest.raises(JobFailed, match="wrote nothing"):
        found.save(found.fresh(), tmp_path / "saved")
    with pytest.raises(JobFailed, match="returns nothing"):
        found.load(Path(tmp_path / "saved"))
