"""Which interpreter a worker gets, and what that interpreter gets to see of ours."""

from __future__ import annotations

import ast
import os
import site
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tensoraudit
from tensoraudit.probes import launch
from tensoraudit.probes.pool import Pool

MakePool = Callable[..., Pool]


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A virtual environment with nothing installed."""
    venv.create(tmp_path / "bare", symlinks=True)
    return tmp_path / "bare"


@pytest.fixture
def numpy_python(bare_python: Path) -> Path:
    """A virtual environment with numpy and nothing else."""
    packages = next((bare_python / "lib").glob("python*/site-packages"))
    ours = Path(np.__file__).parent.parent
    for name in ("numpy", "numpy.libs"):
        if (ours / name).exists():
            (packages / name).symlink_to(ours / name)
    return bare_python


def test_another_interpreter_needs_numpy_only_and_sees_nothing_of_ours(make_pool: MakePool, numpy_python: Path) -> None:
    pool = make_pool(interpreters={"fake": str(numpy_python)})
    there = pool.run("fake", "fake.surroundings", {}).result
    assert there is not None
    assert there["package"] == tensoraudit.__file__
    ours = {*site.getsitepackages(), str(Path(tensoraudit.__file__).parent.parent), "", str(Path.cwd())}
    assert not ours & set(there["path"])
    doubled = pool.run("fake", "fake.double", {"x": pool.put(np.arange(3))}).result
    assert doubled is not None
    assert pool.get(doubled["doubled"]).tolist() == [0, 2, 4]


def test_an_interpreter_without_numpy_is_missing(make_pool: MakePool, bare_python: Path) -> None:
    hello = make_pool(interpreters={"fake": str(bare_python / "bin" / "python")}).hello("fake")
    assert (hello.status, hello.reason) == ("missing", "No module named 'numpy'")


@pytest.mark.parametrize("given", ["/no/such/python", "no-such-python-anywhere", "/etc/passwd", "/etc", ""])
def test_a_path_without_interpreter_is_missing(make_pool: MakePool, given: str) -> None:
    hello = make_pool(interpreters={"fake": given}).hello("fake")
    assert (hello.status, hello.reason) == ("missing", f"there is no Python interpreter at {given}")


@pytest.mark.parametrize("given", ["/bin/true", "/bin/cat", "/bin/sh"])
def test_a_program_that_is_no_python_is_missing(make_pool: MakePool, given: str) -> None:
    hello = make_pool(interpreters={"fake": given}).hello("fake")
    assert hello.status == "missing"
    assert hello.reason.startswith(f"{given} does not start as a Python interpreter: exited with code ")


def test_a_file_that_the_system_cannot_run_is_missing(make_pool: MakePool, tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_bytes(b"\x00\x01")
    script.chmod(0o755)
    hello = make_pool(interpreters={"fake": str(script)}).hello("fake")
    assert (hello.status, hello.reason) == ("missing", f"{script} cannot be started: Exec format error")


def test_a_wrapper_script_works(make_pool: MakePool, tmp_path: Path, gone: Callable[[int], bool]) -> None:
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\necho "loading modules"\n"{sys.executable}" "$@"\nexit $?\n')
    wrapper.chmod(0o755)
    pool = make_pool(interpreters={"fake": str(wrapper)})
    hello = pool.hello("fake")
    assert hello.result is not None
    pool.close()
    assert gone(hello.result["pid"])


def test_an_interpreter_is_looked_up_by_role_then_side_then_framework(make_pool: MakePool) -> None:
    pool = make_pool(interpreters={"fake": "/none/a", "target": "/none/b", "fake:source": "/none/c"})
    reasons = [pool.hello(role).reason for role in ("fake", "fake:target", "fake:source", "fake:other")]
    assert [reason[-1] for reason in reasons] == ["a", "b", "c", "a"]


def test_a_worker_ends_when_its_channel_does(tmp_path: Path) -> None:
    started = launch.launch(
        sys.executable,
        "fake_framework",
        tmp_path,
        tmp_path / "home",
        marker="none.",
        memory=1 << 30,
        environment={"PYTHONPATH": str(Path(__file__).parent)},
    )
    with os.fdopen(started.replies, "rb") as replies, os.fdopen(started.stderr, "rb") as stderr:
        assert b'"python"' in replies.readline()
        assert b'"hello"' in replies.readline()
        os.close(started.requests)
        assert started.process.wait(30) == 0
        assert (replies.read(), stderr.read()) == (b"", b"")


def test_an_old_python_says_so_itself() -> None:
    tree = ast.parse(launch.BOOT, feature_version=(3, 4))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert "settings" in names
    assert not any(isinstance(node, ast.JoinedStr) for node in ast.walk(tree))


@pytest.mark.parametrize(
    "module", ["__init__", "probes/__init__", "probes/protocol", "probes/tensors", "probes/worker", "probes/isolation"]
)
def test_what_runs_in_a_worker_is_written_for_python_3_9(module: str) -> None:
    source = (Path(tensoraudit.__file__).parent / f"{module}.py").read_text()
    ast.parse(source, feature_version=(3, 9))
    assert "from __future__ import annotations" in source or module.endswith("probes/__init__")


def test_our_own_packages_on_pythonpath_stay_out_of_another_interpreter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours, theirs = site.getsitepackages()[0], str(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([ours, "", theirs]))
    assert launch._user_path(sys.executable, {}) == [ours, theirs]
    assert launch._user_path("/other/python", {}) == [theirs]


def test_variables_that_would_change_the_worker_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONPATH", "PYTHONSTARTUP", "PYTHONWARNINGS", "PYTHONHOME"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    other = launch._environment("/other/python", {"A": "1"}, {"B": "2"})
    assert not {"PYTHONPATH", "PYTHONSTARTUP", "PYTHONWARNINGS", "PYTHONHOME"} & set(other)
    assert (other["A"], other["B"], other["PYTHONHASHSEED"]) == ("1", "2", "0")
    assert launch._environment(sys.executable, {}, {})["PYTHONHOME"] == "x"
