import os
import signal
import threading
from pathlib import Path

import pytest

from tensoraudit import halves
from tensoraudit.halves import both

OPEN = Path("/proc/self/fd")


@pytest.fixture(autouse=True)
def two(monkeypatch):
    monkeypatch.setattr(halves, "two_processors", lambda: True)


def no_child_is_left():
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    return True


def test_both_pieces_are_done_the_second_by_another_process():
    mine, theirs = both(os.getpid, os.getpid)
    assert mine == os.getpid() != theirs
    assert no_child_is_left()


def test_a_result_larger_than_any_pipe_comes_whole():
    data = bytes(range(256)) * 40_000
    assert both(lambda: None, lambda: data) == (None, data)


def test_the_work_of_a_copy_that_is_killed_is_done_here():
    here = os.getpid()

    def there():
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return "done"

    assert both(lambda: 1, there) == (1, "done")
    assert no_child_is_left()


def test_half_a_result_is_none():
    here, open_file = os.getpid(), os.fdopen

    def torn(end, mode):
        with open_file(end, mode) as file:
            file.write(b"9999\n...")
        os._exit(1)

    def there():
        if os.getpid() != here:
            os.fdopen = torn  # of the copy alone
        return "whole"

    assert both(lambda: 1, there) == (1, "whole")


def test_an_error_of_the_second_piece_is_raised_here(capfd):
    def there():
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        both(lambda: 1, there)
    assert no_child_is_left()
    assert capfd.readouterr() == ("", "")


def test_what_pickle_does_not_take_is_made_here():
    _, made = both(lambda: 1, lambda: lambda: 5)
    assert made() == 5


def test_an_error_of_the_first_piece_ends_the_copy():
    def here():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        both(here, lambda: threading.Event().wait())
    assert no_child_is_left()


def test_no_room_for_a_copy(monkeypatch):
    def full():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(halves.os, "fork", full)
    before = sorted(OPEN.iterdir())
    assert both(os.getpid, os.getpid) == (os.getpid(), os.getpid())
    assert sorted(OPEN.iterdir()) == before


class TestTwoProcessors:
    @pytest.fixture
    def asked(self, monkeypatch):
        monkeypatch.undo()
        monkeypatch.setattr(halves.os, "sched_getaffinity", lambda _: {0, 1})
        monkeypatch.setattr(halves.threading, "active_count", lambda: 1)
        monkeypatch.setattr(halves.sys, "platform", "linux")
        return monkeypatch

    def test_there_are(self, asked):
        assert halves.two_processors()

    def test_one_processor(self, asked):
        asked.setattr(halves.os, "sched_getaffinity", lambda _: {3})
        assert not halves.two_processors()

    def test_a_second_thread(self, asked):
        asked.setattr(halves.threading, "active_count", lambda: 2)
        assert not halves.two_processors()

    def test_a_system_whose_libraries_do_not_survive_a_fork(self, asked):
        asked.setattr(halves.sys, "platform", "darwin")
        assert not halves.two_processors()
