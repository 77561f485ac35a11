"""What each opcode of a pickle does to the machine. Whichever opcode names a global, `Machine.find` notes it."""

from __future__ import annotations

from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Callable, Iterator
from typing import Any, Final

from tensoraudit.artifacts.pickle_machine import Machine
from tensoraudit.artifacts.pickle_nodes import NOTHING, Call, Items, Opaque, Pairs

Effect = Callable[[Machine, Any], object]
"""What an opcode does, given its argument (None where it has none)."""


def _paired(values: list[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(values[::2], values[1::2], strict=True)


def _python3_name(argument: str) -> str:
    """Return the dotted name that is imported: pickles up to protocol 2, which torch writes, have the names of Python
    2, and whoever loads them, and says what was refused, has those of Python 3."""
    module, _, name = argument.partition(" ")
    module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
    return f"{module}.{name}"


def _global(machine: Machine, argument: str) -> None:
    machine.push(machine.find(_python3_name(argument)))


def _stack_global(machine: Machine, _: Any) -> None:
    name, module = machine.pop(), machine.pop()
    constant = isinstance(name, str) and isinstance(module, str)
    machine.push(machine.find(f"{module}.{name}" if constant else "?"))


def _extension(machine: Machine, _: Any) -> None:
    machine.push(machine.find("?"))  # copyreg's registry decides at run time what an extension code means


def _inst(machine: Machine, argument: str) -> None:
    machine.push(Call(machine.find(_python3_name(argument)), machine.pop_mark()))


def _obj(machine: Machine, _: Any) -> None:
    callee, *arguments = machine.pop_mark()
    machine.push(Call(callee, arguments))


def _reduce(machine: Machine, _: Any) -> None:
    arguments, callee = machine.pop(), machine.pop()
    machine.push(Call(callee, arguments.values if isinstance(arguments, Items) else [arguments]))


def _newobj_ex(machine: Machine, _: Any) -> None:
    keywords = machine.pop()
    _reduce(machine, None)
    machine.stack[-1].arguments = [*machine.stack[-1].arguments, keywords]


def _build(machine: Machine, _: Any) -> None:
    state = machine.pop()
    if isinstance(machine.stack[-1], Call):
        machine.stack[-1].state = state
        if machine.built is not None:
            machine.built(machine.stack[-1])


def _extend(machine: Machine, values: list[Any]) -> None:
    target = machine.stack[-1]
    if isinstance(target, Call) and target.values is NOTHING:
        target.values = values
    elif isinstance(target, Items | Call):
        target.values.extend(values)


def _set_items(machine: Machine, values: list[Any]) -> None:
    target = machine.stack[-1]
    if isinstance(target, Call) and target.pairs is NOTHING:
        target.pairs = list(_paired(values))
    elif isinstance(target, Pairs | Call):
        target.pairs.extend(_paired(values))


def _set_item(machine: Machine, _: Any) -> None:
    value, key = machine.pop(), machine.pop()
    _set_items(machine, [key, value])


def _append(machine: Machine, _: Any) -> None:
    value = machine.pop()
    _extend(machine, [value])


def _items(kind: str, count: int | None) -> Effect:
    def push(machine: Machine, _: Any) -> None:
        if count is None:
            values = machine.pop_mark()
        else:
            at = len(machine.stack) - count
            if at < 0:
                raise IndexError("stack underflow")
            values = machine.stack[at:]
            del machine.stack[at:]
        machine.push(Items(kind, values))

    return push


def _constant(value: Any) -> Effect:
    return lambda machine, _: machine.push(value)


def _nothing(machine: Machine, _: Any) -> None:
    """Frames and protocol numbers carry no value."""


EFFECTS: Final[dict[str, Effect]] = {
    "PROTO": _nothing, "FRAME": _nothing, "STOP": _nothing, "READONLY_BUFFER": _nothing,
    "NONE": _constant(None), "NEWTRUE": _constant(True), "NEWFALSE": _constant(False),
    "NEXT_BUFFER": lambda machine, _: machine.push(Opaque("an out-of-band buffer")),
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "POP": lambda machine, _: machine.marks.pop() if machine.at_mark() else machine.pop(),
    "POP_MARK": lambda machine, _: machine.pop_mark(),
    "DUP": lambda machine, _: machine.push(machine.stack[-1]),
    "PUT": Machine.put, "BINPUT": Machine.put, "LONG_BINPUT": Machine.put,
    "MEMOIZE": lambda machine, _: machine.memoize(),
    "GET": Machine.get, "BINGET": Machine.get, "LONG_BINGET": Machine.get,
    "EMPTY_TUPLE": _items("tuple", 0), "TUPLE": _items("tuple", None), "TUPLE1": _items("tuple", 1),
    "TUPLE2": _items("tuple", 2), "TUPLE3": _items("tuple", 3),
    "EMPTY_LIST": _items("list", 0), "LIST": _items("list", None),
    "EMPTY_SET": _items("set", 0), "FROZENSET": _items("frozenset", None),
    "EMPTY_DICT": lambda machine, _: machine.push(Pairs([])),
    "DICT": lambda machine, _: machine.push(Pairs(list(_paired(machine.pop_mark())))),
    "APPEND": _append, "SETITEM": _set_item,
    "APPENDS": lambda machine, _: _extend(machine, machine.pop_mark()),
    "ADDITEMS": lambda machine, _: _extend(machine, machine.pop_mark()),
    "SETITEMS": lambda machine, _: _set_items(machine, machine.pop_mark()),
    "GLOBAL": _global, "STACK_GLOBAL": _stack_global, "INST": _inst, "OBJ": _obj,
    "EXT1": _extension, "EXT2": _extension, "EXT4": _extension,
    "REDUCE": _reduce, "NEWOBJ": _reduce, "NEWOBJ_EX": _newobj_ex, "BUILD": _build,
    "PERSID": lambda machine, argument: machine.persist(argument),
    "BINPERSID": lambda machine, _: machine.persist(machine.pop()),
}  # fmt: skip
"""Every opcode that does something; all others push their argument, a constant."""
