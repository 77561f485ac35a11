"""What exporters say while they work."""

import logging
import os
import sys
import warnings

from tensoraudit.routes.export_log import SHAPES, ExportLog


def test_warnings_come_once_with_the_users_line_and_small_talk_is_dropped():
    log = ExportLog()
    with log.listen():
        for _ in range(2):
            warnings.warn("sizes   are\nfrozen\n\nlong explanation", UserWarning, stacklevel=1)
        warnings.warn("You are using the legacy TorchScript-based ONNX export. More.", DeprecationWarning, stacklevel=1)
    (said,) = log.warnings
    assert said.startswith(f"{__file__}:")
    assert said.endswith(": sizes are frozen")


def test_messages_of_the_exporters_loggers_are_warnings_too():
    logger = logging.getLogger("torch.onnx.somewhere")
    log = ExportLog()
    with log.listen():
        logger.warning("the opset will be kept at %s", 18)
        logger.info("nothing of interest")
        logging.getLogger("torch._dynamo").warning("graph break")
    assert log.warnings == ["the opset will be kept at 18"]


def test_loggers_are_put_back():
    logger = logging.getLogger(SHAPES)
    before = (logger.level, list(logger.handlers), logger.propagate)
    with ExportLog().listen():
        assert logger.level == logging.INFO
    assert (logger.level, list(logger.handlers), logger.propagate) == before


def test_nothing_reaches_stdout(capfd):
    with ExportLog().listen():
        print("from Python")
        os.write(1, b"from C++")
    print("afterwards")
    sys.stdout.flush()
    assert capfd.readouterr().out == "afterwards\n"


def say(*messages, names=()):
    log = ExportLog(names)
    with log.listen():
        for message in messages:
            logging.getLogger(SHAPES).info(message)
    return log


X = "create_symbol s77 = 6 for L['x'].size()[1] [0, int_oo] (a.py:1 in f), for more info"


def test_guards_speak_of_inputs_and_know_the_line():
    (guard,) = say(X, "eval s77 > 5 [guard added] (net.py:8 in forward), for more").guards
    assert guard["condition"] == "x.shape[1] > 5"
    assert guard["source"]["path"] == __file__


def test_values_that_no_input_has_are_left_out():
    assert say(X, "eval u0 >= 0 [guard added] (net.py:8 in forward)").guards == []


def test_only_the_last_trace_guards_but_the_first_knows_what_was_fixed():
    log = say(
        X,
        "eval Eq(s77, 6) [guard added] (net.py:8 in forward)",
        "create_symbol s5 = 6 for L['flat_args'][1].size()[0] [0, int_oo] (a.py:1 in f)",
        "runtime_assert s5 > 2 [guard added] (net.py:9 in forward)",
        names=["x", "states.0"],
    )
    assert list(log.fixed) == ["Eq(x.shape[1], 6)"]
    assert [guard["condition"] for guard in log.guards] == ["states.0.shape[0] > 2"]
