"""The decisions of a resume test, on a program of plain numbers whose every run is known."""

import math
import random
from dataclasses import replace

import pytest

from tensoraudit.audit.resume_runs import Plan, Run, examine, largest_difference, same

PARTS = {"model": "model", "optimizer": "optimizer", "step": "value", "rng": "rng"}


class Program:
    """A step moves the model by moment, step and the draw of a generator. `loses` are left out of loading, `idle` have
    no effect on a step, `hidden` is state that nobody sees, `noise` differs from run to run."""

    def __init__(self, loses=(), idle=(), hidden=False, noise=0.0, disturbs=False, saves=True, still=False):
        self.loses, self.idle, self.hidden, self.saves = set(loses), set(idle), hidden, saves
        self.noise, self.disturbs, self.still = noise, disturbs, still
        self.files, self.names = {}, []
        self.random = random.Random(0)

    def make(self, name, steps, save_at=None, save=None, truth=None, load=None, give=None):
        self.names.append(name)
        state = {"model": 1.0, "optimizer": 0.0, "step": 0, "rng": 0}
        differing = {}
        if load:
            state |= {part: value for part, value in self.files[load].items() if part not in self.loses}
        if truth and save_at is None:
            differing = {part: "differs" for part in state if state[part] != self.files[truth][part]}
            given = list(state) if give is True else give or ()
            state |= {part: self.files[truth][part] for part in given}
        losses = []
        for number in range(1, steps + 1):
            self.step(state, number)
            losses.append(state["model"] + self.noise * self.random.random())
            if number == save_at:
                self.files |= {save: dict(state), truth: dict(state)}
                state["optimizer"] += 100.0 * self.disturbs
        final = {part: repr(value) for part, value in state.items()}
        return Run(losses, final, PARTS, ("batches (generator)",), self.saves, differing)

    def step(self, state, number):
        acts = {part: part not in self.idle for part in state}
        if self.still:
            return
        state["optimizer"] = 0.5 * state["optimizer"] + 1.0
        state["step"] += 1
        state["rng"] = (5 * state["rng"] + 3) % 64
        state["model"] += 0.1 * state["optimizer"] * acts["optimizer"] + 0.01 * state["step"] * acts["step"]
        state["model"] += 0.001 * state["rng"] * acts["rng"] + 1e-4 * number * self.hidden


@pytest.fixture
def test(tmp_path):
    return lambda program, at=6, steps=4: examine(program.make, Plan(at, steps, tmp_path))


def row(verdict, metric):
    return {subject: value for name, subject, value, _ in verdict.rows if name == f"resume.{metric}"}


def detail(verdict, metric):
    return next(text for name, _, _, text in verdict.rows if name == f"resume.{metric}")


def test_a_program_that_saves_everything_resumes(test):
    program = Program()
    verdict = test(program)
    assert (verdict.status, row(verdict, "status"), row(verdict, "deterministic")) == (
        "equal",
        {"training": "equal"},
        {"training": True},
    )
    assert row(verdict, "difference") == {"training": 0.0}
    assert row(verdict, "cold_difference")["training"] > 0.1
    assert set(verdict.parts.values()) == {"restored"}
    assert program.names == ["uninterrupted", "saved", "cold", "resumed"]


@pytest.mark.parametrize("part", PARTS)
def test_the_one_part_that_is_lost_is_named(test, part):
    program = Program(loses=[part])
    verdict = test(program)
    assert verdict.status == "differs"
    assert row(verdict, "lost") == {part: PARTS[part]}
    assert row(verdict, "difference")["training"] > 0 and verdict.reason.startswith("first at step ")
    assert {name for name, state in verdict.parts.items() if state == "lost"} == {part}
    assert program.names == ["uninterrupted", "saved", "cold", "resumed", "all"]


def test_all_that_are_lost_are_named_and_none_that_has_no_effect(test):
    verdict = test(Program(loses=["optimizer", "rng", "step"], idle=["step"]))
    assert set(row(verdict, "lost")) == {"optimizer", "rng"}
    assert set(row(verdict, "not_restored")) == {"step"}


def test_a_part_without_effect_is_no_loss(test):
    verdict = test(Program(loses=["rng"], idle=["rng"]))
    assert verdict.status == "equal"
    assert row(verdict, "not_restored") == {"rng": "rng"} and row(verdict, "lost") == {}


def test_parts_of_which_any_one_would_do_are_lost_together(tmp_path):
    """The model moves by the larger of two copies of one number: giving back either is enough."""

    class Twice(Program):
        def step(self, state, number):
            larger = max(state["optimizer"], state["step"])
            state["optimizer"] = state["step"] = larger + 1
            state["model"] += larger

    verdict = examine(Twice(loses=["optimizer", "step"]).make, Plan(6, 4, tmp_path))
    assert set(row(verdict, "lost")) == {"optimizer", "step"}


