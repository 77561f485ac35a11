"""JSON that is parsed only when what it can cost is known."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from tensoraudit.artifacts.bounded_json import JsonLimits, read_json
from tensoraudit.errors import InputError

DOCUMENT = {"a": [1, 2.5, None, True], "ü": {"b": "\u00e9\U0001f600"}, "": {}}


@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_document_is_what_json_says(ascii_only):
    text = json.dumps(DOCUMENT, ensure_ascii=ascii_only).encode()
    assert read_json(text, "x") == DOCUMENT
    assert read_json(memoryview(text), "x") == DOCUMENT


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"a": 1, "a": 2}', "'a' twice"),
        (b'[{"b": {"c": 1, "d": 2, "c": 3}}]', "'c' twice"),
        (b"[" * 100_000, "too deep"),
        (b'{"a":' * 100_000, "too deep"),
        (b'["\\ud800"]', "half a Unicode"),
        (b'{"\\udc00": 1}', "half a Unicode"),
        (b"[\xff]", "no UTF-8"),
        (b"", "broken"),
        (b"{'a': 1}", "broken"),
        (b"[1] 2", "broken"),
        (b"[" + b"9" * 5000 + b"]", "broken"),
    ],
)
def test_what_is_none_or_ambiguous_is_refused(text, words):
    with pytest.raises(InputError, match=words):
        read_json(text, "x")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b" " * 1001 + b"1", "1,002 bytes"),
        (b"{" + b",".join(b'"%d":1' % number for number in range(11)) + b"}", "more than 10 names"),
        (b"[" + b"1," * 21 + b"1]", "more than 20 items"),
    ],
)
def test_limits_hold_before_anything_is_parsed(text, words):
    with pytest.raises(InputError, match=words):
        read_json(text, "x", JsonLimits(size=1001, names=10, items=20))


def test_a_bomb_takes_no_memory_beyond_its_text():
    text = b"[" + b"1," * 20_000_000 + b"1]"
    tracemalloc.start()
    with pytest.raises(InputError, match="items"):
        read_json(memoryview(text), "x")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < len(text) + (1 << 20)
