"""Pickle read as data: the opcodes are interpreted, and nothing that they name is imported or called.

A pickle is a program. `pickle.load` runs it; this machine only notes what it would do: a global becomes a `Global`, a
call becomes a `Call` that holds the callee and the arguments, a persistent id a `Persistent`. Whichever opcode names a
global, it is noted in `Wishes`, so the list of what the pickle wants to import is complete. A name that the pickle
computes (no constant string on the stack) is "?".

Bounds: `MAX_OPCODES` per pickle, argument sizes by the bytes that are there, nothing is ever copied by DUP or a memo
reference (shared nodes may form cycles: whoever walks the result must bound the walk). Knows nothing of tensors.
"""

from __future__ import annotations

import gc
import pickletools
import re
import struct
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tensoraudit.errors import InputError

MAX_OPCODES: Final = 4_000_000
"""About 3 s and 600 MB at worst. A checkpoint takes some 32 opcodes per tensor, a pickled module 100 per layer."""
MAX_BYTES: Final = 256 << 20
"""Bytes of one stream of pickles; the data of tensors is not part of it."""
MAX_GLOBALS: Final = 10_000
"""Distinct globals; a pickled module of a large model has a few dozen."""

_MAX_LINE: Final = 1 << 16
_USUAL_LINE: Final = 256
_MAX_NAME: Final = 200
_SMALLER: Final = "Save only the state_dict: torch.save(model.state_dict(), path)."
_BROKEN = (ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error, EOFError, MemoryError)


class BrokenPickleError(ValueError):
    """The bytes are no (whole) pickle."""


@dataclass(slots=True, eq=False)
class Global:
    """Something that the pickle wants to import. `name` is dotted, "?" where the pickle computes it."""

    name: str


@dataclass(slots=True, eq=False)
class Items:
    """A tuple, list or set."""

    kind: str
    values: list[Any]


@dataclass(slots=True, eq=False)
class Pairs:
    """A dict, with the pairs in the order in which they are set."""

    pairs: list[tuple[Any, Any]]


_NOTHING: Final[list[Any]] = []
"""What most calls have of pairs and values: one list for all of them, replaced before anything is added."""


@dataclass(slots=True, eq=False)
class Call:
    """What calling `callee` would give, with the state, pairs and values that are put into it afterwards."""

    callee: Any
    arguments: list[Any]
    state: Any = None
    pairs: list[tuple[Any, Any]] = field(default_factory=lambda: _NOTHING)
    values: list[Any] = field(default_factory=lambda: _NOTHING)


@dataclass(slots=True, eq=False)
class Persistent:
    """An object that lives outside the pickle (a storage, for torch)."""

    id: Any


@dataclass(slots=True)
class Wishes:
    """What a pickle wants from outside: globals (dotted, in order; a dict for its order) and persistent objects."""

    globals: dict[str, None] = field(default_factory=dict)
    persistent: list[Persistent] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Opaque:
    """Anything else."""

    what: str


class Stream:
    """The file that pickletools reads: a view with a position, and lines of bounded length."""

    def __init__(self, view: memoryview) -> None:
        self.view, self.at, self._left = view, 0, MAX_BYTES

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer at the end. Raises ValueError once MAX_BYTES have been returned."""
        chunk = bytes(self.view[self.at : self.at + min(size, self._left)])
        self._left -= len(chunk)
        if self._left <= 0:
            raise ValueError(f"more than {MAX_BYTES:,} bytes of pickle")
        self.at += len(chunk)
        return chunk

    def readline(self) -> bytes:
        """Return the bytes up to a line end, without one when it is too far."""
        for length in (_USUAL_LINE, _MAX_LINE):
            chunk = bytes(self.view[self.at : self.at + length])
            end = chunk.find(b"\n")
            if end >= 0:
                break
        line = chunk[: end + 1] or chunk
        self.at += len(line)
        return line

    def tell(self) -> int:
        """Return the position."""
        return self.at


def interpret(
    stream: Stream, wishes: Wishes, most: int | None = None, built: Callable[[Call], None] | None = None
) -> Any:
    """Return the root object of the pickle at the stream's position, and leave the stream behind it.

    Adds to `wishes` what the pickle wants. `built` is called with every call that has got its state, and may put
    something smaller in its place; what the pickle cannot fetch again is then forgotten at once. Raises
    BrokenPickleError for bytes that are no whole pickle, and InputError for one that is too large to be read: of more
    than `most` opcodes (MAX_OPCODES by default).
    """
    most = MAX_OPCODES if most is None else most
    machine = _Machine(wishes, stream, built)
    collecting = gc.isenabled()
    gc.disable()  # a million small objects that all stay: looking for cycles among them takes longer than making them
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about escapes in the text of protocol 0
            return machine.run(most)
    except _BROKEN as error:
        raise BrokenPickleError(f"{type(error).__name__}: {error}") from error
    finally:
        if collecting:
            gc.enable()


class _Machine:
    """The unpickler's stack, marks and memo."""

    def __init__(self, wishes: Wishes, stream: Stream, built: Callable[[Call], None] | None) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.wishes, self.stream, self.built = wishes, stream, built
        self.view = stream.view[: stream.at + MAX_BYTES]
        self.fetched = None if built is None else _fetched(self.view)

    def run(self, most: int) -> Any:
        """Execute opcodes up to STOP. Every step takes the position of its argument and returns that of the next."""
        view, at, steps = self.view, self.stream.at, _STEPS
        for _ in range(most):
            if at >= len(view):
                raise ValueError(_end_of(view, self.stream))
            code = view[at]
            at = steps[code](self, at + 1)
            if code == _STOP:
                self.stream.at = at
                return self.stack.pop()
        raise InputError(f"holds a pickle of more than {most:,} instructions", remedy=_SMALLER)

    def pop(self) -> Any:
        return self.stack.pop()

    def pop_mark(self) -> list[Any]:
        at = self.marks.pop()
        values = self.stack[at:]
        del self.stack[at:]
        return values

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def find(self, name: str) -> Global:
        name = name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}..."
        self.wishes.globals[name] = None
        if len(self.wishes.globals) > MAX_GLOBALS:
            raise InputError(f"holds a pickle of more than {MAX_GLOBALS:,} imports", remedy=_SMALLER)
        return Global(name)

    def persist(self, id_: Any) -> None:
        self.wishes.persistent.append(Persistent(id_))
        self.push(self.wishes.persistent[-1])


