"""Pickle read as data: the opcodes are interpreted, and nothing that they name is imported or called.

A pickle is a program. `pickle.load` runs it; this interpreter only notes what it would do: a global becomes a `Global`,
a call becomes a `Call` that holds the callee and the arguments, a persistent id a `Persistent`. Whichever opcode names
a global, it is noted in `Wishes`, so the list of what the pickle wants to import is complete. A name that the pickle
computes (no constant string on the stack) is "?".

Bounds: `MAX_OPCODES` per pickle, `MAX_BLOCKS` and `MAX_STACK` of what they have built, argument sizes by the bytes that
are there; nothing is ever copied by DUP or a memo reference (shared nodes may form cycles: whoever walks the result
must bound the walk).
"""

from __future__ import annotations

import gc
import struct
import sys
import warnings
from collections.abc import Callable
from typing import Any, Final

from tensoraudit.artifacts.pickle_arguments import STEPS
from tensoraudit.artifacts.pickle_machine import SMALLER, Machine
from tensoraudit.artifacts.pickle_nodes import Call, Wishes
from tensoraudit.artifacts.pickle_stream import BrokenPickleError, Stream
from tensoraudit.errors import InputError

MAX_OPCODES: Final = 4_000_000
"""About 3 s. A checkpoint takes some 32 opcodes per tensor, a pickled module 100 per layer."""
MAX_BLOCKS: Final = 8_000_000
"""Blocks of memory at one time: 700 MB at worst, and long texts beside. Honest pickles take at most 1.4 per opcode."""
MAX_STACK: Final = 4_000_000
"""Values on the stack, from which one opcode may build 200 MB. Picklers put them away by the thousand."""

_BROKEN = (ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error, EOFError, MemoryError)
_STOP: Final = ord(".")
_STRIDE: Final = 1 << 18
"""Opcodes from one look at the memory to the next: a look takes a millisecond, and they some 30 MB at worst."""


def interpret(
    stream: Stream, wishes: Wishes, most: int | None = None, built: Callable[[Call], None] | None = None
) -> Any:
    """Return the root object of the pickle at the stream's position, and leave the stream behind it.

    Adds to `wishes` what the pickle wants. `built` is called with every call that has got its state, and may put
    something smaller in its place; what the pickle cannot fetch again is then forgotten at once. Raises
    BrokenPickleError for bytes that are no whole pickle, and InputError for one that is too large to be read: of more
    than `most` opcodes (MAX_OPCODES by default), or of more objects than memory is given for.
    """
    most = MAX_OPCODES if most is None else most
    collecting = gc.isenabled()
    gc.disable()  # a million small objects that all stay: looking for cycles among them takes longer than making them
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about escapes in the text of protocol 0
            return _run(Machine(wishes, stream, most, built), most)
    except _BROKEN as error:
        raise BrokenPickleError(f"{type(error).__name__}: {error}") from error
    finally:
        if collecting:
            gc.enable()


def _run(machine: Machine, most: int) -> Any:
    """Execute opcodes up to STOP, and return what it leaves on the stack."""
    before = sys.getallocatedblocks()
    for done in range(0, most, _STRIDE):
        if _advance(machine, min(_STRIDE, most - done)):
            return machine.stack.pop()
        if sys.getallocatedblocks() - before > MAX_BLOCKS or len(machine.stack) > MAX_STACK:
            raise InputError("holds a pickle that builds too many objects", remedy=SMALLER)
    raise InputError(f"holds a pickle of more than {most:,} instructions", remedy=SMALLER)


def _advance(machine: Machine, count: int) -> bool:
    """Execute so many opcodes; tell whether the last of them is STOP."""
    view, at, steps = machine.view, machine.stream.at, STEPS
    for _ in range(count):
        if at >= len(view):
            raise ValueError(machine.stream.end_of(view))
        code = view[at]
        at = steps[code](machine, at + 1)
        if code == _STOP:
            machine.stream.at = at
            return True
    machine.stream.at = at
    return False
