"""The user's training program, as a resume test calls it: one function for a step, three more that it may bring.

    train_step(state) -> loss         one step; `state` is changed in place, or the step returns (new state, loss)
    make_state() -> state             a dict, or an object, that holds what training needs; as a new process makes it
    save_state(state, path)           what the program saves
    load_state(state, path)           put it back into a fresh state; `load_state(path)` returns one

Without `make_state` the state is what the file defines at its top, and no function takes it. Shared by the workers:
Python 3.9.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.user_code import add_code, import_file, import_module, user_error

HOOKS = ("make_state", "save_state", "load_state")


@dataclass
class Program:
    """The functions of a training program; those that it does not bring are None."""

    module: ModuleType
    name: str
    framework: str
    step: Callable[..., Any]
    make_state: Callable[..., Any] | None
    save_state: Callable[..., Any] | None
    load_state: Callable[..., Any] | None

    @property
    def saves(self) -> bool:
        """Whether the program saves and loads by itself."""
        return self.save_state is not None

    def fresh(self) -> Any:
        """Make the state of a process that has done no step. Raises JobFailed."""
        return self.module if self.make_state is None else self._called("make_state", self.make_state)

    def train(self, state: Any) -> tuple[Any, Any]:
        """Take one step and return the state to go on with, and the loss. Raises JobFailed."""
        given = self._called(self.name, self.step, *_with(self.step, state))
        is_new = isinstance(given, tuple) and len(given) == 2 and type(given[0]) is type(state)
        return given if is_new else (state, given)

    def save(self, state: Any, path: Path) -> None:
        """Let the program save. Raises JobFailed, also when there is no file afterwards."""
        assert self.save_state is not None
        self._called("save_state", self.save_state, *_with(self.save_state, state, str(path)))
        if not path.exists():
            raise JobFailed(
                f"{self._where()}: save_state wrote nothing to the path that it was given",
                remedy="Write the checkpoint to `path`: a file, or a folder of that name.",
            )

    def load(self, path: Path) -> Any:
        """Let the program load into a fresh state, and return that. Raises JobFailed."""
        assert self.load_state is not None
        if self.make_state is not None and _required(self.load_state) == 1:
            state = self._called("load_state", self.load_state, str(path))
            if state is None:
                raise JobFailed(
                    f"{self._where()}: load_state(path) returns nothing",
                    remedy="Return the state that it loaded, or take the fresh one: load_state(state, path).",
                )
            return state
        state = self.fresh()
        given = self._called("load_state", self.load_state, *_with(self.load_state, state, str(path)))
        return state if given is None or self.make_state is None else given

    def _called(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except JobFailed:
            raise
        except (Exception, SystemExit) as problem:
            raise user_error(problem, f"{self._where()}: {name} fails", self.framework, _MEND) from problem

    def _where(self) -> str:
        return Path(str(getattr(self.module, "__file__", None) or self.module.__name__)).name


_NAMED = 8
_MEND = "Mend that line. Files that it reads must be named by absolute paths: workers have a folder of their own."


def open_program(params: Mapping[str, Any], framework: str) -> Program:
    """Import a training program: `path` or `module`, `attribute`, `code`. Raises JobFailed with `stage` "program"."""
    add_code(params.get("code", ()))
    attribute = str(params["attribute"])
    try:
        if params.get("path"):
            module = import_file(str(params["path"]), framework)
        else:
            module = import_module(str(params.get("module")), framework)
    except JobFailed as problem:
        problem.details["stage"] = "program"
        raise
    return program_of(module, attribute, framework)


def program_of(module: ModuleType, attribute: str, framework: str) -> Program:
    """Find the functions of a training program. Raises JobFailed when they do not fit together."""
    step = _own(module, attribute)
    if step is None:
        own = [name for name, each in vars(module).items() if inspect.isfunction(each) and not name.startswith("_")]
        has = f"it has {', '.join(own[:_NAMED])}" if own else "it defines none"
        raise _misfit(f"there is no function {attribute!r}; {has}", "Name the function that takes one training step.")
    hooks = {hook: _own(module, hook) for hook in HOOKS}
    if (hooks["save_state"] is None) != (hooks["load_state"] is None):
        there, lacking = ("save_state", "load_state") if hooks["save_state"] else ("load_state", "save_state")
        raise _misfit(
            f"{attribute} comes with {there} and without {lacking}",
            f"Write {lacking} beside it, or take {there} away: tensoraudit then saves what it finds.",
        )
    if hooks["make_state"] is None and _required(step):
        raise _misfit(
            f"{attribute} takes {_required(step)} argument(s), and there is no make_state beside it",
            "Write `def make_state()` that returns what a step needs, or let the step take nothing and use globals.",
        )
    if _required(step) > 1:
        raise _misfit(f"{attribute} takes {_required(step)} arguments", "Let it take the state alone, or nothing.")
    return Program(module, attribute, framework, step, **hooks)


def _own(module: ModuleType, name: str) -> Callable[..., Any] | None:
    found = getattr(module, name, None)
    return found if callable(found) else None


def _required(function: Callable[..., Any]) -> int:
    """How many arguments by position a function cannot do without."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in by_position and each.default is each.empty for each in parameters)


def _with(function: Callable[..., Any], state: Any, *rest: Any) -> tuple[Any, ...]:
    """The arguments of a call: the state goes first where the function takes one more than the rest."""
    return (state, *rest) if _required(function) > len(rest) else rest


def _misfit(text: str, remedy: str) -> JobFailed:
    return JobFailed(text, remedy=f"{remedy} See docs/checkpoint-resume.md.", stage="program")
