"""Text from models, files and frameworks made safe to show. Node names are anybody's bytes: they may hold terminal
escape sequences, control characters, or marks that turn the reading direction round. Knows no format."""

from __future__ import annotations

import re
from typing import Final

_ESCAPES: Final = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    "|(?:\x1b\\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"  # OSC: titles, links
    "|\x1b[PX^_][^\x1b]*\x1b\\\\"  # DCS, SOS, PM, APC: strings for devices
    "|\x1b."
)
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_DIRECTION: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def clean(text: object) -> str:
    """Return text without escape sequences, control characters (but for tab and newline) and direction marks.

    Half characters, as undecodable file names have them, become U+FFFD, so that every encoding can hold the text.
    """
    plain = _ESCAPES.sub("", str(text).replace("\r\n", "\n"))
    return _SURROGATE.sub("\ufffd", _DIRECTION.sub("", _CONTROL.sub("", plain)))


def one_line(text: object) -> str:
    """Return cleaned text on one line."""
    return " ".join(clean(text).split())


def for_xml(text: object) -> str:
    """Return cleaned text that XML 1.0 can hold: no noncharacters."""
    return _NOT_XML.sub("", clean(text))


def for_markdown(text: object) -> str:
    """Return one line in which nothing is Markdown, HTML or a table cell's end."""
    line = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#+!|~@])", r"\\\1", line)


def code_span(text: object) -> str:
    """Return one line as a Markdown code span that no backtick in it can end."""
    line = one_line(text).replace("|", "\\|")
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{pad}{line}{pad}{fence}"
