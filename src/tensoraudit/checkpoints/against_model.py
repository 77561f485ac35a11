"""A checkpoint beside the model that it is for: which names fit, and with what shapes and dtypes.

Names are compared as a loader does, letter by letter. Where that fits nothing at all, and both are not of one
framework, the pairs that `diff` finds stand in for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final, NamedTuple

from tensoraudit.checkpoints.schema import Entry, Observation, StoredCheckpoint

_BITS: Final[Mapping[str, int]] = {
    **{"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16, "complex128": 128, "complex64": 64},
    **{"int64": 64, "int32": 32, "int16": 16, "int8": 8, "uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8},
}
_BUFFERS: Final = ("inv_freq", "position_ids", "masked_bias", "attn.bias", "attention.bias")
"""Ends of names of buffers that models make by themselves and that later versions no longer save."""

_SCALES: Final = ("_scale", "_scale_inv", ".scale", "_zero_point", ".absmax", ".qweight", "_format")


class ModelTensor(NamedTuple):
    """A parameter or buffer of a model. `saved` is false for a buffer that the model leaves out of its state; `also`
    are further names of the same tensor."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    saved: bool = True
    also: tuple[str, ...] = ()


def against_model(
    stored: StoredCheckpoint, model: Sequence[ModelTensor], partners: Mapping[str, str] | None = None
) -> Iterator[Observation]:
    """Yield what does not fit, and last the shares of names and of dtypes that do (`keys_matched`, `dtypes_kept`).

    `partners` maps the model's names to the checkpoint's where they are not the same.
    """
    held = {entry.name: entry for entry in stored.entries if entry.group == "model"}
    wanted = [each for each in model if each.saved]
    found = {each.name: entry for each in wanted if (entry := _entry(held, each, partners)) is not None}
    names = {name for each in model for name in (each.name, *each.also)}
    for each in wanted:
        if each.name in found:
            yield from _fits_shape(stored, found[each.name], each, translated=partners is not None)
            yield from _fits_dtype(found[each.name], each, names)
        else:
            message = f"the model's {each.name} {list(each.shape)} is not in the checkpoint."
            yield Observation("key_missing", each.name, list(each.shape), message)
    yield from _extra(model, held, {entry.name for entry in found.values()})
    yield _share(len(found), len(wanted), held, wanted)
    if found:
        kept = sum(entry.dtype == each.dtype for each in wanted if (entry := found.get(each.name)) is not None)
        message = f"{kept} of {len(found)} matched tensors are stored in the model's dtype."
        yield Observation("dtypes_kept", "checkpoint", kept / len(found), message)


def _entry(held: Mapping[str, Entry], wanted: ModelTensor, partners: Mapping[str, str] | None) -> Entry | None:
    """A tied tensor fits under any of its names."""
    names = (wanted.name, *wanted.also) if partners is None else (partners.get(wanted.name, ""),)
    return next((held[name] for name in names if name in held), None)


def _fits_shape(
    stored: StoredCheckpoint, entry: Entry, wanted: ModelTensor, *, translated: bool
) -> Iterator[Observation]:
    """Axes in another order are another framework's layout; so are axes of one element, where names had to be
    translated too (Keras' PReLU has a slope of [1, 1, 64], PyTorch's one of [64])."""
    ours, theirs = entry.shape, wanted.shape
    if stored.framework != "pytorch":
        ours, theirs = (tuple(sorted(size for size in each if size != 1 or not translated)) for each in (ours, theirs))
    if ours != theirs:
        message = f"{entry.full_name} is stored as {list(entry.shape)}, the model's is {list(wanted.shape)}."
        yield Observation("shape_mismatch", entry.full_name, [list(entry.shape), list(wanted.shape)], message)


def _fits_dtype(entry: Entry, wanted: ModelTensor, names: Set[str]) -> Iterator[Observation]:
    name = entry.full_name
    if _is_code(entry.dtype) and wanted.dtype.startswith(("float", "bfloat")) and not _is_code(wanted.dtype):
        if not any(f"{each}{end}" in names for each in (entry.name, _owner(entry.name)) for end in _SCALES):
            message = f"{name} is stored as {entry.dtype}, the model's is {wanted.dtype} and has no scale beside it."
            yield Observation("codes_as_weights", name, entry.dtype, message)
        return
    stored_bits, own_bits = _BITS.get(entry.dtype, 0), _BITS.get(wanted.dtype, 0)
    if stored_bits != own_bits and stored_bits and own_bits:
        kind = "dtype_narrowed" if stored_bits < own_bits else "dtype_lost"
        message = f"{name} is stored as {entry.dtype}, the model's is {wanted.dtype}."
        yield Observation(kind, name, [entry.dtype, wanted.dtype], message)


def _is_code(dtype: str) -> bool:
    return dtype.startswith(("int", "uint", "float8", "float4"))


def _owner(name: str) -> str:
    return name.rpartition(".")[0]


def _extra(model: Sequence[ModelTensor], held: Mapping[str, Entry], taken: set[str]) -> Iterator[Observation]:
    names = {name for each in model if each.saved for name in (each.name, *each.also)}
    unsaved = {each.name for each in model if not each.saved}
    for name, entry in held.items():
        if name in taken or name in names or entry.same_as in taken:
            continue
        shape = list(entry.shape)
        if name in unsaved or name.endswith(_BUFFERS):
            has = "a buffer of that name that it does not save" if name in unsaved else "no buffer of that name"
            message = f"{entry.full_name} {shape} is stored, and the model has {has}."
            yield Observation("buffer_unexpected", entry.full_name, shape, message)
        else:
            message = f"{entry.full_name} {shape} is stored, and the model has no tensor of that name."
            yield Observation("key_extra", entry.full_name, shape, message)


def _share(found: int, wanted: int, held: Mapping[str, Entry], model: Sequence[ModelTensor]) -> Observation:
    prefix = _common_prefix(held, model) if found < wanted else ""
    message = f"{found} of the model's {wanted} names are in the checkpoint{prefix and f'; {prefix}'}."
    return Observation("keys_matched", "checkpoint", found / wanted if wanted else 1.0, message)


def _common_prefix(held: Mapping[str, Entry], model: Sequence[ModelTensor]) -> str:
    """Words for a prefix that one side has on its names and the other has not; "" where that explains little."""
    names, theirs = {each.name for each in model}, set(held)
    for longer, shorter, words in ((theirs, names, "the checkpoint's"), (names, theirs, "the model's")):
        prefixes: dict[str, int] = {}
        for name in longer:
            parts = name.split(".")
            for at in range(1, min(len(parts), 5)):
                if ".".join(parts[at:]) in shorter:
                    prefix = ".".join(parts[:at]) + "."
                    prefixes[prefix] = prefixes.get(prefix, 0) + 1
                    break
        best = max(prefixes, key=lambda prefix: (prefixes[prefix], prefix), default="")
        if best and prefixes[best] * 2 > min(len(names), len(theirs)):
            return f"without {best!r} on {words} names, {prefixes[best]} more would be"
    return ""
