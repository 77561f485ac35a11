"""Which entries of its memo a pickle may fetch, told from its bytes before any opcode is executed.

An opcode that fetches stands in front of its key, so every such byte with a key behind it is taken for one: a superset.
What is no part of it need not be kept, which is most of what a pickler puts into the memo.
"""

from __future__ import annotations

import re
from typing import Final

_ONE_BYTE: Final = 256
"""Keys below are all kept: BINGET takes them in a byte that follows too many others by chance."""
_LONG_BINGET: Final = ord("j")
_GET: Final = re.compile(rb"g(\d{1,10})\n")
_MOST_GETS: Final = 1_000_000
_BLOCK: Final = 1 << 20


def fetched(view: memoryview, most: int) -> bytearray | None:
    """Return a flag for each key that MEMOIZE may give in these bytes or in `most` opcodes: whether anything fetches
    it. Return None where too many texts look like keys to tell in a short time."""
    flags = bytearray(min(most, len(view)))
    flags[:_ONE_BYTE] = b"\1" * min(_ONE_BYTE, len(flags))
    for number, found in enumerate(_GET.finditer(view)):
        if number == _MOST_GETS:
            return None
        key = int(found[1])
        if key < len(flags):
            flags[key] = True
    _flag_long(view, flags)
    return flags


def _flag_long(view: memoryview, flags: bytearray) -> None:
    import numpy as np  # here, since most pickles are read without it and starting it takes a tenth of a second

    data, flag = np.frombuffer(view, np.uint8), np.frombuffer(flags, np.bool_)
    for first in range(0, len(data) - 4, _BLOCK):
        block = data[first : first + _BLOCK + 4]
        at = np.flatnonzero(block[:-4] == _LONG_BINGET)
        keys = np.zeros(len(at), np.uint32)
        for byte in range(4):
            keys |= block[at + 1 + byte].astype(np.uint32) << np.uint32(8 * byte)
        flag[keys[keys < len(flag)]] = True
