"""A checkpoint, and two of them side by side, as plain data for the JSON report.

Rows of tensors and of pairs may be a hundred thousand: they are made one by one, for whoever writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from tensoraudit.checkpoints.paired import CheckpointDiff, PairedTensor
from tensoraudit.checkpoints.schema import Entry, Observation, Part, StoredCheckpoint
from tensoraudit.report import resumable
from tensoraudit.report.plain import plain


def stored_data(stored: StoredCheckpoint) -> dict[str, Any]:
    """Return a checkpoint without its tensors."""
    return {
        "path": stored.path.as_posix(),
        "format": stored.format,
        "framework": stored.framework,
        "writer": stored.writer,
        "files": list(stored.files),
        "totals": totals(stored),
        "training": plain(asdict(stored.training)),
        "resume": parts_of_resume(stored),
        "imports": list(stored.imports),
        "metadata": plain(stored.metadata),
        "observations": [observation(each) for each in stored.observations],
    }


def tensor_rows(stored: StoredCheckpoint) -> Iterator[dict[str, Any]]:
    """Yield a row for each tensor."""
    return map(_tensor, stored.entries)


def totals(stored: StoredCheckpoint) -> dict[str, Any]:
    """Return the numbers of tensors, elements (tied ones once) and bytes, and the bytes of each dtype and group."""
    dtypes: dict[str, int] = {}
    groups: dict[str, int] = {}
    for entry in stored.entries:
        size = entry.stored_bytes
        dtypes[entry.dtype] = dtypes.get(entry.dtype, 0) + size
        groups[entry.group] = groups.get(entry.group, 0) + size
    return {
        "tensors": len(stored.entries),
        "elements": sum(entry.numel for entry in stored.entries if not entry.same_as),
        "bytes": sum(groups.values()),
        "bytes_by_dtype": dtypes,
        "bytes_by_group": groups,
        "tied": sum(1 for entry in stored.entries if entry.same_as),
    }


def parts_of_resume(stored: StoredCheckpoint) -> dict[str, Any]:
    """Return what a resume finds, in words, and what is missing for it."""
    found = {name: text for name, text in resumable.parts(stored).items() if text}
    return {"there": found, "missing": resumable.missing(stored)}


def observation(each: Observation) -> dict[str, Any]:
    """Return one observation."""
    return {
        "kind": each.kind,
        "subject": each.subject,
        "value": plain(each.value),
        "message": each.message,
        "file": each.file,
    }


def _tensor(entry: Entry) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": entry.full_name,
        "group": entry.group,
        "dtype": entry.dtype,
        "shape": list(entry.shape),
        "bytes": entry.stored_bytes,
    }
    row |= {key: value for key in ("axes", "same_as", "alias") if (value := getattr(entry, key))}
    if len(entry.parts) == 1:
        return row | {key: value for key, value in _part(entry.parts[0]) if key != "bytes"}
    return row | {"parts": [dict(_part(part)) for part in entry.parts]}


def _part(part: Part) -> Iterator[tuple[str, Any]]:
    """Yield what is known of a piece."""
    yield "file", part.file
    yield "offset", part.offset
    yield "bytes", part.bytes
    for key in ("start", "shape", "stride"):
        if value := getattr(part, key):
            yield f"part_{key}", list(value)
    if part.rank is not None:
        yield "rank", part.rank
    if part.codec:
        yield "codec", part.codec


def diff_data(diff: CheckpointDiff) -> dict[str, Any]:
    """Return a comparison without its pairs: both checkpoints, and how many pairs there are of each status."""
    counts: dict[str, int] = {}
    for pair in diff.pairs:
        counts[pair.status] = counts.get(pair.status, 0) + 1
    return {
        "reference": stored_data(diff.reference),
        "candidate": stored_data(diff.candidate),
        "counts": counts,
        "prefixes": [{"reference": ours, "candidate": theirs} for ours, theirs in diff.prefixes],
        "training": [observation(each) for each in diff.optimizer],
    }


def pair_rows(diff: CheckpointDiff) -> Iterator[dict[str, Any]]:
    """Yield a row for each pair."""
    return map(_pair, diff.pairs)


def _pair(pair: PairedTensor) -> dict[str, Any]:
    row: dict[str, Any] = {
        "reference": pair.reference,
        "candidate": pair.candidate,
        "status": pair.status,
        "by": pair.by,
    }
    row["dtypes"], row["shapes"] = list(pair.dtypes), [list(shape) for shape in pair.shapes]
    told = {
        "permutation": list(pair.permutation),
        "loss": plain(pair.loss),
        "verdict": pair.verdict,
        "sha256": list(pair.digests) if any(pair.digests) else [],
        "note": pair.note,
    }
    row |= {key: value for key, value in told.items() if value}
    return row if pair.linf is None else {**row, "linf": plain(pair.linf)}
