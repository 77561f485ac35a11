from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tensoraudit.errors import InputError
from tensoraudit.probes.run_folder import RunFolder, remove_abandoned, remove_tree


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def abandoned(folder: Path, age: float) -> Path:
    """A run folder whose owner is gone, with a lock of that age in seconds."""
    folder.mkdir()
    (folder / "t-1.bin").touch()
    (folder / "lock").touch()
    os.utime(folder / "lock", (time.time() - age,) * 2)
    return folder


def test_it_is_private_and_goes_with_all_in_it(tmp_path: Path) -> None:
    run = RunFolder()
    assert run.path.parent == tmp_path
    assert run.path.name.startswith("tensoraudit-")
    assert run.path.stat().st_mode & 0o777 == 0o700
    (run.path / "t-1.bin").touch()
    run.remove()
    run.remove()
    assert not list(tmp_path.iterdir())


def test_no_place_for_it_is_the_users_to_mend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    with pytest.raises(InputError, match="TMPDIR"):
        RunFolder()


def test_folders_that_forbid_it_are_removed_too(tmp_path: Path) -> None:
    stubborn = tmp_path / "a" / "b"
    stubborn.mkdir(parents=True)
    (stubborn / "file").touch()
    stubborn.chmod(0o000)
    (tmp_path / "a").chmod(0o500)
    remove_tree(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_what_a_killed_run_left_goes_with_the_next(tmp_path: Path) -> None:
    left = abandoned(tmp_path / "tensoraudit-left", age=3600)
    remove_abandoned()
    assert not left.exists()


def test_a_living_run_a_new_one_and_a_strangers_folder_stay(tmp_path: Path) -> None:
    living = RunFolder()
    os.utime(living.path / "lock", (0, 0))
    new = abandoned(tmp_path / "tensoraudit-new", age=1)
    other = abandoned(tmp_path / "other", age=3600)
    unlocked = tmp_path / "tensoraudit-notes"
    unlocked.mkdir()
    link = tmp_path / "tensoraudit-link"
    link.symlink_to(other)
    remove_abandoned()
    assert all(path.exists() for path in (living.path, new, other / "t-1.bin", unlocked, link))
    living.remove()
