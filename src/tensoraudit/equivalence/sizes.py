"""Sizes for dynamic dimensions at which a frozen value, a swapped axis or a wrong reshape shows.

Sizes are distinct primes: with two equal sizes, or one a multiple of another, a wrong transpose or reshape often fits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import count

_BATCH_NAMES = frozenset({"batch", "batch_size", "bs", "b", "n"})


def is_batch(name: str, axis: int | None = None) -> bool:
    """Tell whether a dynamic dimension is the batch: by its name, or as first axis without a proper name ("?")."""
    return name.lower() in _BATCH_NAMES or "batch" in name.lower() or (axis == 0 and not name.isidentifier())


def size_plan(dims: Sequence[str], taken: Collection[int] = ()) -> tuple[dict[str, int], ...]:
    """Return sets of sizes for the dynamic dimensions, to be tried in order.

    Batch dimensions take 2, 1 and 5 (an odd one); every other dimension takes two lengths. All lengths are distinct
    primes from 7 on and avoid `taken`, the fixed sizes of the signature. Without dynamic dimensions there is one
    empty set.
    """
    others = [dim for dim in dims if not is_batch(dim)]
    primes = (p for p in _primes(7) if p not in taken)
    first = {dim: next(primes) for dim in others}
    second = {dim: next(primes) for dim in others}
    batches = [{dim: size for dim in dims if is_batch(dim)} for size in (2, 1, 5)]
    if not dims:
        return ({},)
    if not others:
        return tuple(batches)
    if not batches[0]:
        return (first, second)
    return ({**batches[0], **first}, {**batches[1], **second}, {**batches[2], **first})


def other_sizes(size: int) -> tuple[int, ...]:
    """Return sizes to try instead of a sample's own, most telling first, for the reference to accept or refuse.

    The next prime, the prime before it, then sizes that models with strides accept: plus 32, double, half.
    """
    above = next(p for p in _primes(size + 1))
    below = next((p for p in range(size - 1, 1, -1) if _is_prime(p)), None)
    tried = (above, below, size + 32, size * 2, size // 2 if size % 2 == 0 else None)
    return tuple(dict.fromkeys(s for s in tried if s and s != size))


def _primes(start: int) -> Iterator[int]:
    return (n for n in count(max(2, start)) if _is_prime(n))


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))
