"""Which stored tensor answers to which name of a schema, and everything that headers alone say is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tensoraudit.checkpoints.audit_log import Event
from tensoraudit.checkpoints.schema import Entry
from tensoraudit.checkpoints.tensor_spec import TensorSpec

PROBLEMS: Final = frozenset({"missing", "ambiguous", "extra", "shape_mismatch", "dtype_mismatch", "unreadable"})
"""Events that say that schema and checkpoint do not fit."""

_NAMED: Final = 3
"""Stored names that a message proposes for one that is missing."""
_PREFIX: Final = 3
"""Words that a prefix may have to be recognised as one."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A tensor that can be loaded: where it is stored, and what is to be done with it."""

    entry: Entry
    spec: TensorSpec

    @property
    def permutation(self) -> tuple[int, ...] | None:
        """The permutation, where one is stated that fits the stored axes."""
        stated = self.spec.permutation
        return stated if stated is not None and len(stated) == len(self.entry.shape) else None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the caller gets."""
        axes = self.permutation
        return self.entry.shape if axes is None else tuple(self.entry.shape[axis] for axis in axes)

    @property
    def dtype(self) -> str:
        """The dtype of the values that the caller gets."""
        return self.spec.dtype if self.spec.cast and self.spec.dtype else self.entry.dtype


class Names:
    """Stored tensors by name. A full name goes before a short one, and weights of the model before anything else."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._full: dict[str, list[Entry]] = {}
        self._short: dict[str, list[Entry]] = {}
        self._endings: dict[str, list[str]] = {}
        for entry in entries:
            self._full.setdefault(entry.full_name, []).append(entry)
            self._short.setdefault(entry.name, []).append(entry)

    def find(self, name: str) -> list[Entry]:
        """Return what answers to a name; more than one where nothing tells them apart."""
        found = self._full.get(name) or self._short.get(name, [])
        return [entry for entry in found if entry.group == "model"] or found

    def like(self, name: str) -> list[str]:
        """Return stored names that end with this one, or that it ends with: a prefix too many or too few."""
        if not self._endings:
            for full in self._full:
                for ending in _endings(full):
                    self._endings.setdefault(ending, []).append(full)
        shorter = [ending for ending in _endings(name) if ending in self._full]
        return [*self._endings.get(name, ()), *shorter][:_NAMED]


def match(entries: Sequence[Entry], schema: Mapping[str, TensorSpec]) -> tuple[dict[str, Wanted], list[Event]]:
    """Return the tensors that can be loaded, by the schema's names, and the events of matching them."""
    names = Names(entries)
    wanted: dict[str, Wanted] = {}
    events: list[Event] = []
    for name, spec in schema.items():
        found = next((found for each in (spec.stored or name, *spec.also) if (found := names.find(each))), [])
        if not found:
            events.append(_missing(name, spec.stored or name, names))
            continue
        if len(found) > 1:
            events.append(_ambiguous(name, found))
        wanted[name] = Wanted(found[0], spec)
        events += _about(name, wanted[name])
    return wanted, [*events, *_left_over(entries, wanted)]


def everything(entries: Sequence[Entry]) -> tuple[dict[str, Wanted], list[Event]]:
    """Return all tensors under their full names, for a load without a schema."""
    wanted: dict[str, Wanted] = {}
    events: list[Event] = []
    for entry in entries:
        name = entry.full_name
        if name in wanted:
            events.append(_ambiguous(name, [wanted[name].entry, entry]))
        wanted.setdefault(name, Wanted(entry, TensorSpec()))
    return wanted, events


def _about(name: str, wanted: Wanted) -> Iterator[Event]:
    entry, spec = wanted.entry, wanted.spec
    if entry.full_name != name:
        yield {"event": "renamed", "name": name, "stored": entry.full_name}
    if spec.permutation is not None and wanted.permutation is None:
        text = f"the permutation {spec.permutation} does not fit the {len(entry.shape)} axes that are stored"
        yield _shape_mismatch(name, wanted, text)
    elif spec.shape is not None and wanted.shape != spec.shape:
        by = f", permuted by {wanted.permutation}" if wanted.permutation is not None else ""
        text = f"the shape {_size(entry.shape)} is stored{by}, {_size(spec.shape)} is expected"
        yield _shape_mismatch(name, wanted, text)
    if spec.dtype is not None and entry.dtype != spec.dtype and not spec.cast:
        yield {
            "event": "dtype_mismatch", "name": name, "stored": entry.full_name, "stored_dtype": entry.dtype,
            "expected_dtype": spec.dtype,
            "message": f"{name}: {entry.dtype} is stored, {spec.dtype} is expected, and no cast is stated",
        }  # fmt: skip


def _shape_mismatch(name: str, wanted: Wanted, text: str) -> Event:
    expected = wanted.spec.shape
    return {
        "event": "shape_mismatch", "name": name, "stored": wanted.entry.full_name,
        "stored_shape": list(wanted.entry.shape), "expected_shape": None if expected is None else list(expected),
        "message": f"{name}: {text}",
    }  # fmt: skip


def _missing(name: str, stored: str, names: Names) -> Event:
    near = names.like(stored)
    hint = f"; stored are {', '.join(near)}: name one with `stored`" if near else ""
    return {"event": "missing", "name": name, "message": f"{name}: the checkpoint holds no {stored}{hint}"}


def _ambiguous(name: str, found: Sequence[Entry]) -> Event:
    places = [f"{entry.full_name} ({entry.parts[0].file if entry.parts else 'no file'})" for entry in found[:_NAMED]]
    return {
        "event": "ambiguous", "name": name, "stored": found[0].full_name,
        "message": f"{name}: {len(found)} stored tensors answer to it, the first is given: {', '.join(places)}",
    }  # fmt: skip


def _left_over(entries: Sequence[Entry], wanted: Mapping[str, Wanted]) -> Iterator[Event]:
    """What the schema does not name: too much where it names others of that group, else not its subject; nor is a
    further name of what it does name."""
    taken = {id(each.entry) for each in wanted.values()}
    tied = {each.entry.owner for each in wanted.values()}
    groups = {each.entry.group for each in wanted.values()} or {"model"}
    for entry in entries:
        if id(entry) in taken:
            continue
        name, group = entry.full_name, entry.group
        about: dict[str, Any] = {"stored": name, "dtype": entry.dtype, "shape": list(entry.shape), "group": group}
        if group in groups and entry.owner not in tied:
            yield {"event": "extra", **about, "message": f"{name} is stored, and the schema does not name it"}
        else:
            yield {"event": "not_requested", **about}


def _endings(name: str) -> list[str]:
    """What is left of a name without its first words."""
    words = name.split(".", _PREFIX)
    return [".".join(words[at:]) for at in range(1, len(words))]


def _size(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))})"
