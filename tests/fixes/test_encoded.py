"""From bytes to text and back: nothing that is not edited may change."""

import pytest

from tensoraudit.fixes.encoded import read_source
from tensoraudit.fixes.verbs import CannotEdit

LATIN = "# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1")


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"x = 1\n", "utf-8"),
        (b"\xef\xbb\xbfx = 1\r\n", "utf-8-sig"),
        ("x = 'é\u2028'\r\ny\n\r".encode(), "utf-8"),
        (LATIN, "iso-8859-1"),
        (b"", "utf-8"),
    ],
)
def test_there_and_back(data, encoding):
    source = read_source(data)
    assert source.encoding == encoding
    assert source.encode(source.text) == data
    assert source.encode(f"{source.text}y = 2\n") == data + b"y = 2\n"


@pytest.mark.parametrize(
    "data", [b"\xff", b"# coding: klingon\n", "# coding: shift_jis\nx='\\'".encode("ascii") + b"\x81"]
)
def test_what_cannot_be_decoded(data):
    with pytest.raises(CannotEdit):
        read_source(data)


def test_a_character_that_the_encoding_lacks():
    with pytest.raises(CannotEdit, match="'→' cannot be written in iso-8859-1"):
        read_source(LATIN).encode(read_source(LATIN).text + "y = '→'\n")


def test_a_declaration_that_a_change_moves_down():
    text = read_source(LATIN).text
    with pytest.raises(CannotEdit, match="the encoding that the file declares would be lost"):
        read_source(LATIN).encode(f"import a\nimport b\n{text}")
