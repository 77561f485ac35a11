"""One run of a resume test: a program from a fresh process on, through steps, a save, a load, and more steps.

Shared by the workers: Python 3.9. Every run is a job of its own in a process of its own; which runs there are, and what
follows from them, the main process decides.

Parameters of the job: `path`, `module`, `attribute`, `code`, `seed` as for models, and

    steps      how many steps to take
    save_at    after how many of them the state is written to `truth`, and by the program to `save`, where given
    load       what the program saved; the run starts from it
    truth      with `load` or `give`: the state that the run should start from
    give       names of the parts that are given back from `truth` before the first step; True for all

Result: `losses` (one of each step, None where the step returns none), `final` {part: digest}, `kinds` {part: kind},
`opaque` (names of what can be neither read nor given back), `saves` (whether the program has save_state and
load_state), and with `truth` read also `differing` {part: what differs} before anything was given back, `stubborn`
{part: what differs} of parts that differ still when they were given back. A step that raises in a run that did not
start at the beginning ends it early, with the reason as `error`: lost state may well do that.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from tensoraudit.probes.protocol import JobFailed, Session
from tensoraudit.probes.resume_program import Program
from tensoraudit.probes.resume_state import Found, Kinds, parts_of
from tensoraudit.probes.resume_tree import differences, digest

_TOLD = 4
"""Differences of a part that are named."""


def follow(program: Program, params: Mapping[str, Any], session: Session, kinds: Kinds) -> dict[str, Any]:
    """Take a program through one run. Raises JobFailed where its functions fail."""
    load, give, truth = params.get("load"), params.get("give"), params.get("truth")
    state = program.load(Path(load)) if load else program.fresh()
    told: dict[str, Any] = {}
    if truth and (load or give):
        told = _started(state, kinds.load(Path(truth)), give, kinds)
        truth = None
    losses: list[Any] = []
    for number in range(1, int(params["steps"]) + 1):
        session.progress(f"step {number}")
        try:
            state, loss = program.train(state)
        except JobFailed as problem:
            if not told:
                raise
            told["error"] = problem.message
            break
        losses.append(_plain_loss(loss, kinds))
        if number == params.get("save_at"):
            _save(program, state, kinds, save=params.get("save"), truth=truth)
    found = parts_of(state, kinds)
    return {
        "losses": losses,
        "final": {name: digest(value, kinds.array) for name, value in found.read().items()},
        "kinds": {name: part.kind for name, part in found.parts.items()},
        "opaque": found.opaque,
        "saves": program.saves,
        **told,
    }


def _started(state: Any, truth: Mapping[str, Any], give: Any, kinds: Kinds) -> dict[str, Any]:
    """Compare a fresh state with the one that it should be, and give back what was asked for."""
    found = parts_of(state, kinds)
    differing = _differing(found, truth, kinds)
    names = list(truth) if give is True else list(give or ())
    if not names:
        return {"differing": differing, "stubborn": {}}
    found.give(truth, names)
    still = _differing(parts_of(state, kinds), truth, kinds)
    return {"differing": differing, "stubborn": {name: text for name, text in still.items() if name in names}}


def _differing(found: Found, truth: Mapping[str, Any], kinds: Kinds) -> dict[str, str]:
    now = found.read()
    told = {name: _told(truth[name], now[name], kinds) for name in truth if name in now}
    gone = {name: "is missing" for name in truth if name not in now}
    return {**{name: text for name, text in told.items() if text}, **gone}


def _told(before: Any, after: Any, kinds: Kinds) -> str:
    found = list(islice(differences(before, after, kinds.array), 1000))
    more = f" and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
    return "; ".join(found[:_TOLD]) + more


def _save(program: Program, state: Any, kinds: Kinds, *, save: str | None, truth: str | None) -> None:
    if truth:
        kinds.save(parts_of(state, kinds).read(), Path(truth))
    if save and program.saves:
        program.save(state, Path(save))


def _plain_loss(loss: Any, kinds: Kinds) -> Any:
    """A loss as JSON: a number, numbers by name, or None for what is neither."""
    if isinstance(loss, Mapping):
        return {str(key): _plain_loss(value, kinds) for key, value in loss.items()}
    if isinstance(loss, (list, tuple)):
        return {str(index): _plain_loss(value, kinds) for index, value in enumerate(loss)}
    found = kinds.array(loss)
    value = found.item() if found is not None and found.size == 1 else loss
    return float(value) if isinstance(value, (bool, int, float)) else None
