"""Find the user's own line: in a stack, in an exception, or in the text that a framework wrote about one.

A place is plain JSON: {"path", "line", "text"}. Knows no framework beyond the folders whose frames are never the
user's.
"""

from __future__ import annotations

import linecache
import re
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

Place = dict[str, Any]

_MACHINERY = re.compile(
    r"[\\/](torch|torchgen|onnx|onnxscript|onnx_ir|numpy|tensoraudit"
    r"|jax|jaxlib|flax|jax2onnx|tensorflow|keras|tf_keras|tf2onnx|onnx2torch|torchax)[\\/]"
)
_PACKAGES = re.compile(r"[\\/](site|dist)-packages[\\/]")
_STANDARD_LIBRARY = tuple(
    {str(Path(path).resolve()) for path in (sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["platstdlib"])}
)
_OWN = str(Path(__file__).resolve().parents[1])
_LISTENERS = ("source.py", "export_log.py", "recorder.py", "precision.py")
"""Our files whose frames stand further in than the user's; any other of ours is the one that called the user's code."""

_CODE_LINE = r'File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in \w+)?\n\s*(?P<text>[^\n]*)'
_TEXTS = (
    # torch.export: the Python call that a data-dependent guard came from.
    re.compile(r"The following call raised this error:\n\s*" + _CODE_LINE),
    # torch._dynamo: the frames of user code, innermost last.
    re.compile(r"from user code:\n(?:.*\n)*?\s*" + _CODE_LINE + r"(?=\n\s*\n|\s*$)"),
    # TensorFlow's autograph: the frames that it converted end in a star, innermost last.
    re.compile(
        r'File "(?P<path>[^"]+)", line (?P<line>\d+), in \w+  \*\n\s*(?P<text>[^\n]*)'
        r"(?=\n|\Z)(?!(?:\n[^\n]*)*?\n[^\n]*  \*\n)"
    ),
    # A comment in a printed FX graph.
    re.compile(r"# File: (?P<path>[^\n]+?):(?P<line>\d+) in \w+, code: (?P<text>[^\n]*)"),
    # TorchScript's interpreter: the line of the Python that was scripted comes first, the serialised one after it.
    re.compile(
        r'File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in \w+)?\n(?:(?!File ")[^\n]*\n)*?'
        r"(?P<text>[^\n]*)\n\s*~+(?: <--- HERE)?(?:\n|$)"
    ),
)


@lru_cache(maxsize=4096)
def is_machinery(filename: str) -> bool:
    """Whether a frame of this file is the framework's, Python's or ours, and so nothing that a user can change."""
    if filename.startswith(("<", _OWN)) or "__autograph_generated_file" in filename:
        return True
    path = str(Path(filename).resolve())
    if _PACKAGES.search(path):
        return _MACHINERY.search(path[_PACKAGES.search(path).start() :]) is not None  # type: ignore[union-attr]
    return path.startswith(_STANDARD_LIBRARY)


def place(path: str, line: int, text: str = "") -> Place:
    """Return a place; the text of the line is read when it is not given and the file is there."""
    return {"path": path, "line": line, "text": (text or linecache.getline(path, line)).strip()}


def frame_place() -> Place | None:
    """Return the innermost line of the current call that is the user's, or of a library such as transformers."""
    current: FrameType | None = sys._getframe(1)
    while current is not None:
        file = current.f_code.co_filename
        if file.startswith(_OWN) and not file.endswith(_LISTENERS):
            return None
        if not is_machinery(file):
            return place(file, current.f_lineno)
        current = current.f_back
    return None


def chain(error: BaseException) -> list[BaseException]:
    """Return an exception and what caused it, the root cause last."""
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found:
        found.append(current)
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return found


def frames(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames of a traceback with their lines, outermost first."""
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def error_place(error: BaseException) -> Place | None:
    """Return the user's line nearest to where an exception was raised: root cause first, innermost frame first."""
    for cause in reversed(chain(error)):
        for frame, line in reversed(list(frames(cause.__traceback__))):
            if not is_machinery(frame.f_code.co_filename):
                return place(frame.f_code.co_filename, line)
    return None


def text_place(message: str) -> Place | None:
    """Return the place that a framework's message names, in whichever of the known forms.

    The Python that a script was made from comes before the serialised code inside its file.
    """
    found = [place(each["path"], int(each["line"]), each["text"]) for each in _matches(message)]
    original = [each for each in found if not each["path"].startswith("code/")]
    return next(iter([*original, *found]), None)


def _matches(message: str) -> Iterator[re.Match[str]]:
    for pattern in _TEXTS:
        yield from pattern.finditer(message)


_STACK_LINE = re.compile(r'File "(?P<path>[^"]+)", line (?P<line>\d+)')
_RANGE_LINE = re.compile(r"^(?P<path>[^\n(]+)\((?P<line>\d+)\): ", re.MULTILINE)


def stack_place(stack: str | None) -> Place | None:
    """Return the innermost line of the user's in a printed stack: `torch.fx` (innermost last) or TorchScript
    (`file.py(12): forward`, innermost first), or the source range that TorchScript stores with a scripted file."""
    text = stack or ""
    if scripted := text_place(text):
        return scripted
    lines = [*reversed(list(_STACK_LINE.finditer(text))), *_RANGE_LINE.finditer(text)]
    own = [found for found in lines if not is_machinery(found["path"])]
    return place(own[0]["path"], int(own[0]["line"])) if own else None


def in_package(filename: str) -> bool:
    """Whether a file belongs to an installed package or to Python itself."""
    path = str(Path(filename).resolve())
    return _PACKAGES.search(path) is not None or path.startswith(_STANDARD_LIBRARY)
