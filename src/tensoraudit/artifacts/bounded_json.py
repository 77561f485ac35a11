"""JSON from a file that may be hostile: sizes and counts are judged before anything is parsed.

A parsed document takes about thirty times the memory of its text at worst, so the text is bounded, and how many names
and items it can hold is counted in it first. A name twice in one object is refused: readers differ in which they take.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tensoraudit.artifacts.protobuf import Buffer
from tensoraudit.errors import InputError


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """What a document may hold: bytes of text, names in all its objects, and items in all its lists and objects.

    Colons and commas within strings count too, which no honest file has enough of to matter.
    """

    size: int = 100_000_000
    names: int = 4_000_000
    items: int = 8_000_000


class _TwiceError(ValueError):
    """A name stands twice in one object."""


def read_json(data: Buffer, where: str, limits: JsonLimits = JsonLimits()) -> Any:
    """Return the parsed document. Raises InputError for one that is none, too large, too deep or ambiguous."""
    if len(data) > limits.size:
        raise _refused(f"holds {len(data):,} bytes of JSON, more than the {limits.size:,} that are read", where)
    text = _text(bytes(data), where, limits)
    try:
        document = json.loads(text, object_pairs_hook=_object)
        if "\\u" in text:  # half a surrogate pair is a string that nothing can print
            json.dumps(document, ensure_ascii=False).encode()
    except _TwiceError as error:
        raise _refused(f"names {error} twice in one JSON object", where) from error
    except UnicodeEncodeError as error:
        raise _refused("holds JSON with half a Unicode character", where) from error
    except RecursionError as error:
        raise _refused("holds JSON that is nested too deep", where) from error
    except ValueError as error:
        raise _refused(f"holds broken JSON ({error})", where) from error
    return document


def _text(raw: bytes, where: str, limits: JsonLimits) -> str:
    for sign, most, what in ((b":", limits.names, "names"), (b",", limits.items, "items")):
        if raw.count(sign) > most:
            raise _refused(f"holds JSON of more than {most:,} {what}", where)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refused(f"holds JSON that is no UTF-8 text ({error.reason} at byte {error.start:,})", where) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        raise _TwiceError(repr(next(name for name, _ in pairs if name in seen or seen.add(name))))  # type: ignore[func-returns-value]
    return found


def _refused(what: str, where: str) -> InputError:
    return InputError(what, where=where, remedy="Save or download the file again.")
