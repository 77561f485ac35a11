"""Names that a tensor also goes by: its variable's own, its layer's, its parameter's where it is an optimiser's state.

The formats that number things (Keras' `vars/0`, TensorFlow's `variables/7`, the positions of a torch optimiser) keep
the names elsewhere, and there alone two checkpoints of one model agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tensoraudit.checkpoints.naming import convention_key, words_of
from tensoraudit.checkpoints.schema import Entry, OptimizerState, StoredCheckpoint

Key = tuple[str, ...]

_VARS: Final = "/vars/"
_NORMALISATION: Final = ("gamma", "beta", "moving_mean", "moving_variance")
_BUFFERS: Final = frozenset(("mean", "variance", "num_batches_tracked"))
_FIELDS: Final[Mapping[str, str]] = {
    "exp_avg": "first",
    "mu": "first",
    "momentum_buffer": "first",
    "trace": "first",
    "momentums": "first",
    "m": "first",
    "exp_avg_sq": "second",
    "nu": "second",
    "velocities": "second",
    "v": "second",
    "max_exp_avg_sq": "largest",
    "nu_max": "largest",
    "step": "step",
    "count": "step",
    "row_var": "row_var",
    "v_row": "row_var",
    "col_var": "col_var",
    "v_col": "col_var",
    "variance": "variance",
}
"""What optimisers call the parts of their state, by what they are."""


def variable_names(stored: StoredCheckpoint) -> Mapping[str, str]:
    """Return the other names of weights, by full name; only those that are known."""
    names: dict[str, str] = {}
    layers = stored.metadata.get("layer_names")
    if isinstance(layers, Mapping):
        names = _of_keras_variables(stored.entries, layers)
    return names | {entry.full_name: entry.alias for entry in stored.entries if "/" in entry.alias}


def _of_keras_variables(entries: Sequence[Entry], layers: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, list[tuple[int, Entry]]] = {}
    for entry in entries:
        layer, _, number = entry.full_name.rpartition(_VARS)
        if layer and number.isdecimal() and len(number) < 4 and entry.group == "model":
            found.setdefault(layer, []).append((int(number), entry))
    return {
        entry.full_name: f"{layers.get(layer, layer)}/{kind}"
        for layer, numbered in found.items()
        for kind, entry in _kinds([entry for _, entry in sorted(numbered, key=lambda each: each[0])])
    }


def _kinds(variables: Sequence[Entry]) -> Iterator[tuple[str, Entry]]:
    """What a layer's variables are, by their number and ranks; nothing for layers of other forms."""
    ranks = [len(entry.shape) for entry in variables]
    if ranks == [1, 1, 1, 1]:
        yield from zip(_NORMALISATION, variables, strict=True)
    elif len(ranks) == 3 and ranks[:2] == [2, 2]:
        yield from zip(("kernel", "recurrent_kernel", "bias"), variables, strict=True)
    elif ranks and ranks[0] > 1 and ranks[1:] in ([], [1]):
        yield from zip(("kernel", "bias"), variables, strict=False)
    elif ranks == [1, 1]:
        yield from zip(_NORMALISATION, variables, strict=False)


def state_keys(stored: StoredCheckpoint) -> dict[int, Key]:
    """Return the parameter and the field of each tensor of an optimiser's state, by the entry's number.

    A position is a parameter's name where the group lists names, or where the weights in their order have the shapes of
    the state. Tensors of which neither is known are left out.
    """
    known: dict[int, Key] = {}
    optimizers = {optimizer.path: number for number, optimizer in enumerate(stored.training.optimizers)}
    names = [_names_by_position(stored, optimizer) for optimizer in stored.training.optimizers]
    for number, entry in enumerate(stored.entries):
        if entry.group != "optimizer" or entry.path not in optimizers:
            continue
        which = optimizers[entry.path]
        parts = _parameter_and_field(words_of(entry.name))
        if parts is None:
            continue
        parameter, name = ".".join(parts[0]), parts[1]
        if parameter.isdecimal():
            parameter = names[which].get(parameter, "")
        if parameter or name == "step":
            known[number] = (str(which), name, *convention_key(parameter))
    return known


def _parameter_and_field(words: Key) -> tuple[Key, str] | None:
    """`state.fc.weight.exp_avg` and `0.mu.fc.kernel` name the field after and before the parameter."""
    if words and words[-1] in _FIELDS:
        return words[words[0] == "state" : -1], _FIELDS[words[-1]]
    for place, word in enumerate(words[:3]):
        if word in _FIELDS:
            return words[place + 1 :], _FIELDS[word]
    return None


def _names_by_position(stored: StoredCheckpoint, optimizer: OptimizerState) -> Mapping[str, str]:
    listed = {
        str(position): str(name)
        for group in optimizer.groups
        for position, name in zip(group.get("params") or (), group.get("param_names") or (), strict=False)
    }
    if listed or optimizer.keyed not in ("position", "digits") or len(optimizer.groups) > 1:
        return listed
    weights = [entry for entry in stored.entries if entry.group == "model" and _is_trained(entry)]
    shapes = _shapes_of_state(stored, optimizer)
    fits = all(position < len(weights) and weights[position].shape == shape for position, shape in shapes.items())
    return {str(n): entry.name for n, entry in enumerate(weights)} if fits and shapes else {}


def _is_trained(entry: Entry) -> bool:
    return not entry.same_as and convention_key(entry.name)[-1:] not in {(name,) for name in _BUFFERS}


def _shapes_of_state(stored: StoredCheckpoint, optimizer: OptimizerState) -> dict[int, tuple[int, ...]]:
    """The shapes of first or second moments, which are the parameters' own, by position."""
    shapes = {}
    for entry in stored.entries:
        words = entry.name.split(".") if entry.group == "optimizer" and entry.path == optimizer.path else []
        is_moment = len(words) == 3 and words[1].isdecimal() and len(words[1]) < 9 and _FIELDS.get(words[2]) in _MOMENTS
        if is_moment:
            shapes[int(words[1])] = entry.shape
    return shapes


_MOMENTS: Final = ("first", "second")
