"""The memo: whatever the order of its keys, it gives what a dict would give."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensoraudit.artifacts import pickle_machine
from tensoraudit.artifacts.pickle_interpreter import interpret
from tensoraudit.artifacts.pickle_machine import Machine
from tensoraudit.artifacts.pickle_nodes import Wishes
from tensoraudit.artifacts.pickle_stream import BrokenPickleError, Stream


def run(code: bytes) -> Any:
    return interpret(Stream(memoryview(code)), Wishes())


def put(key: int, form: str) -> bytes:
    if form == "byte" and key < 256:
        return b"q" + bytes([key])
    return b"p%d\n" % key if form == "text" else b"r" + key.to_bytes(4, "little")


def get(key: int, form: str) -> bytes:
    if form == "byte" and key < 256:
        return b"h" + bytes([key])
    return b"g%d\n" % key if form == "text" else b"j" + key.to_bytes(4, "little")


KEYS = st.one_of(st.integers(0, 6), st.sampled_from([255, 256, 2**32 - 1]))
FORMS = st.sampled_from(["byte", "long", "text"])
PUTS = st.lists(st.one_of(st.none(), st.tuples(KEYS, FORMS)), max_size=20)


@settings(max_examples=300, deadline=5_000)
@given(PUTS, KEYS, FORMS)
def test_any_order_of_keys_is_read_as_pickle_reads_it(puts: list[tuple[int, str] | None], key: int, form: str) -> None:
    """None is MEMOIZE; every value is the number of its PUT."""
    code, memo = b"\x80\x04", {}
    for number, each in enumerate(puts):
        at = len(memo) if each is None else each[0]
        code += b"K" + bytes([number]) + (b"\x94" if each is None else put(*each)) + b"0"
        memo[at] = number
    code += get(key, form) + b"."
    if key in memo:
        assert run(code) == memo[key]
        assert max(memo) > 256 or pickle.loads(code) == memo[key]  # pickle takes memory for all keys to the largest
    else:
        with pytest.raises(BrokenPickleError):
            run(code)


@pytest.mark.parametrize("code", [b"Np-1\n0N.", b"Np0\ng-1\n."])
def test_a_key_below_zero_is_no_place_from_the_end(code: bytes) -> None:
    if b"g" in code:
        with pytest.raises(BrokenPickleError):
            run(code)
    else:
        assert run(code) is None


def test_keys_far_out_of_order_take_no_memory_for_those_between(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(Wishes(), Stream(memoryview(b"")), 0, None)
    machine.push("value")
    for key in (2**32 - 1, 2**31, 0, 1):
        machine.put(key)
    assert (len(machine.memo), len(machine.scattered)) == (2, 2)
    monkeypatch.setattr(pickle_machine, "_MAX_SCATTERED", 100)
    with pytest.raises(BrokenPickleError, match="more than 100 keys of the memo out of order"):
        run(b"N" + b"".join(put(2 * key + 1, "long") for key in range(200)) + b".")


def test_consecutive_keys_are_a_list() -> None:
    machine = Machine(Wishes(), Stream(memoryview(b"")), 0, None)
    machine.push("value")
    machine.put(0)
    machine.memoize()
    machine.put(2)
    machine.put(1)
    assert (machine.memo, machine.scattered) == (["value"] * 3, {})
