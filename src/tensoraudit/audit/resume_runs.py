"""The runs of a resume test and what follows from them: is the resumed run the uninterrupted one, and what got lost?

Pure decisions over what runs gave; how a run is made is the caller's (`resume`). Each is a fresh process:

1. Uninterrupted, and once more with the state written down and saved on the way. They must be equal in every bit. When
   they are not, a third without saving tells whether saving changes the training or the program is not deterministic.
2. Resumed: what was saved is loaded, and the steps after it are taken. Cold: the same steps from the fresh state.
3. Where the resumed run differs: everything that is not as it was is given back at once; then all of it but one part,
   for each part. A part without which the run differs was lost. What still differs with everything given back depends
   on state that nobody can see.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

MOST: Final = 16
"""Parts that are tried one by one; each is a process."""

Row = tuple[str, str, Any, str]
"""Metric, subject, value, detail."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run gave; the fields are those of the job (`probes.resume`)."""

    losses: Sequence[Any]
    final: Mapping[str, str]
    kinds: Mapping[str, str] = field(default_factory=dict)
    opaque: Sequence[str] = ()
    saves: bool = False
    differing: Mapping[str, str] = field(default_factory=dict)
    stubborn: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


Make = Callable[..., Run]
"""`make(name, steps=..., **parameters of the job)`; raises what the caller likes when a run does not end well."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Save after `save_after` steps, then take `steps` more. Files go to `folder`."""

    save_after: int
    steps: int
    folder: Path

    @property
    def saved(self) -> str:
        """Where the program saves."""
        return str(self.folder / "saved")

    @property
    def truth(self) -> str:
        """Where the state at the save is kept."""
        return str(self.folder / "truth")


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the test ended. `parts` says of each part of the state what became of it, `runs` has the losses by run."""

    status: Literal["equal", "differs", "unknown"]
    reason: str
    rows: tuple[Row, ...]
    runs: Mapping[str, Sequence[Any]]
    parts: Mapping[str, str]
    kinds: Mapping[str, str]
    opaque: Sequence[str] = ()
    saves: bool = False


def examine(make: Make, plan: Plan) -> Verdict:
    """Make the runs and judge them."""
    return _Test(make, plan).verdict()


class _Test:
    def __init__(self, make: Make, plan: Plan) -> None:
        self._make, self._plan = make, plan
        self._runs: dict[str, Run] = {}
        self._rows: list[Row] = []
        self._parts: dict[str, str] = {}

    def verdict(self) -> Verdict:
        whole, saved = self._uninterrupted()
        if not same(whole, saved) and not self._saving_changes(whole):
            text = f"two uninterrupted runs differ{self._first(whole, saved)}, so a resumed one cannot be compared"
            self._rows.append(("resume.deterministic", "training", False, text))
            return self._end("unknown", f"{text}. {_SEED}")
        cold = self._run("cold", steps=self._plan.steps)
        # A program that saves nothing itself: everything that can be seen is carried over.
        loads = {"load": self._plan.saved} if whole.saves else {"give": True}
        resumed = self._run("resumed", steps=self._plan.steps, truth=self._plan.truth, **loads)
        self._measure(whole, cold, resumed)
        equal = same(whole, resumed)
        if not equal:
            self._find_lost(whole, resumed)
        elif same(whole, cold) or _is_lost_in_nan(whole.losses[-self._plan.steps :]):
            return self._end("unknown", _BLIND if same(whole, cold) else _NAN)
        elif whole.saves:
            self._note(resumed.differing, "not_restored", resumed)
        else:
            self._find_needed(whole, resumed)
        if not equal:
            return self._end("differs", self._first(whole, resumed).removeprefix(", "))
        changes = [text for metric, _, _, text in self._rows if metric == "resume.saving_changes"]
        return self._end("differs", changes[0]) if changes else self._end("equal", "")

    def _uninterrupted(self) -> tuple[Run, Run]:
        total, at = self._plan.save_after + self._plan.steps, self._plan.save_after
        whole = self._run("uninterrupted", steps=total)
        return whole, self._run("saved", steps=total, save_at=at, save=self._plan.saved, truth=self._plan.truth)

    def _saving_changes(self, whole: Run) -> bool:
        deterministic = same(whole, self._run("repeated", steps=len(whole.losses)))
        if deterministic:
            text = f"with the call of save_state the steps after it are others{self._first(whole, self._runs['saved'])}"
            self._rows.append(("resume.saving_changes", "training", True, text))
        return deterministic

    def _measure(self, whole: Run, cold: Run, resumed: Run) -> None:
        self._rows.append(("resume.deterministic", "training", True, ""))
        for metric, other in (("resume.difference", resumed), ("resume.cold_difference", cold)):
            number = largest_difference(whole, other)
            if number is not None:
                self._rows.append((metric, "training", number, self._first(whole, other).removeprefix(", ")))

    def _find_lost(self, whole: Run, resumed: Run) -> None:
        """Give everything back, and then all but one part."""
        differing = list(resumed.differing)
        if not whole.saves or not self._restores("all", whole, differing):
            self._rows.append(("resume.hidden", "training", True, self._hidden(resumed, whole)))
            self._note(resumed.differing if whole.saves else {}, "not_restored", resumed)
            return
        lost = [part for part in differing[:MOST] if self._matters(part, whole, differing)]
        # Where any one of several brings the run back, none is missed alone: then all of them are lost together.
        tried = differing[:MOST] if lost else differing
        idle = [part for part in tried if lost and part not in lost]
        self._note({part: resumed.differing[part] for part in lost or differing}, "lost", resumed)
        self._leave([part for part in differing if part not in tried])
        self._note({part: resumed.differing[part] for part in idle}, "not_restored", resumed)

    def _find_needed(self, whole: Run, resumed: Run) -> None:
        """Of a program that saves nothing: which parts must a save hold?"""
        differing = list(resumed.differing)
        needed = [part for part in differing[:MOST] if self._matters(part, whole, differing)]
        self._note({part: resumed.differing[part] for part in needed}, "needed", resumed)
        self._leave(differing[MOST:])

    def _leave(self, parts: Sequence[str]) -> None:
        """Of these nobody can tell, which is not the same as without effect."""
        self._parts.update(dict.fromkeys(parts, "untried"))

    def _matters(self, part: str, whole: Run, differing: Sequence[str]) -> bool:
        """Whether the run is another one when everything but this part is given back."""
        return not self._restores(f"without {part}", whole, [each for each in differing if each != part])

    def _restores(self, name: str, whole: Run, given: Sequence[str]) -> bool:
        if not given:  # such a run has been made
            return same(whole, self._runs["resumed" if whole.saves else "cold"])
        load = self._plan.saved if whole.saves else None
        run = self._run(name, steps=self._plan.steps, load=load, truth=self._plan.truth, give=list(given))
        return same(whole, run)

    def _note(self, found: Mapping[str, str], what: str, resumed: Run) -> None:
        for part, text in found.items():
            self._parts[part] = what
            self._rows.append((f"resume.{what}", part, resumed.kinds.get(part, "value"), text))

    def _hidden(self, resumed: Run, whole: Run) -> str:
        given = self._runs.get("all", resumed)
        text = f"with all that can be seen given back the run still differs{self._first(whole, given)}"
        if given.stubborn:
            part, told = next(iter(given.stubborn.items()))
            return f"{text}: {part} does not take its state back ({told})"
        return f"{text}: it depends on {', '.join(given.opaque) or 'state outside of what was returned or defined'}"

    def _first(self, whole: Run, other: Run) -> str:
        """A clause that names the first step that is another one."""
        done = len(whole.losses) - self._plan.steps if len(other.losses) <= self._plan.steps else 0
        for number, (a, b) in enumerate(zip(whole.losses[done:], other.losses, strict=False), done + 1):
            if _texts([a]) != _texts([b]):
                return f", first at step {number}: loss {_shown(a)} against {_shown(b)}"
        if other.error:
            return f", at step {done + len(other.losses) + 1}: {other.error}"
        return "" if same(whole, other) else ", in the weights after the last step"

    def _run(self, name: str, **parameters: Any) -> Run:
        self._runs[name] = self._make(name, **parameters)
        return self._runs[name]

    def _end(self, status: Literal["equal", "differs", "unknown"], reason: str) -> Verdict:
        whole = self._runs["uninterrupted"]
        known = {part: self._parts.get(part, "restored" if whole.saves else "not_needed") for part in whole.kinds}
        return Verdict(
            status,
            reason,
            (("resume.status", "training", status, reason), *self._rows),
            {name: run.losses for name, run in self._runs.items()},
            known,
            whole.kinds,
            whole.opaque,
            whole.saves,
        )


_SEED: Final = (
    "Seed every generator in make_state, give a DataLoader a generator and no workers, and use deterministic algorithms"
)
_BLIND: Final = (
    "a cold start gives the same steps, so the test cannot see whether anything is lost. Let the step return its loss, "
    "or save after more steps (--save-after)."
)
_NAN: Final = "the loss of every step after the save is NaN or infinite, and two ruined runs are always equal"
JUDGED: Final = ("model", "value", "stateful")
"""Kinds of parts that two equal runs end with in common; of a program with models the models alone decide."""


def same(whole: Run, other: Run) -> bool:
    """Whether two runs end in the same losses and the same weights, in every bit; the longer one's last steps count."""
    if whole.error or other.error:
        return False
    count = min(len(whole.losses), len(other.losses))
    kinds = JUDGED[:1] if "model" in whole.kinds.values() else JUDGED
    judged = [part for part, kind in whole.kinds.items() if kind in kinds]
    return _texts(whole.losses[-count:]) == _texts(other.losses[-count:]) and all(
        whole.final.get(part) == other.final.get(part) for part in judged
    )


