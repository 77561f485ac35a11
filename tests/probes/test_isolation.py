"""Each test runs in a process of its own, because none of these steps can be taken back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tensoraudit.probes import isolation

HEAD = f"""
import importlib.util, os, socket
spec = importlib.util.spec_from_file_location("isolation", {isolation.__file__!r})
isolation = importlib.util.module_from_spec(spec)
spec.loader.exec_module(isolation)
"""
INTERFACES = "[name for _, name in socket.if_nameindex()]"


def run(code: str) -> str:
    """Run code after HEAD, which loads the module without numpy or a thread, and return what it printed."""
    done = subprocess.run([sys.executable, "-c", HEAD + code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_isolated_process_has_loopback_only() -> None:
    state, interfaces = run(f"print(isolation.close_network(), {INTERFACES})").split(" ", 1)
    if state == "open":
        pytest.skip("this system lets no process leave the network")
    assert interfaces == "['lo']"


def test_a_process_without_privileges_stays_who_it_is() -> None:
    text = run(
        "before = (os.getuid(), os.getgid())\n"
        "allowed = isolation._rehearse(isolation._unshare_as_user) and isolation._unshare_as_user()\n"
        f"print(allowed, before == (os.getuid(), os.getgid()), {INTERFACES})"
    )
    if text.startswith("False"):
        pytest.skip("this system gives ordinary users no namespaces")
    assert text == "True True ['lo']"


def test_where_it_is_forbidden_the_network_is_open_and_nothing_has_changed() -> None:
    text = run(
        f"before = {INTERFACES}\n"
        "isolation._unshare = lambda flags: False\n"
        f"print(isolation.close_network(), before == {INTERFACES})"
    )
    assert text == "open True"


def test_a_rehearsal_changes_nothing_here() -> None:
    assert (
        run("print(isolation._rehearse(lambda: os.chdir('/') is None), os.getcwd() == '/')")
        == f"True {Path.cwd() == Path('/')}"
    )


def test_the_limit_on_allocations_counts_from_now() -> None:
    text = run(
        "isolation._GPU_DEVICES = ()\n"
        "isolation.limit_data(64 << 20)\n"
        "small = bytearray(16 << 20)\n"
        "try:\n    bytearray(128 << 20)\nexcept MemoryError:\n    print(len(small) >> 20)"
    )
    assert text == "16"


def test_no_limit_on_allocations_beside_a_gpu() -> None:
    text = run(
        "import resource\n"
        "isolation._GPU_DEVICES = ('/dev/null',)\n"
        "before = resource.getrlimit(resource.RLIMIT_DATA)\n"
        "isolation.limit_data(64 << 20)\n"
        "print(before == resource.getrlimit(resource.RLIMIT_DATA))"
    )
    assert text == "True"


def test_trouble_leaves_no_core_and_goes_first() -> None:
    text = run(
        "import resource\n"
        "isolation.expect_trouble()\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE), open('/proc/self/oom_score_adj').read())"
    )
    assert text == "(0, 0) 1000"


def test_the_peak_starts_again() -> None:
    text = run(
        "x = b'x' * (64 << 20)\nfirst = isolation.peak()\ndel x\nisolation.restart_peak()\nsecond = isolation.peak()\n"
        "print(first > 64 << 20, first - second > 48 << 20, second > 0)"
    )
    assert text == "True True True"
