"""Exact distance between floats in units in the last place: how many floats lie from one to the other.

The bits of a non-negative float, read as an integer, count the floats from zero upwards; those of a negative float
count them downwards once the sign is taken off. So floats in order get integer keys in order, +0 and -0 share the
key 0, and the distance is a difference of integers. (Goldberg, "What every computer scientist should know about
floating-point arithmetic", 1991; Dawson, "Comparing floating point numbers", 2012.)
"""

from __future__ import annotations

import numpy as np

from tensoraudit.equivalence.blocks import BLOCK, Array


class UlpKeys:
    """Distances for floats of one width (2, 4 or 8 bytes) in blocks of at most `BLOCK` finite values; owns its
    buffers."""

    def __init__(self, itemsize: int) -> None:
        self.signed, self.unsigned = np.dtype(f"i{itemsize}"), np.dtype(f"u{itemsize}")
        self._shift = self.signed.type(8 * itemsize - 1)
        self._magnitude = self.signed.type(np.iinfo(self.signed).max)
        self._left, self._right, self._spare = (np.empty(BLOCK, self.signed) for _ in range(3))

    def compare(self, x: Array, y: Array) -> tuple[bool, int, int]:
        """Return whether all bits are equal, how many values differ (+0 equals -0) and the largest distance.

        With NaN or Inf among the values only the first of the three means anything.
        """
        bits_x, bits_y = x.view(self.signed), y.view(self.signed)
        mixed = np.bitwise_xor(bits_x, bits_y, out=self._left[: x.size])
        differing = int(np.count_nonzero(mixed))
        if not differing:
            return True, 0, 0
        if mixed[mixed.argmin()] < 0:
            distance = self.distances(x, y)
            return False, int(np.count_nonzero(distance)), int(distance[distance.argmax()])
        # No pair of opposite signs: the keys differ as the bits do, up to a sign, and cannot overflow.
        gap = np.subtract(bits_x, bits_y, out=self._right[: x.size])
        return False, differing, max(int(gap[gap.argmax()]), -int(gap[gap.argmin()]))

    def distances(self, x: Array, y: Array) -> Array:
        """Return the distance of each pair, unsigned; the next call overwrites it."""
        left, right = self._key(x, self._left[: x.size]), self._key(y, self._right[: x.size])
        larger = np.maximum(left, right, out=self._spare[: x.size])
        smaller = np.minimum(left, right, out=left)
        # The span may exceed the signed range; read as unsigned the difference is exact.
        result: Array = right.view(self.unsigned)
        np.subtract(larger.view(self.unsigned), smaller.view(self.unsigned), out=result)
        return result

    def _key(self, values: Array, out: Array) -> Array:
        bits, sign = values.view(self.signed), self._spare[: values.size]
        np.right_shift(bits, self._shift, out=sign)
        np.bitwise_and(sign, self._magnitude, out=out)
        np.bitwise_xor(out, bits, out=out)
        np.subtract(out, sign, out=out)
        return out
