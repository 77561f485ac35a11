"""What the keys of a JAX training state mean: which subtree is the model, which the optimiser, which counts steps.

Flax, optax and the libraries around them have no format for it, but habits: a state is a tree whose top keys are
`params`, `batch_stats`, `opt_state`, `step`. optax states are named tuples; their fields tell the optimiser.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tensoraudit.checkpoints.schema import Entry, Group, OptimizerState, TrainingState

_GROUPS: Final[Mapping[str, Group]] = {
    "params": "model", "batch_stats": "model", "model": "model", "variables": "model", "model_state": "model",
    "ema": "ema", "ema_params": "ema", "params_ema": "ema", "ema_state": "ema", "target_params": "ema",
    "opt": "optimizer", "opt_state": "optimizer", "optimizer": "optimizer", "opt_states": "optimizer",
    "optimizer_state": "optimizer", "optim": "optimizer",
    "rng": "rng", "rngs": "rng", "prng": "rng",
    "scheduler": "scheduler", "lr_scheduler": "scheduler", "loss_scale": "scaler", "dynamic_scale": "scaler",
    "loader": "loader", "dataset": "loader", "data_iter": "loader", "dataset_iterator": "loader",
}  # fmt: skip
_LEAVES: Final[Mapping[str, Group]] = {
    "rng": "rng", "key": "rng", "prng": "rng", "prng_key": "rng", "dropout_rng": "rng", "seed": "rng",
    "step": "other", "epoch": "other", "global_step": "other", "iteration": "other",
}  # fmt: skip
"""What a tensor itself is called, where that says something."""
_WRAPPERS: Final = frozenset({"state", "train_state", "default", "items", "target", "checkpoint"})
"""Keys that a whole state may stand under."""
_STEPS: Final = ("step", "global_step", "iteration")
_KINDS: Final = (
    ("lamb", frozenset({"mu", "nu", "trust_ratio"})),
    ("adam", frozenset({"mu", "nu"})),
    ("adafactor", frozenset({"v_row", "v_col"})),
    ("sgd", frozenset({"trace"})),
)
"""Fields of optax states that keep something per parameter, the longest first."""
_FIELDS: Final = frozenset({"mu", "nu", "trace", "v_row", "v_col", "v", "m", "sum_of_squares", "trust_ratio", "ema"})
_MOST: Final = 1000


def group_of(keys: Sequence[str]) -> Group:
    """Return which group a tensor belongs to, by the first keys that lead to it; "model" where they say nothing."""
    return place_of(keys)[2]


def place_of(keys: Sequence[str]) -> tuple[tuple[str, ...], str, Group]:
    """Return (path, name, group) of the leaf that these keys lead to, as an `Entry` has them."""
    at = 0
    while at + 1 < len(keys) and keys[at].lower() in _WRAPPERS:
        at += 1
    key = keys[at].lower() if keys else ""
    if at + 1 < len(keys) and key in _GROUPS:
        return tuple(keys[: at + 1]), ".".join(keys[at + 1 :]), _GROUPS[key]
    group = _LEAVES.get(key, "model") if at + 1 == len(keys) else "model"
    return tuple(keys[:at]), ".".join(keys[at:]), group


def is_counter(keys: Sequence[str]) -> bool:
    """Whether these keys lead to a step or an epoch."""
    return place_of(keys)[2] == "other"


def training_of(entries: Iterable[Entry], plain: Mapping[tuple[str, ...], Any]) -> TrainingState:
    """Return the training state of a tree: of its tensors, and of its plain values by the keys that lead to them."""
    entries = list(entries)
    found = {keys[-1].lower(): value for keys, value in plain.items() if is_counter(keys)}
    step = next((found[key] for key in _STEPS if _is_number(found.get(key))), None)
    epoch = found.get("epoch")
    rng = any(entry.group == "rng" for entry in entries)
    return TrainingState(
        optimizers=tuple(_optimizers(entries)),
        step=step,
        epoch=epoch if _is_number(epoch) else None,
        scheduler=_under("scheduler", entries, plain),
        scaler=_under("scaler", entries, plain),
        loader=_under("loader", entries, plain),
        rng=("jax",) if rng else (),
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _under(group: Group, entries: list[Entry], plain: Mapping[tuple[str, ...], Any]) -> dict[str, Any] | None:
    """The keys and plain values of a group, None where it has neither."""
    values = {place_of(keys)[1]: value for keys, value in plain.items() if group_of(keys) == group}
    names = {entry.name: None for entry in entries if entry.group == group}
    whole = {**names, **values}
    return dict(list(whole.items())[:_MOST]) if whole else None


def _optimizers(entries: list[Entry]) -> Iterable[OptimizerState]:
    roots: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        if entry.group == "optimizer":
            roots.setdefault(entry.path or (entry.name.split(".")[0],), []).append(entry)
    return [_optimizer(path, members) for path, members in roots.items()]


def _optimizer(path: tuple[str, ...], members: list[Entry]) -> OptimizerState:
    """An optax state: `0.mu.dense.kernel` is the field `mu` of the parameter `dense.kernel`."""
    parameters: dict[str, set[str]] = {}
    others: set[str] = set()
    for entry in members:
        keys = entry.name.split(".")
        at = next((place for place, key in enumerate(keys) if key in _FIELDS), None)
        if at is None or at + 1 == len(keys):
            others.add(keys[-1])
        else:
            parameters.setdefault(".".join(keys[at + 1 :]), set()).add(keys[at])
    fields = set().union(*parameters.values()) if parameters else set()
    known = next((kind for kind, wanted in _KINDS if wanted <= fields), "unknown" if fields else "none")
    return OptimizerState(
        path,
        known,
        "name" if parameters else "",
        tuple(sorted(fields)),
        len(parameters),
        extra=tuple(sorted(others))[:_MOST],
    )
