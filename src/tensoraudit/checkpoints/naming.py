"""Names of stored tensors without what wrappers, formats and conventions make of them.

Three forms of a name, each blinder than the one before, and each only used for tensors that the one before left alone:

1. `unwrapped`: without the segments that a wrapper puts in (`module`, `_orig_mod`, PEFT's `base_layer`...), wherever
   they stand.
2. without words at the front that only say whose weights these are (`LEADING`, and what `pairing` finds).
3. `convention_key`: words in one spelling, and the kind of parameter for the last of them: `conv_1/gamma:0` and
   `conv1.weight` give the same.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from sys import intern
from typing import Final

WRAPPERS: Final = frozenset(
    ("module", "_orig_mod", "_forward_module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_fpw_module")
)
"""Attributes under which DDP, torch.compile, Fabric, FSDP, checkpointing and FairScale keep the module they wrap."""

LEADING: Final = frozenset(
    (
        ("base_model", "model"),
        ("base_model",),
        ("model",),
        ("_model",),
        ("net",),
        ("network",),
        ("params",),
        ("backbone",),
    )
)
"""Fronts that are known to say nothing of the layer. Others are found by what both sides have in common."""

_ADAPTED: Final = (
    r"(?:^|(?<=\.))base_layer\.",
    r"(?:^|(?<=\.))modules_to_save\.[^.]+\.",
    r"(?:(?<=\.lora_A\.)|(?<=\.lora_B\.))[^.]+\.(?=(?:weight|bias)$)",
    r"(?<=\.lora_embedding_[AB])\.[^.]+$",
    r"(?<=\.lora_magnitude_vector)(?:\.[^.]+){1,2}$",
)
"""What PEFT puts into the names of a model with adapters and leaves out of those that it saves: a segment for the layer
that is adapted, and the adapter's own name."""
_SIGNS: Final = ("module.", "_orig_mod.", "base_layer.", "modules_to_save.", ".lora_")
"""One of these is in every name that has something to leave out."""
_WRAPPER: Final = re.compile("|".join((rf"(?:^|(?<=\.))(?:{'|'.join(sorted(WRAPPERS))})\.", *_ADAPTED)))
_TF_END: Final = "/.ATTRIBUTES/VARIABLE_VALUE"
_OUTPUT: Final = re.compile(r":\d+$")
_NUMBERED: Final = re.compile(r"^(.*?[a-z])_?(\d+)$")
_COLLECTIONS: Final = frozenset(
    ("params", "batch_stats", "variables", "vars", "model", "module", "cell", "trainable_variables", "readvariableop")
)
_KINDS: Final = {
    "weight": (
        "weight",
        "weights",
        "kernel",
        "gamma",
        "scale",
        "w",
        "embedding",
        "embeddings",
        "table",
        "matmul",
        "conv2d",
    ),
    "bias": ("bias", "beta", "b", "offset", "biasadd"),
    "mean": ("running_mean", "moving_mean", "mean", "moving_average", "running_average"),
    "variance": ("running_var", "moving_variance", "moving_var", "variance", "var", "running_variance"),
    "recurrent": ("recurrent_kernel", "recurrent_weight"),
    "depthwise": ("depthwise_kernel", "depthwise_weight"),
    "pointwise": ("pointwise_kernel", "pointwise_weight"),
}
_KIND_OF: Final = {word: kind for kind, words in _KINDS.items() for word in words}
_RECURRENT: Final = {"weight_ih": "weight", "weight_hh": "recurrent", "bias_ih": "bias", "bias_hh": "recurrent_bias"}
_RECURRENT_NAME: Final = re.compile(r"^(weight_ih|weight_hh|bias_ih|bias_hh)(?:_l(\d+))?(_reverse)?$")

Key = tuple[str, ...]


def unwrapped(name: str) -> str:
    """Return a name without wrappers' segments: `_orig_mod.module.layer.weight` is `layer.weight`."""
    return _WRAPPER.sub("", name) if _has_sign(name) else name


def wrapping(name: str) -> str:
    """Return the wrappers' segments of a name, joined: what `unwrapped` takes off."""
    return "".join(_WRAPPER.findall(name)) if _has_sign(name) else ""


def _has_sign(name: str) -> bool:
    return any(sign in name for sign in _SIGNS)


def convention_key(name: str) -> Key:
    """Return the words of a name in one spelling, its kind last; () for a name of which nothing is left."""
    words = words_of(_OUTPUT.sub("", name.removesuffix(_TF_END)))
    if not words:
        return ()
    path = [part for word, after in pairwise(words) if not _is_list_of_names(word, after) for part in _parts(word)]
    return (*path, *_kind(words[-1]))


def words_of(name: str) -> Key:
    """The segments of a name, whatever joins them."""
    # One object for each word: a hundred thousand names are made of a few hundred of them.
    return tuple([intern(word) for word in name.replace("/", ".").split(".") if word])


def _is_list_of_names(word: str, after: str) -> bool:
    """Keras keeps named layers under `layers`; elsewhere the word stands before a number."""
    return word == "layers" and not after.isdigit()


@lru_cache(maxsize=1 << 16)
def _parts(word: str) -> Key:
    """A word in lower case, its number apart; nothing for a collection or wrapper."""
    low = word.lower().lstrip("_")
    if low in _COLLECTIONS or low in WRAPPERS or word in WRAPPERS:
        return ()
    numbered = _NUMBERED.match(low)
    if numbered:
        return (_singular(numbered[1].rstrip("_")), numbered[2].lstrip("0") or "0")
    return (_singular(low),)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


@lru_cache(maxsize=1 << 16)
def _kind(word: str) -> Key:
    """The kind of a parameter by the last word of its name; the word itself where it says another."""
    low = word.lower().lstrip("_")
    recurrent = _RECURRENT_NAME.match(low)
    if recurrent:
        return (
            *(("l" + recurrent[2],) if recurrent[2] not in (None, "0") else ()),
            recurrent[3] or "",
            _RECURRENT[recurrent[1]],
        )
    return (_KIND_OF.get(low, low),)
