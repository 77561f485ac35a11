"""The parts of a state: found, read, and given back, in dicts, objects and modules."""

import random
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import numpy as np

from tensoraudit.probes.resume_state import Kinds, parts_of

KINDS = Kinds(
    array=lambda value: value if isinstance(value, np.ndarray) else None,
    clone=lambda value: value.copy() if isinstance(value, np.ndarray) else None,
    shared=lambda value: False,
    part=lambda name, value, put: None,
    value=lambda name: "value",
    generators=list,
    save=lambda value, path: None,
    load=lambda path: None,
)


class Counter:
    """What many libraries' samplers and meters look like."""

    def __init__(self):
        self.count = 0

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


@dataclass
class Trainer:
    step: int = 0
    seen: list = field(default_factory=list)
    meter: Counter = field(default_factory=Counter)
    numbers: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    legacy: np.random.RandomState = field(default_factory=lambda: np.random.RandomState(1))
    python: random.Random = field(default_factory=lambda: random.Random(2))

    def draw(self):
        self.step += 1
        self.seen.append(self.step)
        self.meter.count += 1
        return self.numbers.random(), self.legacy.rand(), self.python.random(), random.random(), np.random.rand()


def test_everything_that_is_read_can_be_given_back():
    trainer = Trainer()
    trainer.draw()
    before = parts_of(trainer, KINDS).read()
    held = trainer.seen
    first = trainer.draw()
    found = parts_of(trainer, KINDS)
    found.give(before, before)
    assert (trainer.step, trainer.seen, trainer.meter.count) == (1, [1], 1)
    assert trainer.seen is held
    assert trainer.draw() == first


def test_kinds_and_names_of_parts():
    idle = {"print": print, "np": np, "path": Path("a"), "range": range(3), "dtype": np.dtype("f4"), "list": list[int]}
    found = parts_of({"trainer": Trainer(), "lr": 0.1, "batches": iter([1]), **idle}, KINDS)
    assert {name: part.kind for name, part in found.parts.items()} == {
        "trainer.step": "value",
        "trainer.seen": "value",
        "trainer.meter": "stateful",
        "trainer.numbers": "generator",
        "trainer.legacy": "generator",
        "trainer.python": "generator",
        "lr": "value",
        "rng.python": "rng",
        "rng.numpy": "rng",
    }
    assert found.opaque == ["batches (list_iterator)"]


def test_one_part_alone_is_given_back():
    state = {"step": 3, "epoch": 1}
    before = parts_of(state, KINDS).read()
    state |= {"step": 9, "epoch": 9}
    parts_of(state, KINDS).give(before, ["step", "nothing"])
    assert state == {"step": 3, "epoch": 9}


def test_globals_of_a_module_are_a_state():
    module = ModuleType("program")
    exec(
        "import os, random\nstep = 0\ndef train_step():\n    global step\n    step += 1\nclass Net: pass", vars(module)
    )
    before = parts_of(module, KINDS).read()
    module.train_step()
    assert [name for name in before if not name.startswith("rng")] == ["step"]
    parts_of(module, KINDS).give(before, ["step"])
    assert module.step == 0


def test_objects_that_hold_each_other_end():
    one, two = Counter(), Counter()
    holder = type("Holder", (), {})()
    holder.self, holder.pair = holder, [one, two, one]
    found = parts_of(holder, KINDS)
    assert set(found.parts) - {"rng.python", "rng.numpy"} == {"pair.0", "pair.1"}


def test_a_frozen_object_takes_its_state_back():
    @dataclass(frozen=True)
    class State:
        step: int

    state = State(1)
    parts_of(state, KINDS).give({"step": 5}, ["step"])
    assert state.step == 5
