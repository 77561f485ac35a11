"""Names of other files: what stays in the folder, and every way to lead out of it."""

from __future__ import annotations

import os

import pytest

from tensoraudit.artifacts.neighbours import Neighbours


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "place"
    (place / "below").mkdir(parents=True)
    (place / "file").write_bytes(b"12345")
    (place / "below" / "file").write_bytes(b"1")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret").write_bytes(b"123")
    (place / "inside").symlink_to("below/file")
    (place / "outside").symlink_to(tmp_path / "other" / "secret")
    (place / "up").symlink_to("..")
    (place / "loop").symlink_to("loop")
    (place / "dangling").symlink_to("nothing")
    os.mkfifo(place / "pipe")
    return place


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("file", "ok"),
        ("./file", "ok"),
        ("below/file", "ok"),
        ("below/../file", "ok"),
        ("inside", "ok"),
        ("outside", "symlink"),
        ("up/other/secret", "symlink"),
        ("up/place/file", "ok"),
        ("../other/secret", "outside"),
        ("below/../../other/secret", "outside"),
        ("..\\other\\secret", "outside"),
        ("/etc/passwd", "absolute"),
        ("\\\\host\\share", "absolute"),
        ("C:secret", "absolute"),
        ("below", "not-a-file"),
        ("pipe", "not-a-file"),
        ("", "missing"),
        ("nothing", "missing"),
        ("loop", "missing"),
        ("dangling", "missing"),
        ("a\0b", "missing"),
        ("x" * 5000, "missing"),
    ],
)
def test_status(folder, name, status):
    assert Neighbours(folder).status(name) == status


def test_a_link_may_lead_to_a_folder_that_is_named(folder):
    assert Neighbours(folder, folder.parent / "other").status("outside") == "ok"


def test_a_file_must_be_long_enough(folder):
    assert Neighbours(folder).status("file", 5) == "ok"
    assert Neighbours(folder).status("file", 6) == "truncated"


def test_a_folder_that_is_a_link_itself_is_no_fault(folder):
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert Neighbours(link).status("below/file") == "ok"
    assert Neighbours(link).status("inside") == "ok"