def test_state_that_nobody_sees_is_told(test):
    verdict = test(Program(hidden=True, loses=["step"]))
    assert verdict.status == "differs" and row(verdict, "hidden") == {"training": True}
    assert "batches (generator)" in detail(verdict, "hidden") and "first at step 7" in detail(verdict, "hidden")
    assert row(verdict, "lost") == {} and set(row(verdict, "not_restored")) == {"step"}


def test_a_program_that_is_not_deterministic_cannot_be_judged(test):
    program = Program(noise=1e-9, loses=["optimizer"])
    verdict = test(program)
    assert (verdict.status, row(verdict, "deterministic")) == ("unknown", {"training": False})
    assert (
        "two uninterrupted runs differ, first at step 1" in verdict.reason and "Seed every generator" in verdict.reason
    )
    assert "resumed" not in program.names and row(verdict, "lost") == {}


def test_saving_that_changes_the_training_is_told_from_noise(test):
    verdict = test(Program(disturbs=True))
    assert verdict.status == "differs"
    assert row(verdict, "saving_changes") == {"training": True} and row(verdict, "deterministic") == {"training": True}
    assert "first at step 7" in detail(verdict, "saving_changes")


def test_a_test_that_sees_nothing_says_so(test):
    verdict = test(Program(still=True))
    assert verdict.status == "unknown" and "a cold start gives the same steps" in verdict.reason
    assert row(verdict, "deterministic") == {"training": True}


def test_without_hooks_the_parts_that_a_save_needs_are_named(test):
    verdict = test(Program(saves=False, idle=["step"]))
    assert verdict.status == "equal"
    assert set(row(verdict, "needed")) == {"model", "optimizer", "rng"}
    assert verdict.parts["step"] == "not_needed"


def test_without_hooks_hidden_state_is_a_difference(test):
    verdict = test(Program(saves=False, hidden=True))
    assert verdict.status == "differs" and row(verdict, "hidden") == {"training": True}


def test_losses_are_compared_bit_by_bit_and_nan_is_equal_to_itself():
    one = Run([1.0, math.nan], {})
    assert same(one, Run([1.0, math.nan], {})) and not same(one, Run([1.0, 2.0], {}))
    assert not same(Run([0.0], {}), Run([-0.0], {}))
    assert largest_difference(one, Run([1.5, math.nan], {})) == 0.5
    assert largest_difference(one, Run([1.0, 2.0], {})) == math.inf
    assert largest_difference(Run([{"a": 1.0, "b": 2.0}], {}), Run([{"a": 1.0, "b": 5.0}], {})) == 3.0
    assert largest_difference(Run([None], {}), Run([None], {})) is None
    assert same(Run([1.0, 2.0, 3.0], {}), Run([3.0], {}))


def test_a_resumed_run_that_stops_is_another_run(tmp_path):
    class Raises(Program):
        def make(self, name, **parameters):
            run = super().make(name, **parameters)
            return (
                replace(run, losses=run.losses[:1], error="division by zero")
                if run.differing and "step" in run.differing and "step" not in (parameters.get("give") or ())
                else run
            )

    verdict = examine(Raises(loses=["step"], idle=["step"]).make, Plan(6, 4, tmp_path))
    assert verdict.status == "differs" and set(row(verdict, "lost")) == {"step"}
    assert row(verdict, "difference") == {"training": math.inf}
    assert "at step 8: division by zero" in detail(verdict, "difference")


def test_weights_decide_where_a_step_returns_no_loss():
    kinds = {"model": "model", "step": "value"}
    one = Run([None], {"model": "a", "step": "1"}, kinds)
    assert same(one, Run([None], {"model": "a", "step": "2"}, kinds))
    assert not same(one, Run([None], {"model": "b", "step": "1"}, kinds))
    values = {"step": "value"}
    assert not same(Run([None], {"step": "1"}, values), Run([None], {"step": "2"}, values))


def test_parts_beyond_those_that_are_tried_are_not_told_apart(test, monkeypatch):
    """Found when the seventeenth part of a program read as "no effect was seen" without a run of its own."""
    monkeypatch.setattr("tensoraudit.audit.resume_runs.MOST", 2)
    verdict = test(Program(loses=("model", "optimizer", "rng")))
    assert row(verdict, "lost") == {"model": "model", "optimizer": "optimizer"}
    assert verdict.parts["rng"] == "untried" and row(verdict, "not_restored") == {}


def test_parts_beyond_those_that_are_tried_may_be_needed(test, monkeypatch):
    monkeypatch.setattr("tensoraudit.audit.resume_runs.MOST", 1)
    verdict = test(Program(saves=False))
    assert row(verdict, "needed") == {"model": "model"}
    assert {part for part, state in verdict.parts.items() if state == "untried"} == {"optimizer", "step", "rng"}
