"""Listen to an exporter while it works: warnings, log messages, and the sizes that it fixes on the way.

Nothing of it reaches the screen. Must not know what the messages mean; `failure` does.
"""

from __future__ import annotations

import io
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from tensoraudit.routes.source import Place, frame_place, place, text_place

SHAPES = "torch.fx.experimental.symbolic_shapes"
_TALKERS = ("torch", "onnx", "onnxscript", "onnx_ir", "tf2onnx", "tensorflow")
_GUARD = re.compile(r"^(?:eval|runtime_assert) (?P<condition>[^\[]+?) \[guard added\](?P<rest>.*)", re.DOTALL)
_SYMBOL = re.compile(r"^create_symbol (?P<symbol>\w+) = \d+ for (?P<tensor>.+?)\.size\(\)\[(?P<axis>\d+)\]")
_GUARD_LINE = re.compile(r"(?P<text>\S[^\n#]*)# (?P<path>[^\s:]+):(?P<line>\d+) in ")
_UNNAMED = re.compile(r"\b(?:z?u|zuf|s)\d+\b")  # a symbol of no input's size: a value, nothing a user could look up

_FIXED = re.compile(r"Eq\((?:[^,]*\.shape\[\d+\][^,]*), \d+\)$")

# What exporters say about themselves, whatever the model is.
_SMALL_TALK = re.compile(
    r"legacy TorchScript-based ONNX export|feature will be removed|is deprecated|will not be used, since it shares"
    r"|torchvision is not installed|Exporting a model while it is in training mode"
    r"|_flat_weights\[\d+\].* were assigned during export"
    r"|no signature found for|always_classified is unsupported|Unable to find user code",
)


class ExportLog:
    """What was said during one export.

    `names` are the flat arguments in the order of the call. `warnings` are sentences with the user's line in front
    where one is known.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.warnings: list[str] = []
        self._names = names
        self._traces: list[_Trace] = []

    @property
    def guards(self) -> list[dict[str, Any]]:
        """Conditions on sizes that the last trace relied on, as {"condition", "source"}: for sizes that break one, the
        exported graph is another branch's."""
        return self._traces[-1].guards if self._traces else []

    @property
    def fixed(self) -> dict[str, Place]:
        """The conditions that fix a size to one value, with the lines that did.

        Of the first trace: when it fails, torch.onnx tries others, which know the lines less well.
        """
        guards = self._traces[0].guards if self._traces else []
        return {
            each["condition"]: each["source"] for each in guards if each["source"] and _FIXED.match(each["condition"])
        }

    @contextmanager
    def listen(self) -> Iterator[None]:
        """Collect everything that is said inside."""
        talk = io.StringIO()
        with (
            warnings.catch_warnings(),
            _own_handlers(self),
            _silent_stdout(),
            redirect_stdout(talk),
            redirect_stderr(talk),
        ):
            warnings.simplefilter("always")
            warnings.showwarning = self._warned  # type: ignore[assignment]
            yield

    def _warned(self, message: Any, category: type[Warning], filename: str, lineno: int, *_: Any) -> None:
        own = frame_place()
        if issubclass(category, (DeprecationWarning, PendingDeprecationWarning, FutureWarning)) and own is None:
            return
        self.say(str(message), own or place(filename, lineno))

    def say(self, text: str, at: Place | None) -> None:
        """Note one message, once."""
        if _SMALL_TALK.search(text):
            return
        sentence = " ".join(text.split("\n\n", maxsplit=1)[0].split())
        line = f"{at['path']}:{at['line']}: {sentence}" if at else sentence
        if line not in self.warnings:
            self.warnings.append(line)

    def shapes(self, text: str) -> None:
        """Note a symbol or a condition on sizes, if the message is about one."""
        if found := _SYMBOL.match(text):
            # A new trace begins with the symbols of its inputs, before any condition.
            if not self._traces or self._traces[-1].guards or found["symbol"] in self._traces[-1].symbols:
                self._traces.append(_Trace())
            self._traces[-1].symbols[found["symbol"]] = f"{self._plain(found['tensor'])}.shape[{found['axis']}]"
        elif self._traces and (found := _GUARD.match(text)):
            self._traces[-1].add(found["condition"], found["rest"])

    def _plain(self, tensor: str) -> str:
        """The flat name of `L['states'][0]` (`states.0`) or of `L['flat_args'][1]`."""
        flat = re.match(r"^L\['flat_args'\]\[(\d+)\]$", tensor)
        if flat and int(flat[1]) < len(self._names):
            return self._names[int(flat[1])]
        return re.sub(r"\['?([^'\]]+)'?\]", r".\1", tensor.removeprefix("L")).lstrip(".")


class _Trace:
    """One attempt of torch.export: what its symbols stand for, and what it relied on."""

    def __init__(self) -> None:
        self.symbols: dict[str, str] = {}
        self.guards: list[dict[str, Any]] = []

    def add(self, symbolic: str, rest: str) -> None:
        condition = re.sub(r"\w+", lambda name: self.symbols.get(name[0], name[0]), symbolic)
        if _UNNAMED.search(condition) or any(guard["condition"] == condition for guard in self.guards):
            return
        named = _GUARD_LINE.search(rest)
        source = frame_place() or (place(_whole(named["path"]), int(named["line"]), named["text"]) if named else None)
        self.guards.append({"condition": condition, "source": source})


def _whole(path: str) -> str:
    """The log cuts the front off its paths; find the loaded file that ends so."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return next((file for file in files if file and file.endswith(path)), path)


class _Listener(logging.Handler):
    def __init__(self, log: ExportLog) -> None:
        super().__init__(logging.INFO)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.name == SHAPES and record.levelno < logging.WARNING:
            self._log.shapes(text)
        elif record.levelno >= logging.WARNING and record.name.startswith(("torch.onnx", "onnx", "tf2onnx")):
            self._log.say(text, text_place(text))


@contextmanager
def _own_handlers(log: ExportLog) -> Iterator[None]:
    """Put one handler in the place of all that the exporters' loggers have."""
    loggers = [logging.getLogger(name) for name in {*_TALKERS, SHAPES, *_known_loggers()}]
    before = [(each, each.handlers[:], each.level, each.propagate) for each in loggers]
    listener = _Listener(log)
    for each in loggers:
        top = each.name in _TALKERS
        each.handlers = [listener] if top else []
        each.propagate = not top
    logging.getLogger(SHAPES).setLevel(logging.INFO)
    try:
        yield
    finally:
        for each, handlers, level, propagate in before:
            each.handlers, each.propagate = handlers, propagate
            each.setLevel(level)


def _known_loggers() -> list[str]:
    names = logging.root.manager.loggerDict
    return [
        name for name in list(names) if name.partition(".")[0] in _TALKERS and isinstance(names[name], logging.Logger)
    ]


@contextmanager
def _silent_stdout() -> Iterator[None]:
    """The TorchScript exporter prints whole graphs, from C++, past sys.stdout."""
    sys.stdout.flush()
    saved, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)
        os.close(nowhere)
