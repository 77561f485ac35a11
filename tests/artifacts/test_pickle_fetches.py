"""Which entries of the memo are kept: all that any opcode may fetch, and few others."""

from __future__ import annotations

import pickletools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensoraudit.artifacts import pickle_fetches
from tensoraudit.artifacts.pickle_fetches import fetched
from tensoraudit.artifacts.pickle_interpreter import interpret
from tensoraudit.artifacts.pickle_nodes import Wishes
from tensoraudit.artifacts.pickle_stream import BrokenPickleError, Stream

FILLER = b"N0" * 5_000


def flagged(code: bytes, most: int = 1 << 20) -> set[int]:
    flags = fetched(memoryview(code), most)
    assert flags is not None
    return {key for key, flag in enumerate(flags) if flag} - set(range(256))


@settings(max_examples=100, deadline=5_000)
@given(st.lists(st.tuples(st.integers(256, 9_000), st.booleans())), st.integers(1, 100))
def test_every_fetch_is_found_wherever_it_stands(fetches: list[tuple[int, bool]], block: int) -> None:
    """Also one that crosses the end of a block."""
    code = b"".join(b"g%d\n" % key if text else b"j" + key.to_bytes(4, "little") for key, text in fetches)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pickle_fetches, "_BLOCK", block)
        found = flagged(code + FILLER[: 9_500 - len(code)] + b"." * 500)
    assert {key for key, _ in fetches} <= found
    named = {key for opcode, key, _ in pickletools.genops(code + b".") if "GET" in opcode.name}
    assert named - set(range(256)) <= found


def test_keys_that_no_opcode_can_have_put_take_no_memory() -> None:
    flags = fetched(memoryview(b"j\xff\xff\xff\xffg4294967295\n" + FILLER), 300)
    assert flags is not None and len(flags) == 300
    assert fetched(memoryview(b"N."), 300) == b"\1\1"
    assert fetched(memoryview(b""), 300) == b""


def test_too_many_texts_that_look_like_keys_keep_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_fetches, "_MOST_GETS", 10)
    assert fetched(memoryview(b"g1\n" * 10), 1000) is not None
    assert fetched(memoryview(b"g1\n" * 11), 1000) is None


@pytest.mark.parametrize("text", [b"3_00", b"+300", b" 300", b"00000000000300"])
def test_a_key_written_as_no_pickler_does_never_gives_what_was_forgotten(text: bytes) -> None:
    code = b"\x80\x04" + b"]\x940" * 400 + b"g" + text + b"\n."
    with pytest.raises(BrokenPickleError):
        interpret(Stream(memoryview(code)), Wishes(), built=lambda call: None)
    assert interpret(Stream(memoryview(code)), Wishes()).values == []