def largest_difference(whole: Run, other: Run) -> float | None:
    """The largest absolute difference of the losses; infinite where one alone is NaN or the run ended early, None
    without any losses."""
    if other.error:
        return math.inf
    count = min(len(whole.losses), len(other.losses))
    pairs = list(zip(_numbers(whole.losses[-count:]), _numbers(other.losses[-count:]), strict=False))
    return max((_apart(a, b) for a, b in pairs), default=None)


def _apart(a: float, b: float) -> float:
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    return abs(a - b) if math.isfinite(a) and math.isfinite(b) else math.inf


def _texts(losses: Sequence[Any]) -> list[str]:
    """Losses as texts that are equal for equal bits; NaN is equal to itself."""
    return [repr(loss) for loss in losses]


def _is_lost_in_nan(losses: Sequence[Any]) -> bool:
    numbers = list(_numbers(losses))
    return bool(numbers) and not any(map(math.isfinite, numbers))


def _numbers(losses: Sequence[Any]) -> Iterator[float]:
    for loss in losses:
        if isinstance(loss, Mapping):
            yield from _numbers(list(loss.values()))
        elif loss is not None:
            yield float(loss)


def _shown(loss: Any) -> str:
    return f"{loss:.6g}" if isinstance(loss, float) else str(loss)
