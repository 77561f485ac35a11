"""Load a checkpoint tensor by tensor, do to it what is stated and nothing else, and write every event down.

What headers tell (missing, extra, another shape or dtype) is in the log before the first value is read; what reading
tells follows as it happens; what was never read is written when the checkpoint is closed or collected, or when the
program ends.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal

import numpy as np

from tensoraudit.checkpoints.audit_log import AuditLog, Event, Writable
from tensoraudit.checkpoints.casting import cast
from tensoraudit.checkpoints.element_types import Array
from tensoraudit.checkpoints.matching import PROBLEMS, Wanted, everything, match
from tensoraudit.checkpoints.read import read_checkpoint
from tensoraudit.checkpoints.schema import Entry, StoredCheckpoint
from tensoraudit.checkpoints.tensor_spec import read_schema
from tensoraudit.checkpoints.torch_entries import VIEWED
from tensoraudit.checkpoints.values import UnreadableValues, read_entry, type_of
from tensoraudit.errors import ConfigError, InputError, MismatchError

OnMismatch = Literal["record", "raise"]
_MODES: Final = ("record", "raise")
_TOLD: Final = 10
"""Mismatches that an exception lists; the log has all."""


def load_checkpoint(
    path: str | os.PathLike[str],
    schema: Any = None,
    on_mismatch: OnMismatch = "record",
    *,
    log: str | os.PathLike[str] | Writable | None = None,
) -> LoadedCheckpoint:
    """Open a checkpoint of any format as a lazy mapping from names to numpy arrays, with an audit log.

    `schema` says what is expected: `{name: spec}`, where a spec is a TensorSpec (shape, dtype, stored name,
    permutation, cast), a mapping of its fields, a shape, None, or any array; or the path of another checkpoint. Without
    one every stored tensor is there under its full name. A tensor that does not fit is given as it is stored, and
    recorded; with `on_mismatch="raise"` the first look at the headers raises MismatchError instead, with all that does
    not fit. `log` is a file to append JSON lines to, or anything with `write`; the events are in `.log` in any case.

    Nothing stored is executed. Raises InputError for what is no checkpoint, no schema, or a log that cannot be written.
    """
    if on_mismatch not in _MODES:
        raise ConfigError(f"{on_mismatch!r} is not known", where="on_mismatch", remedy='Use "record" or "raise".')
    specs = None if schema is None else read_schema(schema)
    stored = read_checkpoint(Path(path))
    wanted, events = everything(stored.entries) if specs is None else match(stored.entries, specs)
    audit = AuditLog(log)
    audit.add("opened", **_opening(stored, None if specs is None else len(specs), on_mismatch))
    audit.extend({"event": "observed", **asdict(each)} for each in stored.observations)
    audit.extend(events)
    problems = [event for event in events if event["event"] in PROBLEMS]
    if problems and on_mismatch == "raise":
        audit.add("refused", problems=len(problems))
        audit.close()
        raise _mismatch(stored, problems)
    return LoadedCheckpoint(stored, wanted, audit)


class LoadedCheckpoint(Mapping[str, Array]):
    """The tensors of an open checkpoint, read when they are asked for and not kept.

    `stored` is what the headers say, `log` every event so far. Use it as a context manager, or `close` it: the log then
    ends with what was not read. What is never closed is closed when it is collected, or when the program ends.
    """

    def __init__(self, stored: StoredCheckpoint, wanted: Mapping[str, Wanted], audit: AuditLog) -> None:
        self.stored = stored
        self._wanted, self._audit = wanted, audit
        self._read: set[str] = set()
        self._end = weakref.finalize(self, _finish, wanted, self._read, audit)

    @property
    def log(self) -> Sequence[Event]:
        """Every event so far, in order; what each holds is in docs/load-checkpoint.md."""
        return tuple(self._audit.events)

    @property
    def problems(self) -> Sequence[Event]:
        """The events that say that schema and checkpoint do not fit, or that a tensor cannot be read."""
        return tuple(event for event in self._audit.events if event["event"] in PROBLEMS)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor as it will be given, without reading it."""
        return self._wanted[name].shape

    def dtype(self, name: str) -> str:
        """Return the name of a tensor's dtype as it will be given; the array of a `bfloat16` is a float32."""
        return self._wanted[name].dtype

    def __getitem__(self, name: str) -> Array:
        """Read a tensor: its own memory, C order, writable. Raises KeyError, or InputError when it cannot be read."""
        wanted = self._wanted[name]
        try:
            return self._load(name, wanted)
        except UnreadableValues as problem:
            reason = str(problem)
            self._audit.add("unreadable", name=name, stored=wanted.entry.full_name, message=f"{name}: {reason}")
            raise InputError(
                f"{name} cannot be read: {reason}",
                where=str(self.stored.path),
                remedy=f"{_remedy(wanted.entry)}, or use read_all() to go on without this tensor.",
            ) from problem

    def read_all(self) -> dict[str, Array]:
        """Read every tensor. One that cannot be read is left out; it is in the log as `unreadable`."""
        found = {}
        for name in self._wanted:
            before = len(self._audit.events)
            try:
                found[name] = self[name]
            except InputError:
                if not any(event["event"] == "unreadable" for event in self._audit.events[before:]):
                    raise  # the log itself
        return found

    def close(self) -> None:
        """End the log with what was not read; once is enough, twice does no harm. Tensors can still be read after it,
        which only `.log` then knows."""
        self._end()

    def __enter__(self) -> LoadedCheckpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, at: TracebackType | None
    ) -> None:
        if problem is not None and self._end.alive:
            self._audit.add("interrupted", message=f"{type(problem).__name__}: {problem}")
        self.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._wanted)

    def __len__(self) -> int:
        return len(self._wanted)

    def __contains__(self, name: object) -> bool:
        return name in self._wanted  # a Mapping would read the tensor to find out

    def __eq__(self, other: object) -> bool:
        return self is other  # and here read everything

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<LoadedCheckpoint {self.stored.path} ({self.stored.format}): {len(self)} tensors>"

    def _load(self, name: str, wanted: Wanted) -> Array:
        entry, axes = wanted.entry, wanted.permutation
        values = read_entry(self.stored, entry)
        self._read.add(name)
        self._audit.add("read", name=name, stored=entry.full_name, dtype=entry.dtype, shape=list(entry.shape))
        if axes is not None and axes != tuple(range(len(axes))):
            values = values.transpose(axes)
            self._audit.add("permuted", name=name, permutation=list(axes), shape=list(values.shape))
        if wanted.dtype != entry.dtype:
            values, loss = cast(values, wanted.dtype)
            told = {"from": entry.dtype, "to": wanted.dtype, **asdict(loss)}
            self._audit.add("cast", name=name, **told)
        owned = values.flags.c_contiguous and values.flags.writeable
        return values if owned else np.array(values, order="C")


