"""Which optimiser a state is of: by the fields that it keeps per parameter and the hyperparameters of its groups.

Fields alone do not tell: SGD and Muon both keep `momentum_buffer`, RMSprop as well. A row names what must be there and
what may be beside it; a state with anything else is "unknown", since hundreds of optimisers are made from these parts.
Adam and AdamW exchange their states and are both "adam". Measured with every optimiser of torch 2.13.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple


class _Row(NamedTuple):
    """`keeps` and `groups` are all there, of `never` none in the groups, and no field but those of `beside` (None:
    whatever it may be)."""

    kind: str
    keeps: frozenset[str] = frozenset()
    beside: frozenset[str] | None = frozenset()
    groups: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_COPIES: Final = _words("step param fp32_param master_param master_params master_weight")
"""A count, and the copies of weights in full precision that apex, Megatron and TransformerEngine keep."""
_STRANGE: Final = _words(
    "final_lr initial_accumulator wd_ratio buffer nus clip_exp rectify weight_decouple d_coef ns_steps trust_coeff"
    " momentum dampening"
)
"""Hyperparameters of optimisers outside torch that keep what Adam or SGD keeps: AdaBound, Yogi, AdamP, QHAdam, LARS."""
_ADAM: Final = _words("exp_avg exp_avg_sq")
_ROWS: Final = (
    _Row("lamb", _words("weight_norm"), None),
    _Row("lamb", _words("trust_ratio"), None),
    _Row("lamb", _ADAM, _COPIES, _words("grad_averaging")),
    _Row("lamb", _ADAM, _COPIES, _words("trust_clip")),
    _Row("adafactor", _words("exp_avg_sq_row exp_avg_sq_col"), _COPIES | _ADAM | {"RMS"}),
    _Row("adafactor", _words("exp_avg_sq RMS"), _COPIES | _ADAM, _words("clip_threshold")),  # vectors alone
    _Row("adafactor", _words("row_var col_var"), _words("step variance")),
    _Row("adafactor", _words("variance"), _words("step"), _words("beta2_decay")),  # vectors alone
    _Row("nadam", _ADAM | {"mu_product"}, _words("step")),
    _Row("radam", _ADAM, _words("step"), _words("decoupled_weight_decay"), _words("amsgrad")),
    _Row("sparseadam", _ADAM, _words("step"), _words("betas maximize"), _words("weight_decay amsgrad")),
    _Row("adam", _ADAM, _COPIES | {"max_exp_avg_sq"}, never=_STRANGE),
    _Row("adamax", _words("exp_avg exp_inf"), _words("step norm_buf")),
    _Row("adadelta", _words("square_avg acc_delta"), _words("step")),
    _Row("rmsprop", _words("square_avg"), _words("step momentum_buffer grad_avg"), _words("alpha")),
    _Row("adagrad", _words("sum"), _words("step")),
    _Row("asgd", _words("ax eta mu"), _words("step")),
    _Row("rprop", _words("prev step_size"), _words("step")),
    _Row("lbfgs", _words("old_dirs old_stps"), None),
    _Row("lbfgs", _words("func_evals n_iter"), None, _words("history_size")),  # its first gradient was 0
    _Row("muon", _words("momentum_buffer"), _words("step"), _words("ns_steps")),
    _Row("sgd", _words("momentum_buffer"), _COPIES, _words("dampening"), _words("ns_steps trust_coeff")),
)
_BEFORE_STATE: Final = (
    _Row("nadam", groups=_words("betas momentum_decay")),
    _Row("radam", groups=_words("betas decoupled_weight_decay"), never=_words("amsgrad")),
    _Row("adam", groups=_words("betas amsgrad"), never=_STRANGE),
    _Row("sparseadam", groups=_words("betas maximize"), never=_words("weight_decay amsgrad")),
    _Row("adafactor", groups=_words("beta2_decay")),
    _Row("adafactor", groups=_words("clip_threshold relative_step")),
    _Row("adagrad", groups=_words("lr_decay initial_accumulator_value")),
    _Row("adadelta", groups=_words("rho"), never=_words("betas")),
    _Row("asgd", groups=_words("lambd t0")),
    _Row("lbfgs", groups=_words("history_size line_search_fn")),
    _Row("muon", groups=_words("ns_steps momentum")),
    _Row("rmsprop", groups=_words("alpha centered")),
    _Row("rprop", groups=_words("etas step_sizes")),
    _Row("sgd", groups=_words("momentum dampening nesterov"), never=_words("ns_steps trust_coeff")),
)
"""By hyperparameters alone, for an optimiser that has not kept anything yet, or that never does (SGD without momentum).
Adamax has none of its own."""


def kind_of(fields: Iterable[str], hyperparameters: Collection[str] = ()) -> str:
    """Return what optimiser keeps these fields per parameter, "none" where nothing is kept, "unknown" for any other.

    `hyperparameters` are the names in its groups.
    """
    present = frozenset(fields)
    if not present - {"step"}:
        return "none"
    return next((row.kind for row in _ROWS if _fits(row, present, frozenset(hyperparameters))), "unknown")


def kind_before_state(hyperparameters: Collection[str]) -> str:
    """Return what optimiser has groups with these hyperparameters, "unknown" where they do not tell."""
    names = frozenset(hyperparameters)
    return next((row.kind for row in _BEFORE_STATE if _fits(row, frozenset(), names)), "unknown")


def _fits(row: _Row, fields: frozenset[str], names: frozenset[str]) -> bool:
    strange = frozenset() if row.beside is None else fields - row.keeps - row.beside
    return row.keeps <= fields and not strange and row.groups <= names and not row.never & names
