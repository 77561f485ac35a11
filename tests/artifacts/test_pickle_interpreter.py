from __future__ import annotations

import collections
import pickle
import queue
from typing import Any

import pytest

from tensoraudit.artifacts import pickle_interpreter, pickle_machine, pickle_stream
from tensoraudit.artifacts.pickle_interpreter import interpret
from tensoraudit.artifacts.pickle_nodes import Call, Global, Items, Opaque, Pairs, Persistent, Wishes
from tensoraudit.artifacts.pickle_stream import BrokenPickleError, Stream
from tensoraudit.errors import InputError


def run(data: bytes) -> tuple[Any, Wishes]:
    wishes = Wishes()
    return interpret(Stream(memoryview(data)), wishes), wishes


def plain(node: Any) -> Any:
    """The Python object that a node of containers and constants stands for."""
    kinds = {"tuple": tuple, "list": list, "set": set, "frozenset": frozenset}
    if isinstance(node, Items):
        return kinds[node.kind](map(plain, node.values))
    if isinstance(node, Pairs):
        return {plain(key): plain(value) for key, value in node.pairs}
    return node


@pytest.mark.parametrize("protocol", range(6))
def test_data_is_read_as_pickle_reads_it(protocol: int) -> None:
    data = {
        "ints": [0, -1, 255, 65536, 2**31, -(2**63), 2**100],
        "floats": (0.1, float("inf"), -0.0),
        "text": ["", "ä", "\n", "x" * 300],
        "nested": {"a": {"b": (1, (2,), (3, 4), (5, 6, 7), (8, 9, 10, 11), ())}},
        "flags": [True, False, None],
    }
    data["again"] = data["ints"]
    if protocol >= 4:
        data |= {"set": {1, 2}, "frozen": frozenset({3}), "bytes": b"\x00\xff"}
    root, wishes = run(pickle.dumps(data, protocol))
    assert plain(root) == data
    assert not wishes.globals


class Thing:
    def __init__(self, size: int = 0) -> None:
        self.size = size


class Slotted(Thing):
    def __reduce__(self) -> Any:
        return (Slotted, (self.size,), {"more": 1}, iter([1, 2]), iter([("k", "v")]))


@pytest.mark.parametrize("protocol", range(6))
def test_imports_have_the_names_under_which_python_3_finds_them(protocol: int) -> None:
    """Up to protocol 2 pickle writes `__builtin__.long`, `copy_reg`, `UserDict.IterableUserDict`, ..."""
    objects = [int, str, range, dict, zip, collections.UserDict, queue.Queue]
    _, wishes = run(pickle.dumps(objects, protocol))
    assert set(wishes.globals) == {f"{each.__module__}.{each.__qualname__}" for each in objects}


@pytest.mark.parametrize("protocol", range(6))
def test_objects_become_calls(protocol: int) -> None:
    root, wishes = run(pickle.dumps(Thing(3), protocol))
    assert isinstance(root, Call)
    assert plain(root.state) == {"size": 3}
    assert f"{__name__}.Thing" in wishes.globals
    root, _ = run(pickle.dumps(Slotted(4), protocol))
    assert isinstance(root, Call) and isinstance(root.callee, Global)
    assert (root.callee.name, root.arguments, root.values, root.pairs) == (
        f"{__name__}.Slotted",
        [4],
        [1, 2],
        [("k", "v")],
    )


def test_ordered_dicts_keep_their_pairs() -> None:
    root, wishes = run(pickle.dumps(collections.OrderedDict(a=1, b=2), 2))
    assert isinstance(root, Call) and root.pairs == [("a", 1), ("b", 2)]
    assert list(wishes.globals) == ["collections.OrderedDict"]


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (b"cos\nsystem\n.", ["os.system"]),
        (b"(S'x'\nios\nsystem\n.", ["os.system"]),
        (b"(cos\nsystem\nX\x01\x00\x00\x00xo.", ["os.system"]),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", ["os.system"]),
        (b"\x80\x04\x8c\x06system\x940\x8c\x02osh\x00\x93.", ["os.system"]),
        (b"\x80\x04\x8c\x02os\x940\x8c\x06system\x940h\x00h\x01\x93.", ["os.system"]),
        (b"\x80\x04\x8c\x02osN\x93.", ["?"]),
        (b"\x80\x04cos\ngetenv\n\x8c\x01a\x85R\x8c\x06system\x93.", ["os.getenv", "?"]),
        (b"\x80\x02\x82\x01.", ["?"]),
        (b"\x80\x02\x83\x01\x00.", ["?"]),
        (b"\x80\x02\x84\x01\x00\x00\x00.", ["?"]),
        (b"cos\nsystem\n0cbuiltins\neval\n00N.", None),
        (b"cos\nsystem\n0N.", ["os.system"]),
    ],
)
def test_every_way_to_name_a_global_is_seen(code: bytes, names: list[str] | None) -> None:
    if names is None:
        with pytest.raises(BrokenPickleError):
            run(code)
        return
    assert list(run(code)[1].globals) == names