def _remedy(entry: Entry) -> str:
    """What gives the tensor after all: another copy of the file only where the bytes ought to be readable."""
    if entry.numel and not entry.parts:
        return "Take it from another checkpoint, for this one has a place for it and no values"
    for part in entry.parts:
        if part.codec in _SAVED_OTHERWISE:
            return _SAVED_OTHERWISE[part.codec]
    try:
        type_of(entry)
    except UnreadableValues:
        return _CONVERTED.get(entry.dtype, "Read it with what wrote it and save it as numbers")
    return "Fetch the file again"


_SAVED_OTHERWISE: Final[Mapping[str, str]] = {
    "sparse": "Save it dense: tensor.to_dense()",
    "pickle": "Save it as a tensor: torch.from_numpy(array)",
    "big_endian": "Load and save it on a machine of little endian",
    **dict.fromkeys(VIEWED.values(), "Save what it stands for: tensor.resolve_conj().resolve_neg()"),
}
"""By the codec of a part whose bytes are there, and are not the tensor's as they are."""
_CONVERTED: Final[Mapping[str, str]] = {"complex32": "Save it as complex64: tensor.to(torch.complex64)"}


def _opening(stored: StoredCheckpoint, schema: int | None, on_mismatch: str) -> dict[str, Any]:
    return {
        "path": str(stored.path), "format": stored.format, "framework": stored.framework, "writer": stored.writer,
        "tensors": len(stored.entries), "bytes": sum(entry.stored_bytes for entry in stored.entries),
        "schema": schema, "on_mismatch": on_mismatch,
    }  # fmt: skip


def _finish(wanted: Mapping[str, Wanted], read: set[str], audit: AuditLog) -> None:
    left = [name for name in wanted if name not in read]
    audit.extend({"event": "not_read", "name": name, "stored": wanted[name].entry.full_name} for name in left)
    problems = sum(event["event"] in PROBLEMS for event in audit.events)
    audit.add("closed", read=len(read), not_read=len(left), problems=problems)
    audit.close()


def _mismatch(stored: StoredCheckpoint, problems: Sequence[Event]) -> MismatchError:
    told = "; ".join(str(event["message"]) for event in problems[:_TOLD])
    more = f"; and {len(problems) - _TOLD} more" if len(problems) > _TOLD else ""
    count = "one mismatch" if len(problems) == 1 else f"{len(problems)} mismatches"
    return MismatchError(
        f"the checkpoint does not fit the schema ({count}): {told}{more}",
        where=str(stored.path),
        remedy='Correct the schema, or load with on_mismatch="record" and look at .problems.',
        events=problems,
    )
