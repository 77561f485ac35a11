"""Two checkpoints read at once: what a copy of the process hands back is what this one would have read."""

import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensoraudit import halves
from tensoraudit.checkpoints import ahead, observations
from tensoraudit.checkpoints.ahead import look_at, looking_ahead, nothing_ahead
from tensoraudit.checkpoints.schema import Entry, Part
from tensoraudit.errors import InputError

HERE = os.getpid()

names, numbers = st.text(max_size=8), st.integers(0, 2**62)
places = st.lists(st.integers(0, 9), max_size=3).map(tuple)
parts = st.builds(Part, names, st.none() | numbers, numbers, places, places, places, st.none() | numbers, names)
entries = st.builds(
    Entry, names, names, places, st.lists(parts, max_size=3).map(tuple), st.sampled_from(["model", "optimizer"]),
    st.lists(names, max_size=2).map(tuple), names, names, names,
)  # fmt: skip


@given(st.lists(entries, max_size=5).map(tuple))
def test_columns_hold_entries_of_any_kind(found):
    again = ahead._unpacked(ahead._packed(found))
    assert again == found
    assert all(type(entry) is Entry and all(type(part) is Part for part in entry.parts) for entry in again)


def safetensors(path, **shapes):
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 4 * int(np.prod(shape))
        header[name.replace("__", ".")] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))
    return path


@pytest.fixture
def weights(tmp_path):
    """A batch normalisation without its statistics, of which a topic has something to say."""
    return safetensors(tmp_path / "w.safetensors", bn__weight=(3,), bn__bias=(3,), fc__weight=(2, 3))


@pytest.fixture
def two(monkeypatch):
    monkeypatch.setattr(halves, "two_processors", lambda: True)


@pytest.mark.usefixtures("two")
def test_what_the_copy_saw_is_what_is_there(weights, monkeypatch):
    seen = look_at(weights)
    assert [each.kind for each in seen.observations] == ["statistics_missing"]
    monkeypatch.setattr(ahead, "look_at", in_the_copy_alone)
    with looking_ahead(weights) as looked:
        assert looked() == seen


def in_the_copy_alone(path):
    assert os.getpid() != HERE
    return look_at(path)


@pytest.mark.usefixtures("two")
def test_a_file_that_is_refused_gives_nothing(tmp_path):
    with looking_ahead(tmp_path / "nothing.pt") as looked:
        assert looked() is None
    with pytest.raises(InputError, match="does not exist"):
        look_at(tmp_path / "nothing.pt")


@pytest.mark.usefixtures("two")
def test_a_copy_that_is_killed_gives_nothing(weights, monkeypatch):
    monkeypatch.setattr(observations, "observe_all", lambda _: os.kill(os.getpid(), signal.SIGKILL))
    with looking_ahead(weights) as looked:
        assert looked() is None


def test_without_a_second_processor_there_is_nothing(weights, monkeypatch):
    monkeypatch.setattr(halves, "two_processors", lambda: False)
    with looking_ahead(weights) as looked:
        assert looked() is None
    assert nothing_ahead() is None


STARTED = """
import os, sys
from pathlib import Path
from tensoraudit import halves
from tensoraudit.__main__ import main
forks, fork = [], os.fork
def counted():
    forks.append(halves.threads())
    return fork()
os.fork = counted
processors = set(range(int(sys.argv.pop(1))))
halves.os.sched_getaffinity = lambda _: processors
sys.argv[0] = "tensoraudit"
try:
    main()
except SystemExit as end:
    sys.stderr.write(f"{end.code} {forks}")
"""


def diff_with(processors, *words):
    code = [sys.executable, "-c", STARTED, str(processors), "checkpoint", "diff", *map(str, words)]
    return subprocess.run(code, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.skipif(sys.platform != "linux", reason="copies are made on Linux alone")
def test_the_command_forks_before_any_thread_and_says_the_same_as_without(weights, tmp_path):
    other = safetensors(tmp_path / "other.safetensors", bn__weight=(3,), bn__bias=(3,), fc__weight=(3, 2))
    told = []
    for processors, forks in ((1, "[]"), (2, "[1]")):
        report = tmp_path / f"{processors}.json"
        done = diff_with(processors, weights, other, "--report", f"json={report}")
        assert done.stderr.endswith(f" {forks}")
        told.append({key: value for key, value in json.loads(report.read_text()).items() if key != "timings"})
    assert told[0] == told[1]
    assert told[0]["checkpoint_diff"]["counts"] == {"same_header": 2, "permuted": 1}


@pytest.mark.skipif(sys.platform != "linux", reason="copies are made on Linux alone")
@pytest.mark.parametrize("broken", ["reference", "candidate"])
def test_the_sentence_about_a_broken_file_is_the_same(weights, tmp_path, broken):
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(struct.pack("<Q", 10**9) + b"{}")
    words = (bad, weights) if broken == "reference" else (weights, bad)
    alone, beside = (diff_with(processors, *words).stderr for processors in (1, 2))
    assert f"{Path(bad)}: declares a header of 1,000,000,000 bytes" in alone
    assert beside.removesuffix("2 [1]") == alone.removesuffix("2 []")
