"""Whether one side of a cast is the other one, rounded to nearest even: fast where it is, exactly where it may not be.

The fast way leaves the rounding to the processor, which rounds every sum to nearest even. For a value of exponent `e`
the sum with `1.5 * 2**(e + 24 - digits)` has just `digits` digits left for the value; what is taken off again is the
value, rounded. Integers would need fewer passes over memory, but a second look at ties, NaN and subnormal numbers.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tensoraudit.checkpoints.element_types import Array, ElementType, element_type, narrow
from tensoraudit.checkpoints.precision import float_form, narrows
from tensoraudit.checkpoints.workspace import STEP, Workspace
from tensoraudit.equivalence.gaps import agree

_EXPONENT: Final = np.array(0x7F800000, np.uint32)
_DIGITS: Final = 24
_LEAST: Final = -126
"""Bits of the exponent in float32, its digits, and the exponent of its smallest normal number."""

Pair = tuple[Array, Array]


class Rounding:
    """Compares parts of two tensors. Of the workspace it uses rows 0 and 1, and needs nothing of it after a call."""

    def __init__(self, types: tuple[ElementType, ElementType], workspace: Workspace) -> None:
        self._complex = _only_complex(types)
        if self._complex is not None:
            types = _with_parts(types, self._complex)
        names = types[0].name, types[1].name
        self._types, self._side = types, 1 if narrows(*names) else 0
        if _holds_integers(types[self._side]) and not _holds_integers(types[1 - self._side]):
            self._side = 1 - self._side  # no float is rounded to an integer here, but integers are to floats
        self._name = names[self._side]
        is_fast = names[1 - self._side] == "float32" and self._name in ("bfloat16", "float16")
        self._nearest = _Nearest(self._name, workspace) if is_fast else None

    @property
    def is_known(self) -> bool:
        """Whether values can be rounded to the narrower type here; if not, `holds` is always true."""
        return narrow(np.empty(0, np.float32), self._name) is not None

    def holds(self, words: Pair, values: Pair) -> bool:
        """Tell whether a part is rounded. `values` are its numbers. NaN becomes NaN, the sign of 0 does not count.

        Of float64 each element may be rounded at once, as numpy does, or to float32 first: torch, TensorFlow and JAX do
        so, which is another number where that falls on the middle between two. Of a complex side beside a real one
        the real parts are rounded, and there may be no imaginary ones.
        """
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if self._complex is None:
                return self._holds(words, values)
            # A NaN is something too.
            return not values[self._complex].imag.any() and self._holds(_real_parts(words), _real_parts(values))

    def _holds(self, words: Pair, values: Pair) -> bool:
        wide, found = 1 - self._side, self._side
        if self._nearest is not None and self._nearest.explains(values[wide], values[found]):
            return True
        numbers = self._types[wide].widen(words[wide])
        rounded = narrow(numbers, self._name)
        if rounded is None or np.array_equal(rounded, words[found]):
            return True
        explained = self._same(rounded, words[found])
        if numbers.dtype == np.float64:
            twice = narrow(numbers.astype(np.float32), self._name)
            explained |= twice is not None and self._same(twice, words[found])
        return bool(explained.all())

    def _same(self, one: Array, other: Array) -> Array:
        a, b = (self._types[self._side].widen(words) for words in (one, other))
        return agree(a, b, 0.0)


def _holds_integers(kind: ElementType) -> bool:
    return bool(kind.widen(np.zeros(1, kind.word)).dtype.kind in "iu")


def _only_complex(types: tuple[ElementType, ElementType]) -> int | None:
    """The side that is complex where the other is not."""
    found = [side for side, each in enumerate(types) if each.word.kind == "c"]
    return found[0] if len(found) == 1 else None


def _with_parts(types: tuple[ElementType, ElementType], side: int) -> tuple[ElementType, ElementType]:
    part = element_type(types[side].word.newbyteorder("=").type(0).real.dtype.name)
    assert part is not None
    return (part, types[1]) if side == 0 else (types[0], part)


def _real_parts(sides: Pair) -> Pair:
    return np.ascontiguousarray(sides[0].real), np.ascontiguousarray(sides[1].real)


class _Nearest:
    """Rounds float32 to the digits of a narrower float."""

    def __init__(self, name: str, workspace: Workspace) -> None:
        exponent_bits, digits = float_form(name)
        least = 2 - (1 << (exponent_bits - 1))
        lift = 1.5 * 2.0 ** (_DIGITS - digits)
        self._workspace = workspace
        self._lift = np.array(lift, np.float32)
        # A whole array: numpy takes eight times as long for the larger one of an array and a single number.
        self._smallest = np.full(STEP, lift * 2.0**least, np.float32) if least > _LEAST else None

    def explains(self, wide: Array, found: Array) -> bool:
        """Tell whether `found`, widened, is `wide` rounded. False also where it cannot say so.

        That is where a number overflows, is not finite, or is subnormal in float32.
        """
        lifted, total = (self._workspace.row(number, wide.size, np.float32) for number in (0, 1))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            np.bitwise_and(wide.view(np.uint32), _EXPONENT, out=lifted.view(np.uint32))
            np.multiply(lifted, self._lift, out=lifted)
            if self._smallest is not None:  # below it there are fewer digits: subnormal numbers
                np.maximum(lifted, self._smallest[: wide.size], out=lifted)
            np.add(wide, lifted, out=total)
            np.subtract(total, lifted, out=total)
            same = np.equal(total, found, out=self._workspace.row(0, wide.size, np.bool_))
        return bool(same.all())
