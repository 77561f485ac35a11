"""State of optimizers that is not what it seems to be, or that a loader would give to another parameter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tensoraudit.checkpoints.schema import Entry, Observation, OptimizerState, StoredCheckpoint

_ADAM: Final = "exp_avg"
_MOMENTUM: Final = "momentum_buffer"
_HYPERPARAMETERS: Final[Mapping[str, frozenset[str]]] = {
    _ADAM: frozenset({"betas", "beta1", "beta2", "beta"}),
    _MOMENTUM: frozenset({"momentum", "momentums", "nesterov", "mu"}),
}
"""Fields of a state, and hyperparameters of which an optimizer that keeps them has one."""
_BUFFERS: Final = ("running_mean", "running_var", "num_batches_tracked", "n_averaged")
_MOST: Final = 20


def observe(stored: StoredCheckpoint) -> Iterator[Observation]:
    """Yield what is wrong with each optimizer; the subject is the optimizer's key."""
    for state in stored.training.optimizers:
        subject = ".".join(map(str, state.path)) or "optimizer"
        for kind, value, told in _seen(state, stored):
            yield Observation(kind, subject, value, told)
        yield from _shapes(state, stored)


def _seen(state: OptimizerState, stored: StoredCheckpoint) -> Iterator[tuple[str, Any, str]]:
    fields = ", ".join(state.fields) or "nothing"
    yield "optimizer_kind", state.kind, f"Of each of {state.parameters} parameters the optimizer keeps {fields}"
    if state.extra:
        told = f"{', '.join(state.extra[:_MOST])} beside state and param_groups; load_state_dict drops it"
        yield "optimizer_extra", list(state.extra[:_MOST]), told
    if state.keyed == "digits":
        told = "The state is kept under texts of digits; load_state_dict finds no parameter for them and starts afresh"
        yield "optimizer_digit_keys", state.parameters, told
    if _lacks_state(state) and (later := _later(stored)):
        told = f"At step or epoch {later} the optimizer has no state at all"
        yield "optimizer_empty", later, told
    yield from _mixed(state)
    yield from _order(state, stored)


def _lacks_state(state: OptimizerState) -> bool:
    """Whether there is no state although the optimizer keeps some: SGD without momentum keeps none."""
    keeping = [group for group in state.groups if "momentum" not in group or group["momentum"]]
    return not state.parameters and bool(keeping)


def _later(stored: StoredCheckpoint) -> int | float | None:
    """The step or epoch that the checkpoint was saved at, None at the very beginning or where it is not known."""
    return next((count for count in (stored.training.step, stored.training.epoch) if count and count > 0), None)


def _mixed(state: OptimizerState) -> Iterator[tuple[str, Any, str]]:
    keys = {key for group in state.groups for key in group}
    own = [field for field in _HYPERPARAMETERS if field in state.fields]
    known = {field for field, wanted in _HYPERPARAMETERS.items() if keys & wanted}
    strange = [field for field in own if field not in known]
    if keys and strange and known:
        kept = ", ".join(sorted(known))
        told = f"The state holds {', '.join(strange)}, and the groups are of an optimizer that keeps {kept}"
        yield "optimizer_mixed", strange, told


def _order(state: OptimizerState, stored: StoredCheckpoint) -> Iterator[tuple[str, Any, str]]:
    """Names that `Optimizer(model.named_parameters())` keeps, against the order of the weights beside them."""
    names = [str(name) for group in state.groups for name in group.get("param_names") or ()]
    places = {entry.name: place for place, entry in enumerate(_parameters(stored))}
    known = [name for name in names if name in places]
    if len(state.groups) == 1 and known != sorted(known, key=places.__getitem__):
        first = next(
            name for name, sure in zip(known, sorted(known, key=places.__getitem__), strict=True) if name != sure
        )
        told = f"The optimizer's parameters come in another order than the weights, from {first} on"
        yield "optimizer_order", first, told


def _shapes(state: OptimizerState, stored: StoredCheckpoint) -> Iterator[Observation]:
    """Yield `optimizer_shape` where a moment has not the shape of the parameter at its position.

    Only where positions mean something: as many of them as there are parameters, in groups in their order.
    """
    ids = [number for group in state.groups for number in group.get("params") or ()]
    weights = _parameters(stored)
    if state.keyed not in ("position", "digits") or len(ids) != len(weights):
        return
    moments = _moments(state, stored)
    for number, weight in zip(ids, weights, strict=True):
        moment = moments.get(str(number))
        if moment is not None and moment.shape != weight.shape:
            shapes = [list(moment.shape), list(weight.shape)]
            told = f"{moment.full_name} is {shapes[0]}, and {weight.name}, the parameter at its position, {shapes[1]}"
            yield Observation("optimizer_shape", moment.full_name, shapes, told)


def _parameters(stored: StoredCheckpoint) -> Sequence[Entry]:
    """The weights that an optimizer is given: no buffers, and a tied one once."""
    return [
        entry
        for entry in stored.entries
        if entry.group == "model" and not entry.same_as and not entry.name.endswith(_BUFFERS)
    ]


def _moments(state: OptimizerState, stored: StoredCheckpoint) -> Mapping[str, Entry]:
    """A tensor of the state by the number of its parameter: `state.3.exp_avg` under "3"."""
    found: dict[str, Entry] = {}
    for entry in stored.entries:
        words = entry.name.split(".")
        own = entry.group == "optimizer" and entry.path == state.path
        if own and len(words) == 3 and words[0] == "state" and words[2] in (_ADAM, _MOMENTUM):
            found[words[1]] = entry
    return found
