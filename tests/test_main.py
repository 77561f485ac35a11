"""How the process of a command ends: at once, with its own code, and with nothing left unsaid."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

STARTED = """
import atexit, sys
from tensoraudit import __main__ as entry
from tensoraudit.cli import app
def run(arguments):
    {body}
app.run = run
sys.argv = ["tensoraudit", "anything"]
entry.command()
"""


def ended(body, **more):
    command = [sys.executable, "-c", STARTED.format(body=body)]
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, env=buffered, **more)


@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_code_is_the_command_s(code):
    done = ended(f'atexit.register(print, "gone"); print("said"); return {code}', stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout, done.stderr) == (code, "said\ngone\n", "")


def test_an_interrupted_import_does_not_decide_the_code():
    body = """
    try:
        exec("raise KeyboardInterrupt")  # as the making of a dataclass does
    except KeyboardInterrupt:
        return 3
"""
    assert ended(body).returncode == 3


def test_a_fault_is_told():
    done = ended("raise ValueError('wrong')")
    assert done.returncode == 1 and "ValueError: wrong" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
class TestAFullDisk:
    def test_what_was_printed_last(self):
        with Path("/dev/full").open("w") as full:
            assert ended("print('said'); return 0", stdout=full).returncode == 2
            assert ended("print('said'); return 1", stdout=full).returncode == 1

    @pytest.mark.parametrize("words", [["--help"], ["--version"]])
    def test_help(self, words):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "tensoraudit", *words],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert done.returncode == 2 and "Traceback" not in done.stderr
