"""Files are read as they would be after a change that is not on the disk."""

import pytest

from tensoraudit.extract.python_files import UnreadableFile, read_text, unsaved
from tensoraudit.extract.python_source import read_python
from tensoraudit.facts import Call


def test_inside_the_block_a_file_holds_other_bytes(tmp_path):
    path, other = tmp_path / "a.py", tmp_path / "b.py"
    path.write_text("x = 1\n")
    other.write_text("import lib\nlib.f()\n")
    with unsaved({path: b"\xef\xbb\xbfimport lib\r\nlib.g()\r\n"}):
        assert read_text(path) == "import lib\nlib.g()\n"
        calls = [fact.callee for fact in read_python([tmp_path]).facts if isinstance(fact, Call)]
        assert calls == ["lib.g", "lib.f"]
        with unsaved({path: b"\xff"}), pytest.raises(UnreadableFile):
            read_text(path)
        assert read_text(path) == "import lib\nlib.g()\n"
    assert read_text(path) == "x = 1\n"


def test_the_block_ends_with_an_error(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    with pytest.raises(KeyError), unsaved({path: b"y"}):
        raise KeyError
    assert read_text(path) == "x = 1\n"
    with unsaved({path: b" " * (1 << 21)}), pytest.raises(UnreadableFile, match="larger than"):
        read_text(path)
