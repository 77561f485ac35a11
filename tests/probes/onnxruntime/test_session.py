from __future__ import annotations

import os

import onnxruntime
import pytest

from tensoraudit.probes.onnxruntime.session import (
    LEVELS,
    Settings,
    captured_stderr,
    open_file,
    session_options,
    settings_from,
)


@pytest.mark.parametrize("level", list(LEVELS))
def test_everything_that_can_move_a_result_is_pinned(level):
    options = session_options(Settings(level=level, threads=3))
    assert options.graph_optimization_level == getattr(onnxruntime.GraphOptimizationLevel, LEVELS[level])
    assert options.execution_mode == onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (3, 1)
    assert options.use_deterministic_compute is True
    assert options.log_severity_level == 4


def test_defaults_do_not_depend_on_the_machine(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 128)
    assert settings_from({}) == Settings("cpu", "all", 2)
    assert settings_from({"provider": None, "level": None, "threads": None}) == Settings("cpu", "all", 2)


def test_placement_counts_the_nodes_that_really_run(bench, mlp):
    opened = open_file(mlp, Settings(level="disable"), bench.session)
    assert opened.settings["placement"] == {"CPUExecutionProvider": 4}


def test_what_native_code_writes_to_stderr_is_collected_and_the_stream_put_back(capfd):
    with captured_stderr() as said:
        os.write(2, b"from C++ \xff\n")
    os.write(2, b"after\n")
    assert said == ["from C++ \ufffd\n"]
    assert capfd.readouterr().err == "after\n"


def test_stream_is_put_back_after_an_error(capfd):
    with pytest.raises(RuntimeError), captured_stderr():
        raise RuntimeError
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"
