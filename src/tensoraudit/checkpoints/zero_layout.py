"""Where DeepSpeed's ZeRO put each parameter within the flat vectors of its ranks.

1. Stages 1 and 2 concatenate the parameters of a group, in order, with the alignment padding that is stored beside
   them, and give each rank one range of the whole. The last ranges are stored without their padding.
2. Stage 3 cuts each parameter by itself into as many equal pieces as there are ranks, the last ones padded; a rank
   concatenates its pieces of all parameters, in one vector or several (sub-groups).

Counts are elements. Nothing is known here of files or pickles.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import NamedTuple

from tensoraudit.artifacts.pickles import item_bytes
from tensoraudit.checkpoints.schema import Part
from tensoraudit.checkpoints.tiling import boxes_of_range

Shapes = Mapping[str, tuple[int, ...]]


class Flat(NamedTuple):
    """A stored flat vector of one rank; `offset` in bytes, None where its bytes cannot be reached."""

    file: str
    offset: int | None
    numel: int
    dtype: str
    rank: int
    codec: str = ""


class Piece(NamedTuple):
    """Elements `first` to `first + length` of a vector, which are those of a parameter from `at` on."""

    flat: Flat
    first: int
    length: int
    at: int


def cut_of_groups(
    groups: Sequence[Shapes], vectors: Sequence[Sequence[Flat]], paddings: Sequence[Sequence[int]]
) -> Iterator[tuple[str, list[Piece]]]:
    """Yield each parameter's pieces under stages 1 and 2; `vectors` has one row per rank, one vector per group."""
    for index, group in enumerate(groups):
        whole = _Line([row[index] for row in vectors if index < len(row)])
        at = 0
        for number, (name, shape) in enumerate(group.items()):
            count = prod(shape)
            yield name, list(whole.pieces(at, count))
            extra = paddings[index] if index < len(paddings) else ()
            at += count + (extra[number] if number < len(extra) else 0)


def cut_of_parameters(groups: Sequence[Shapes], vectors: Sequence[Sequence[Flat]]) -> Iterator[tuple[str, list[Piece]]]:
    """Yield each parameter's pieces under stage 3; `vectors` has one row per rank, one vector per sub-group."""
    lines, at = [_Line(row) for row in vectors], 0
    for group in groups:
        for name, shape in group.items():
            count = prod(shape)
            size = -(-count // len(lines))
            ranges = [(rank * size, max(0, min(size, count - rank * size))) for rank in range(len(lines))]
            rows = zip(lines, ranges, strict=True)
            yield name, [piece for line, (first, length) in rows for piece in line.pieces(at, length, first)]
            at += size


def stored_elements(groups: Sequence[Shapes], ranks: int, stage: int) -> int:
    """Return how many elements all ranks together must have stored, alignment of stages 1 and 2 apart."""
    counts = [prod(shape) for group in groups for shape in group.values()]
    return sum(-(-count // ranks) * ranks for count in counts) if stage == 3 else sum(counts)


def parts_of(shape: tuple[int, ...], pieces: Sequence[Piece]) -> tuple[Part, ...]:
    """Return the parts of a parameter: each range of elements as the boxes that it is made of."""
    return tuple(part for piece in pieces for part in _parts(shape, piece))


def _parts(shape: tuple[int, ...], piece: Piece) -> Iterator[Part]:
    flat, width = piece.flat, item_bytes(piece.flat.dtype)
    for (start, size), before in boxes_of_range(shape, piece.at, piece.length):
        place = None if flat.offset is None else flat.offset + (piece.first + before) * width
        whole = size == shape
        box = ((), ()) if whole else (start, size)
        yield Part(flat.file, place, prod(size) * width, *box, rank=flat.rank, codec=flat.codec)


class _Line:
    """Vectors laid end to end."""

    def __init__(self, flats: Sequence[Flat]) -> None:
        self._flats = flats
        self._ends = list(accumulate(flat.numel for flat in flats))

    def pieces(self, first: int, count: int, at: int = 0) -> Iterator[Piece]:
        """Yield the pieces of a range, as far as there are vectors; `at` is the parameter's element it begins with."""
        index = bisect_right(self._ends, first)
        while count > 0 and index < len(self._flats):
            inside = first - (self._ends[index] - self._flats[index].numel)
            length = min(count, self._flats[index].numel - inside)
            if length:
                yield Piece(self._flats[index], inside, length, at)
            first, count, at, index = first + length, count - length, at + length, index + 1
