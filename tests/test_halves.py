import os
import signal
import threading
from pathlib import Path

import pytest

from tensoraudit import halves
from tensoraudit.halves import ahead, alone, in_two

OPEN = Path("/proc/self/fd")
HERE = os.getpid()


def children():
    """The processes that this one has started and not yet buried, whoever they belong to."""
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


@pytest.fixture(autouse=True)
def two(monkeypatch):
    """Each test has a second processor, and leaves no process and no pipe behind."""
    monkeypatch.setattr(halves, "two_processors", lambda: True)
    before = sorted(OPEN.iterdir()), children()
    yield
    assert (sorted(OPEN.iterdir()), children()) == before


def in_the_copy():
    return os.getpid() != HERE


def test_each_half_is_done_by_another_process():
    mine, theirs = in_two(lambda half, _: (half, os.getpid()), "a", "b")
    assert mine == ("a", HERE)
    assert theirs[0] == "b" and theirs[1] != HERE


def test_both_know_what_either_handed_over_in_the_order_of_the_halves():
    def work(half, exchange):
        return half, exchange(half * 2), exchange(half * 3)

    assert in_two(work, 1, 10) == ((1, (2, 20), (3, 30)), (10, (2, 20), (3, 30)))
    assert work(7, alone) == (7, (14,), (21,))


def test_values_larger_than_any_pipe_pass_each_other():
    data = bytes(range(256)) * 40_000
    mine, theirs = in_two(lambda half, exchange: (half, exchange(half)), data, data[::-1])
    assert mine == (data, (data, data[::-1]))
    assert theirs == (data[::-1], (data, data[::-1]))


@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_a_copy_that_is_killed_leaves_all_to_do(when):
    def work(half, exchange):
        if when == "before" and in_the_copy():
            os.kill(os.getpid(), signal.SIGKILL)
        exchange(half)
        if when == "between" and in_the_copy():
            os.kill(os.getpid(), signal.SIGKILL)
        return half if when != "after" or not in_the_copy() else Deadly()

    assert in_two(work, 1, 2) is None


class Deadly:
    def __reduce__(self):
        os.kill(os.getpid(), signal.SIGKILL)


def test_half_a_message_is_none(monkeypatch):
    def torn(ends, value):
        ends.sink.write((9_999).to_bytes(8, "big") + b"...")
        ends.sink.flush()

    monkeypatch.setattr(halves._Ends, "send", torn)
    assert in_two(lambda half, _: half, 1, 2) is None


def test_an_error_in_the_copy_leaves_all_to_do(capfd):
    def work(half, exchange):
        exchange(half)
        if in_the_copy():
            raise ValueError("wrong")
        return half

    assert in_two(work, 1, 2) is None
    assert capfd.readouterr() == ("", "")


def test_what_pickle_does_not_take_leaves_all_to_do():
    assert in_two(lambda half, _: lambda: half, 1, 2) is None


def test_an_error_here_ends_the_copy():
    def work(half, _):
        if in_the_copy():
            threading.Event().wait()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_two(work, 1, 2)


def test_a_copy_whose_original_is_gone_ends():
    """The original is killed while the copy waits for it: the copy leaves by itself."""
    told, tell = os.pipe()
    original = os.fork()
    if original == 0:
        os.close(told)

        def work(half, exchange):
            if os.getpid() == original_pid:
                os.write(tell, b"ready\n")
                signal.pause()
            exchange(half)

        original_pid = os.getpid()
        in_two(work, 1, 2)
        os._exit(1)
    os.close(tell)
    with os.fdopen(told, "rb") as file:
        assert file.readline() == b"ready\n"
        os.kill(original, signal.SIGKILL)
        os.waitpid(original, 0)
        assert file.read() == b""  # which comes when the last holder of the pipe is gone


def test_no_room_for_a_copy(monkeypatch):
    def full():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(halves.os, "fork", full)
    assert in_two(lambda half, _: half, 1, 2) is None


class TestAhead:
    def test_the_result_comes_from_the_copy(self):
        with ahead(os.getpid) as result:
            assert result() not in {None, HERE}

    def test_a_copy_that_nobody_asks_is_gone_with_the_block(self):
        with ahead(threading.Event().wait):
            pass

    def test_so_is_one_whose_pipe_is_full(self):
        with ahead(lambda: bytes(10_000_000)):
            pass

    @pytest.mark.parametrize("work", [lambda: 1 / 0, lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: lambda: 1])
    def test_a_copy_that_fails_gives_none(self, work, capfd):
        with ahead(work) as result:
            assert result() is None
        assert capfd.readouterr() == ("", "")

    def test_an_error_here_ends_the_copy(self):
        with pytest.raises(KeyboardInterrupt), ahead(threading.Event().wait):
            raise KeyboardInterrupt

    def test_no_second_processor(self, monkeypatch):
        monkeypatch.setattr(halves, "two_processors", lambda: False)
        with ahead(os.getpid) as result:
            assert result() is None


class TestTwoProcessors:
    @pytest.fixture
    def asked(self, monkeypatch):
        monkeypatch.undo()
        monkeypatch.setattr(halves.os, "sched_getaffinity", lambda _: {0, 1})
        monkeypatch.setattr(halves, "threads", lambda: 1)
        monkeypatch.setattr(halves.sys, "platform", "linux")
        return monkeypatch

    def test_there_are(self, asked):
        assert halves.two_processors()

    def test_one_processor(self, asked):
        asked.setattr(halves.os, "sched_getaffinity", lambda _: {3})
        assert not halves.two_processors()

    def test_a_second_thread(self, asked):
        asked.setattr(halves, "threads", lambda: 2)
        assert not halves.two_processors()

    def test_a_system_whose_libraries_do_not_survive_a_fork(self, asked):
        asked.setattr(halves.sys, "platform", "darwin")
        assert not halves.two_processors()


def test_every_thread_is_counted():
    before, end = halves.threads(), threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    assert halves.threads() == before + 1
    end.set()
    thread.join()
