"""Which files of a folder are read, under which module name, and what becomes of those that cannot be."""

import os
from pathlib import Path

import pytest

from tensoraudit.extract.python_files import PythonFile, Skipped, UnreadableFile, decode, find_files, module_name
from tensoraudit.extract.python_source import read_python
from tensoraudit.facts import Call, Scope


def write(root: Path, *names: str, text: str = "f()\n") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def found(*paths: Path, root: Path | None = None) -> list[str]:
    return [file.shown for file in find_files(paths, root) if isinstance(file, PythonFile)]


def test_a_folder_is_searched_for_python_files_in_order(tmp_path):
    write(tmp_path, "b.py", "a/z.py", "a/y.py", "a/data.txt", "a/x.pyi", "c.py/inner.py")
    assert found(tmp_path, root=tmp_path) == ["b.py", "a/y.py", "a/z.py", "c.py/inner.py"]


@pytest.mark.parametrize("folder", [".hidden", "__pycache__", "node_modules", "lib/site-packages"])
def test_folders_that_are_not_the_projects_own_are_left_out(tmp_path, folder):
    write(tmp_path, "a.py", f"{folder}/b.py")
    assert found(tmp_path, root=tmp_path) == ["a.py"]


def test_a_virtual_environment_is_left_out_whatever_its_name(tmp_path):
    write(tmp_path, "a.py", "my-env/lib/b.py")
    (tmp_path / "my-env" / "pyvenv.cfg").touch()
    assert found(tmp_path, root=tmp_path) == ["a.py"]


def test_gitignore_is_followed_the_nearest_first(tmp_path):
    write(tmp_path, "a.py", "gen/b.py", "sub/c.py", "sub/keep/d.py", "sub/e_pb2.py")
    (tmp_path / ".gitignore").write_text("gen/\n*_pb2.py\n")
    (tmp_path / "sub" / ".gitignore").write_text("c.py\n!e_pb2.py\n")
    assert found(tmp_path, root=tmp_path) == ["a.py", "sub/e_pb2.py", "sub/keep/d.py"]


def test_a_gitignore_above_the_folder_counts_inside_its_repository_only(tmp_path):
    write(tmp_path, "repo/src/a.py", "repo/src/b.py")
    (tmp_path / ".gitignore").write_text("a.py\n")
    (tmp_path / "repo" / ".gitignore").write_text("b.py\n")
    (tmp_path / "repo" / ".git").mkdir()
    assert found(tmp_path / "repo" / "src", root=tmp_path / "repo" / "src") == ["a.py"]


def test_an_ignored_folder_or_file_that_is_named_itself_is_read(tmp_path):
    write(tmp_path, "gen/b.py", "odd.txt")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("gen/\n*.txt\n")
    assert found(tmp_path / "gen", tmp_path / "odd.txt", root=tmp_path) == ["gen/b.py", "odd.txt"]


def test_symbolic_links_are_not_followed(tmp_path):
    write(tmp_path, "inside/a.py", "outside/secret.py")
    (tmp_path / "inside" / "link.py").symlink_to(tmp_path / "outside" / "secret.py")
    (tmp_path / "inside" / "folder").symlink_to(tmp_path / "outside")
    (tmp_path / "inside" / "round").symlink_to(tmp_path / "inside")
    assert found(tmp_path / "inside", root=tmp_path / "inside") == ["a.py"]


def test_a_file_named_twice_is_read_once(tmp_path):
    write(tmp_path, "a.py")
    assert found(tmp_path / "a.py", tmp_path, tmp_path / "a.py", root=tmp_path) == ["a.py"]


@pytest.mark.parametrize(
    ("files", "path", "expected"),
    [
        (["a.py"], "a.py", "a"),
        (["pkg/__init__.py", "pkg/a.py"], "pkg/a.py", "pkg.a"),
        (["pkg/__init__.py"], "pkg/__init__.py", "pkg"),
        (["src/pkg/__init__.py", "src/pkg/sub/__init__.py", "src/pkg/sub/a.py"], "src/pkg/sub/a.py", "pkg.sub.a"),
        (["scripts/train.py"], "scripts/train.py", "scripts.train"),
    ],
)
def test_module_names(tmp_path, files, path, expected):
    write(tmp_path, *files)
    assert module_name(tmp_path / path, tmp_path) == expected


def test_a_file_outside_the_root_keeps_its_path_and_its_stem(tmp_path):
    write(tmp_path, "a.py", "root/b.py")
    (file,) = find_files([tmp_path / "a.py"], tmp_path / "root")
    assert isinstance(file, PythonFile)
    assert (file.shown, file.module) == ((tmp_path / "a.py").as_posix(), "a")


def test_facts_show_paths_relative_to_the_root(tmp_path):
    write(tmp_path, "pkg/a.py")
    read = read_python([tmp_path], root=tmp_path)
    assert {fact.at.path for fact in read.facts if isinstance(fact, Call)} == {"pkg/a.py"}
    assert {fact.module for fact in read.facts if isinstance(fact, Scope)} == {"pkg.a"}
    assert (read.files, read.lines) == (1, 2)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"x = '\xff'", "not valid utf-8 at byte 5"),
        (b"# coding: klingon\n", "its encoding is not known"),
        (b"\xef\xbb\xbf# coding: latin-1\n", "its encoding is not known"),
        (b"# coding: rot13\n", "cannot be decoded as rot13"),
        (b"# coding: punycode\n", "no source is written in the encoding punycode"),
        (b"# coding: idna\n", "no source is written in the encoding idna"),
        (b"x = 1\0", "contains NUL bytes"),
        (b"\x80\x02}q\x00.", "not valid utf-8"),
    ],
)
def test_bytes_that_are_no_source(data, reason):
    with pytest.raises(UnreadableFile, match=reason):
        decode(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"# -*- coding: latin-1 -*-\nx = '\xe9'", "# -*- coding: latin-1 -*-\nx = 'é'"),
        (b"\xef\xbb\xbfx = 1\r\ny = 2\rz = 3", "x = 1\ny = 2\nz = 3"),
        ("é = 1".encode(), "é = 1"),
        (b"", ""),
    ],
)
def test_source_is_decoded_by_its_own_declaration(data, expected):
    assert decode(data) == expected


def test_bad_files_are_skipped_and_the_others_read(tmp_path):
    write(tmp_path, "good.py")
    write(tmp_path, "syntax.py", text="def f(:\n")
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "line.py").write_text("x = [" + "1," * (5 << 20) + "]")
    (tmp_path / "deep.py").write_text("x = " + "-" * 50_000 + "1")
    os.mkfifo(tmp_path / "pipe.py")
    read = read_python([tmp_path, tmp_path / "missing.py"], root=tmp_path)
    assert [fact.at.path for fact in read.facts if isinstance(fact, Call)] == ["good.py"]
    reasons = {skip.path: skip.reason for skip in read.skipped}
    assert reasons.pop("line.py").startswith("larger than 1 MB")
    assert reasons.pop("missing.py") == "No such file or directory"
    assert reasons == {
        "syntax.py": "not valid Python (line 1): invalid syntax",
        "bytes.py": "not valid utf-8 at byte 0",
        "deep.py": "nested too deeply to parse",
        "pipe.py": "not a regular file",
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_skipped(tmp_path):
    write(tmp_path, "a.py")
    (tmp_path / "a.py").chmod(0)
    assert read_python([tmp_path / "a.py"], root=tmp_path).skipped == [Skipped("a.py", "Permission denied")]
