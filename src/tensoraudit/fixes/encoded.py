"""The bytes of a Python file and its text, there and back without a change: encoding, byte order mark, line ends."""

from __future__ import annotations

import io
import tokenize
from dataclasses import dataclass

from tensoraudit.fixes.verbs import CannotEdit


@dataclass(frozen=True, slots=True)
class Source:
    """A text with its own line ends, and the encoding that it declares (`utf-8-sig` with a byte order mark)."""

    text: str
    encoding: str

    def encode(self, text: str) -> bytes:
        """Return another text in the same encoding. Raises CannotEdit when it would not be read back as it is."""
        try:
            data = text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise CannotEdit(f"{error.object[error.start]!r} cannot be written in {self.encoding}") from None
        if not _reads_as(data, text):
            raise CannotEdit("the encoding that the file declares would be lost")
        return data


def _reads_as(data: bytes, text: str) -> bool:
    try:
        return read_source(data).text == text
    except CannotEdit:
        return False


def read_source(data: bytes) -> Source:
    """Decode a file. Raises CannotEdit when the text does not give back these very bytes."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
        same = text.encode(encoding) == data
    except (SyntaxError, UnicodeError, LookupError) as error:
        raise CannotEdit(f"it cannot be decoded: {error}") from None
    if not same:
        raise CannotEdit(f"its bytes are not the only way to write its text in {encoding}")
    return Source(text, encoding)