def test_a_name_without_end_is_cut() -> None:
    code = b"\x80\x04X" + (10_000).to_bytes(4, "little") + b"m" * 10_000 + b"\x8c\x01f\x93."
    (name,) = run(code)[1].globals
    assert name == "m" * 200 + "..."


def test_escapes_that_python_does_not_know() -> None:
    """Found by flipping bytes: reading them warned, and warnings are errors here."""
    assert run(b"S'\\s'\n.")[0] == "\\s"


def test_persistent_ids() -> None:
    root, wishes = run(b"\x80\x02X\x01\x00\x00\x00kQ.")
    assert isinstance(root, Persistent) and root.id == "k" and wishes.persistent == [root]
    root, _ = run(b"Pkey\n.")
    assert isinstance(root, Persistent) and root.id == "key"


def test_buffers_out_of_band_are_opaque() -> None:
    root, _ = run(b"\x80\x05\x97.")
    assert isinstance(root, Opaque)


def test_several_pickles_in_one_stream() -> None:
    stream = Stream(memoryview(pickle.dumps(1) + pickle.dumps([2]) + b"tail"))
    assert interpret(stream, Wishes()) == 1
    assert plain(interpret(stream, Wishes())) == [2]
    assert stream.read(100) == b"tail"


def test_cycles_and_doubling_need_no_memory() -> None:
    looped: list[Any] = []
    looped.append(looped)
    root, _ = run(pickle.dumps(looped))
    assert root.values[0] is root
    doubled = b")" + b"2\x86" * 10_000 + b"."  # a tuple of a tuple twice, 10,000 deep: 2 ** 10,000 leaves
    assert isinstance(run(doubled)[0], Items)


@pytest.mark.parametrize(
    "code",
    [b"", b".", b"N", b"0.", b"(", b"t.", b"h\x00.", b"\xff.", b"R.", b"NNb", b"X\xff\xff\xff\xffabc", b"I1x\n.",
     b"c\n", b"cos", b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.", b"}NR", b"u.", b"\x85.", b"(NNNd."],
)  # fmt: skip
def test_what_is_no_pickle(code: bytes) -> None:
    with pytest.raises(BrokenPickleError):
        run(code)


def test_long_pickles_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_interpreter, "MAX_OPCODES", 1_000)
    with pytest.raises(InputError, match="more than 1,000 instructions"):
        run(b"N" * 2_000 + b".")
    monkeypatch.setattr(pickle_machine, "MAX_GLOBALS", 10)
    with pytest.raises(InputError, match="more than 10 imports"):
        run(b"".join(b"cm\nf%d\n0" % i for i in range(20)) + b"N.")
    monkeypatch.setattr(pickle_stream, "MAX_BYTES", 50)
    with pytest.raises(BrokenPickleError, match="more than 50 bytes"):
        run(b"N0" * 30 + b"N.")


def test_exactly_as_many_opcodes_as_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit may fall inside a stride, on its end, and STOP may be the last opcode of one."""
    for stride in (3, 4, 8):
        monkeypatch.setattr(pickle_interpreter, "_STRIDE", stride)
        assert interpret(Stream(memoryview(b"N0N0N0I5\n.")), Wishes(), 8) == 5
        with pytest.raises(InputError, match="more than 7 instructions"):
            interpret(Stream(memoryview(b"N0N0N0I5\n.")), Wishes(), 7)


@pytest.mark.parametrize(("limit", "code"), [("MAX_BLOCKS", b"}"), ("MAX_BLOCKS", b"N\x85"), ("MAX_STACK", b"N")])
def test_what_would_take_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch, limit: str, code: bytes) -> None:
    monkeypatch.setattr(pickle_interpreter, "_STRIDE", 1_000)
    monkeypatch.setattr(pickle_interpreter, limit, 5_000)
    run(code * 1_000 + b".")
    with pytest.raises(InputError, match="builds too many objects"):
        run(code * 20_000 + b".")


class Place:
    def __init__(self, number):
        self.number, self.shared = number, ["shared"]


def test_what_is_built_may_be_made_small_and_what_is_fetched_again_is_still_there():
    """Memory that is fetched later stays, over short, long and text keys of the memo."""
    places = [Place(number) for number in range(1000)]
    for place in places:
        place.shared = places[0].shared
    for protocol in (0, 2, 4):
        wishes, built = Wishes(), []

        def fold(call, built=built):
            built.append(dict(call.state.pairs)["number"])
            call.state = dict(call.state.pairs)["shared"]

        data = pickle.dumps([places, places[::-1]], protocol)
        root = interpret(Stream(memoryview(data)), wishes, built=fold)
        forwards, backwards = (side.values for side in root.values)
        assert built == list(range(1000))
        assert all(one is other for one, other in zip(forwards, reversed(backwards), strict=True))
        assert {id(call.state) for call in forwards} == {id(forwards[0].state)}
        assert forwards[0].state.values == ["shared"]