_Handler = Callable[[_Machine, Any], object]


def _paired(values: list[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(values[::2], values[1::2], strict=True)


def _global(machine: _Machine, argument: str) -> None:
    module, _, name = argument.partition(" ")
    machine.push(machine.find(f"{module}.{name}"))


def _stack_global(machine: _Machine, _: Any) -> None:
    name, module = machine.pop(), machine.pop()
    constant = isinstance(name, str) and isinstance(module, str)
    machine.push(machine.find(f"{module}.{name}" if constant else "?"))


def _extension(machine: _Machine, _: Any) -> None:
    machine.push(machine.find("?"))  # copyreg's registry decides at run time what an extension code means


def _inst(machine: _Machine, argument: str) -> None:
    module, _, name = argument.partition(" ")
    machine.push(Call(machine.find(f"{module}.{name}"), machine.pop_mark()))


def _obj(machine: _Machine, _: Any) -> None:
    callee, *arguments = machine.pop_mark()
    machine.push(Call(callee, arguments))


def _reduce(machine: _Machine, _: Any) -> None:
    arguments, callee = machine.pop(), machine.pop()
    machine.push(Call(callee, arguments.values if isinstance(arguments, Items) else [arguments]))


def _newobj_ex(machine: _Machine, _: Any) -> None:
    keywords = machine.pop()
    _reduce(machine, None)
    machine.stack[-1].arguments = [*machine.stack[-1].arguments, keywords]


def _build(machine: _Machine, _: Any) -> None:
    state = machine.pop()
    if isinstance(machine.stack[-1], Call):
        machine.stack[-1].state = state
        if machine.built is not None:
            machine.built(machine.stack[-1])


def _extend(machine: _Machine, values: list[Any]) -> None:
    target = machine.stack[-1]
    if isinstance(target, Call) and target.values is _NOTHING:
        target.values = values
    elif isinstance(target, Items | Call):
        target.values.extend(values)


def _set_items(machine: _Machine, values: list[Any]) -> None:
    target = machine.stack[-1]
    if isinstance(target, Call) and target.pairs is _NOTHING:
        target.pairs = list(_paired(values))
    elif isinstance(target, Pairs | Call):
        target.pairs.extend(_paired(values))


def _set_item(machine: _Machine, _: Any) -> None:
    value, key = machine.pop(), machine.pop()
    _set_items(machine, [key, value])


def _append(machine: _Machine, _: Any) -> None:
    value = machine.pop()
    _extend(machine, [value])


def _items(kind: str, count: int | None) -> _Handler:
    def push(machine: _Machine, _: Any) -> None:
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


def _constant(value: Any) -> _Handler:
    return lambda machine, _: machine.push(value)


def _nothing(machine: _Machine, _: Any) -> None:
    """Frames and protocol numbers carry no value."""


def _put(machine: _Machine, argument: int | None) -> None:
    machine.memo[len(machine.memo) if argument is None else argument] = machine.stack[-1]


_HANDLERS: Final[dict[str, _Handler]] = {
    "PROTO": _nothing, "FRAME": _nothing, "STOP": _nothing, "READONLY_BUFFER": _nothing,
    "NONE": _constant(None), "NEWTRUE": _constant(True), "NEWFALSE": _constant(False),
    "NEXT_BUFFER": lambda machine, _: machine.push(Opaque("an out-of-band buffer")),
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "POP": lambda machine, _: machine.pop() if not _at_mark(machine) else machine.marks.pop(),
    "POP_MARK": lambda machine, _: machine.pop_mark(),
    "DUP": lambda machine, _: machine.push(machine.stack[-1]),
    "PUT": _put, "BINPUT": _put, "LONG_BINPUT": _put, "MEMOIZE": _put,
    "GET": lambda machine, key: machine.push(machine.memo[key]),
    "BINGET": lambda machine, key: machine.push(machine.memo[key]),
    "LONG_BINGET": lambda machine, key: machine.push(machine.memo[key]),
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


# from opcodes to steps

_Step = Callable[[_Machine, int], int]
_STOP: Final = 0x2E


def _end_of(view: memoryview, stream: Stream) -> str:
    return f"more than {MAX_BYTES:,} bytes of pickle" if len(view) < len(stream.view) else "no opcode STOP"


def _without_argument(handler: _Handler) -> _Step:
    def step(machine: _Machine, at: int) -> int:
        handler(machine, None)
        return at

    return step


def _careful(opcode: pickletools.OpcodeInfo) -> _Step:
    """The step of an opcode whose argument pickletools reads: text lines, old numbers, long integers."""
    handler = _HANDLERS.get(opcode.name, _Machine.push)
    argument = opcode.arg
    if argument is None:
        return _without_argument(handler)

    def step(machine: _Machine, at: int) -> int:
        machine.stream.at = at
        handler(machine, argument.reader(machine.stream))  # type: ignore[arg-type]
        return machine.stream.at

    return step


def _number(layout: str, handler: _Handler) -> _Step:
    """A step whose argument is one number of fixed width."""
    read, width = struct.Struct(layout).unpack_from, struct.calcsize(layout)

    def step(machine: _Machine, at: int) -> int:
        handler(machine, read(machine.view, at)[0])
        return at + width

    return step


def _text(layout: str) -> _Step:
    """A step that pushes text behind its length in bytes."""
    read, width = struct.Struct(layout).unpack_from, struct.calcsize(layout)

    def step(machine: _Machine, at: int) -> int:
        first = at + width
        end: int = first + read(machine.view, at)[0]
        if end > len(machine.view):
            raise ValueError("text that is cut short")
        machine.stack.append(str(machine.view[first:end], "utf-8", "surrogatepass"))
        return end

    return step


def _put_byte(machine: _Machine, at: int) -> int:
    machine.memo[machine.view[at]] = machine.stack[-1]
    return at + 1


def _get_byte(machine: _Machine, at: int) -> int:
    machine.stack.append(machine.memo[machine.view[at]])
    return at + 1


def _push_byte(machine: _Machine, at: int) -> int:
    machine.stack.append(machine.view[at])
    return at + 1


def _memoize(machine: _Machine, at: int) -> int:
    key = len(machine.memo)
    kept = machine.fetched is None or key < _ONE_BYTE or key in machine.fetched
    machine.memo[key] = machine.stack[-1] if kept else None
    return at


_ONE_BYTE: Final = 256
_FETCHES: Final = (re.compile(rb"(?=j(.{4}))", re.DOTALL), re.compile(rb"(?=g(\d{1,10})\n)"))


def _fetched(view: memoryview) -> frozenset[int]:
    """The keys of the memo, beyond those of one byte, that any opcode in these bytes may fetch: each stands behind the
    byte of its opcode, wherever that is. A superset, so that nothing is missing that is fetched."""
    long, text = _FETCHES
    keys = {int.from_bytes(found[1], "little") for found in long.finditer(view)}
    return frozenset(keys | {int(found[1]) for found in text.finditer(view)})


def _unknown(machine: _Machine, at: int) -> int:
    raise ValueError(f"byte {machine.view[at - 1]:#x} is no opcode")


def _steps() -> list[_Step]:
    """The step of each byte. Opcodes that make up nearly all of a pickle read their argument without pickletools."""
    steps: list[_Step] = [_unknown] * 256
    for opcode in pickletools.opcodes:
        steps[ord(opcode.code)] = _careful(opcode)
    own: dict[str, _Step] = {
        "q": _put_byte, "r": _number("<I", _put), "\x94": _memoize, "h": _get_byte,
        "j": _number("<I", lambda machine, key: machine.push(machine.memo[key])),
        "K": _push_byte, "M": _number("<H", _Machine.push), "J": _number("<i", _Machine.push),
        "G": _number(">d", _Machine.push), "X": _text("<I"), "\x8c": _text("<B"), "\x8d": _text("<Q"),
    }  # fmt: skip
    for code, step in own.items():
        steps[ord(code)] = step
    return steps


_STEPS: Final = _steps()


def _at_mark(machine: _Machine) -> bool:
    return bool(machine.marks) and machine.marks[-1] == len(machine.stack)
