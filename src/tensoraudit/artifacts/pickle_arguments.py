"""How the argument of each opcode of a pickle is read: the table of steps, one for each byte that may stand there.

The opcodes that make up nearly all of a pickle have steps of their own; pickletools reads the arguments of the others.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from typing import Final

from tensoraudit.artifacts.pickle_machine import Machine
from tensoraudit.artifacts.pickle_opcodes import EFFECTS, Effect

Step = Callable[[Machine, int], int]
"""Executes an opcode: takes the position of its argument and returns that of the next opcode."""

_LONG: Final = struct.Struct("<I")


def _without_argument(effect: Effect) -> Step:
    def step(machine: Machine, at: int) -> int:
        effect(machine, None)
        return at

    return step


def _careful(opcode: pickletools.OpcodeInfo) -> Step:
    """The step of an opcode whose argument pickletools reads: text lines, old numbers, long integers."""
    effect = EFFECTS.get(opcode.name, Machine.push)
    argument = opcode.arg
    if argument is None:
        return _without_argument(effect)

    def step(machine: Machine, at: int) -> int:
        machine.stream.at = at
        effect(machine, argument.reader(machine.stream))  # type: ignore[arg-type]
        return machine.stream.at

    return step


def _number(layout: str) -> Step:
    """A step that pushes one number of fixed width."""
    read, width = struct.Struct(layout).unpack_from, struct.calcsize(layout)

    def step(machine: Machine, at: int) -> int:
        machine.stack.append(read(machine.view, at)[0])
        return at + width

    return step


def _text(layout: str) -> Step:
    """A step that pushes text behind its length in bytes."""
    read, width = struct.Struct(layout).unpack_from, struct.calcsize(layout)

    def step(machine: Machine, at: int) -> int:
        first = at + width
        end: int = first + read(machine.view, at)[0]
        if end > len(machine.view):
            raise ValueError("text that is cut short")
        machine.stack.append(str(machine.view[first:end], "utf-8", "surrogatepass"))
        return end

    return step


def _push_byte(machine: Machine, at: int) -> int:
    machine.stack.append(machine.view[at])
    return at + 1


# the memo: what picklers write is done here, without a call; the machine knows the rest


def _put_byte(machine: Machine, at: int) -> int:
    key, memo = machine.view[at], machine.memo
    if key == len(memo) and not machine.scattered:
        memo.append(machine.stack[-1])
    else:
        machine.put(key)
    return at + 1


def _put_long(machine: Machine, at: int) -> int:
    key, memo = _LONG.unpack_from(machine.view, at)[0], machine.memo
    if key == len(memo) and not machine.scattered:
        memo.append(machine.stack[-1])
    else:
        machine.put(key)
    return at + 4


def _memoize(machine: Machine, at: int) -> int:
    if machine.fetched is None and not machine.scattered:
        machine.memo.append(machine.stack[-1])
    else:
        machine.memoize()
    return at


def _get_byte(machine: Machine, at: int) -> int:
    key, memo = machine.view[at], machine.memo
    machine.stack.append(memo[key] if key < len(memo) else machine.scattered[key])
    return at + 1


def _get_long(machine: Machine, at: int) -> int:
    key, memo = _LONG.unpack_from(machine.view, at)[0], machine.memo
    machine.stack.append(memo[key] if key < len(memo) else machine.scattered[key])
    return at + 4


def _unknown(machine: Machine, at: int) -> int:
    raise ValueError(f"byte {machine.view[at - 1]:#x} is no opcode")


_OWN: Final[dict[str, Step]] = {
    "q": _put_byte, "r": _put_long, "\x94": _memoize, "h": _get_byte, "j": _get_long,
    "K": _push_byte, "M": _number("<H"), "J": _number("<i"), "G": _number(">d"),
    "X": _text("<I"), "\x8c": _text("<B"), "\x8d": _text("<Q"),
}  # fmt: skip


def _steps() -> list[Step]:
    steps: list[Step] = [_unknown] * 256
    for opcode in pickletools.opcodes:
        steps[ord(opcode.code)] = _careful(opcode)
    for code, step in _OWN.items():
        steps[ord(code)] = step
    return steps


STEPS: Final = _steps()
"""The step of each byte."""
