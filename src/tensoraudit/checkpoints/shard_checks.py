"""Whether files that together hold a model's weights are all there, and agree with the index that lists them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from tensoraudit.checkpoints.schema import Entry, Observation
from tensoraudit.checkpoints.shards import Shard

_NUMBERED: Final = re.compile(r"(.*?)-(\d{1,9})-of-(\d{1,9})(\.[A-Za-z0-9]+)")
_TIED_NAMES: Final = ("embed", "wte", "shared", "lm_head", "head", "decoder.weight", "output.weight", "word_embeddings")
"""What tied weights are called: only these may explain that an index counts a tensor twice."""
_MOST: Final = 1000


class Number(NamedTuple):
    """What a name like `model-00002-of-00005.safetensors` says; `width` is how many digits it writes."""

    stem: str
    number: int
    total: int
    suffix: str
    width: int

    def name(self, number: int) -> str:
        """Return the name of the file with another number."""
        return f"{self.stem}-{number:0{self.width}}-of-{self.total:0{self.width}}{self.suffix}"


def number_of(file: str) -> Number | None:
    """Return what the name of a numbered file says, None for another name."""
    match = _NUMBERED.fullmatch(file)
    if match is None:
        return None
    stem, number, count, suffix = match.groups()
    return Number(stem, int(number), int(count), suffix, len(number))


def check_numbers(files: Iterable[str]) -> Iterator[Observation]:
    """Yield which numbers of a series of numbered files are missing, and whether there are series of several lengths.

    `files` are those that are named or there.
    """
    series: dict[tuple[str, str], dict[int, dict[int, Number]]] = {}
    for file in files:
        found = number_of(file)
        if found is not None:
            lengths = series.setdefault((found.stem, found.suffix), {})
            lengths.setdefault(found.total, {})[found.number] = found
    for (stem, suffix), lengths in series.items():
        if len(lengths) > 1:
            counts = sorted(lengths)[:_MOST]
            message = f"Files of {stem!r} belong to saves in {', '.join(map(str, counts[:10]))} pieces: they do not mix"
            yield Observation("shards_mixed", f"{stem}*{suffix}", counts, message)
        for numbers in lengths.values():
            yield from _missing_numbers(numbers)


def _missing_numbers(numbers: Mapping[int, Number]) -> Iterator[Observation]:
    one = next(iter(numbers.values()))
    first = 0 if 0 in numbers else 1
    wanted = range(first, first + one.total)
    for number in islice((number for number in wanted if number not in numbers), _MOST):
        file = one.name(number)
        message = f"{file} is not there, of {one.total:,} numbered files {len(numbers):,} are"
        yield Observation("file_missing", file, {"number": number, "count": one.total}, message, file)


def check_unlisted(named: Iterable[str], there: Iterable[str]) -> Iterator[Observation]:
    """Yield the numbered files in the folder that belong to a series of the index and that it does not name."""
    known = set(named)
    stems = {(found.stem, found.suffix) for found in map(number_of, known) if found is not None}
    for file in islice(there, _MOST):
        found = number_of(file)
        if file not in known and found is not None and (found.stem, found.suffix) in stems:
            message = f"{file} looks like a shard of this checkpoint, and the index does not name it"
            yield Observation("file_unlisted", file, found.total, message, file)


def places_of(shards: Iterable[Shard]) -> dict[str, str]:
    """Return which file holds each tensor, the last one where it stands in several."""
    return {full_name(entry): shard.file for shard in shards for entry in shard.entries}


def check_twice(shards: Sequence[Shard], found: Mapping[str, str]) -> Iterator[Observation]:
    """Yield each tensor that stands in several files; `found` are the places of all."""
    if len(found) == sum(len(shard.entries) for shard in shards):
        return
    first: dict[str, str] = {}
    pairs = ((full_name(entry), shard.file) for shard in shards for entry in shard.entries)
    again = ((name, first[name], file) for name, file in pairs if first.setdefault(name, file) != file)
    for name, other, file in islice(again, _MOST):
        yield Observation("tensor_twice", name, [other, file], f"{name!r} stands in {other} and in {file}", file)


def check_index(shards: Sequence[Shard], found: Mapping[str, str], places: Mapping[str, str]) -> Iterator[Observation]:
    """Yield where the index and the headers of the files that could be read disagree about which tensor is where."""
    if found == places:
        return
    held = {shard.file: {full_name(entry) for entry in shard.entries} for shard in shards}
    missing = ((name, file) for name, file in places.items() if file in held and name not in held[file])
    for name, file in islice(missing, _MOST):
        other = found.get(name)
        instead = f"; it stands in {other}" if other else ""
        message = f"The index says that {name!r} is in {file}, which does not hold it{instead}"
        yield Observation("tensor_missing", name, {"file": file, "found_in": other}, message, file)
    for name, file in islice(((name, file) for name, file in found.items() if name not in places), _MOST):
        message = f"{file} holds {name!r}, which the index does not name"
        yield Observation("tensor_unlisted", name, file, message, file)


def check_total(entries: Sequence[Entry], stated: Any) -> Iterator[Observation]:
    """Yield whether the index states another total size, in bytes, than the tensors have.

    A tied weight may be counted under both its names or under one; so the size of one tensor whose name is that of an
    embedding or a head may be too much or too little.
    """
    if isinstance(stated, bool) or not isinstance(stated, int | float):
        return
    total = sum(part.bytes for entry in entries if not entry.same_as for part in entry.parts)
    tied = (entry.stored_bytes for entry in entries if any(part in entry.name for part in _TIED_NAMES))
    if total != stated and abs(stated - total) not in set(tied):
        message = f"The index states {stated:,} bytes of tensors, the files hold {total:,}"
        yield Observation("size_mismatch", "checkpoint", {"stated": stated, "found": total}, message)


def full_name(entry: Entry) -> str:
    """Return `entry.full_name`, without joining where there is nothing to join: it is asked for 100,000 entries."""
    return entry.full_name if entry.path else entry.name
