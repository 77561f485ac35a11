"""Which Python files and notebooks a folder holds, and the text of a Python file: everything that can be wrong with a
file ends in `Skipped`. Knows nothing of syntax, nor of what is inside a notebook.
"""

from __future__ import annotations

import codecs
import io
import os
import stat
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pathspec

LARGEST_FILE = 1 << 20
"""Bytes. Of all modules of torch, transformers and sympy one is larger (1.4 MB of test tables); in the worst case the
syntax tree and facts of a file take some 800 times its size."""

_SEARCHED = (".py", ".ipynb")
_SKIPPED_FOLDERS = frozenset({"__pycache__", "site-packages", "node_modules", "__pypackages__"})
_SLOW_CODECS = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "utf-7", "undefined"})
"""No source is written in these, and some need quadratic time to decode."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not read, or one cell of a notebook whose other cells were, and why."""

    path: str
    reason: str
    cell: int | None = None
    line: int | None = None

    def __str__(self) -> str:
        parts = [self.path, f"cell {self.cell}" if self.cell else "", str(self.line or "")]
        return f"{':'.join(part for part in parts if part)}: {self.reason}"


@dataclass(frozen=True, slots=True)
class PythonFile:
    """A file to read. `shown` is the path that reports use, `module` its dotted module name."""

    path: Path
    shown: str
    module: str

    @property
    def is_package(self) -> bool:
        """Whether this is the `__init__.py` of a package."""
        return self.path.name == "__init__.py"


class UnreadableFile(Exception):  # noqa: N818 - a reason, met and reported inside this room
    """The file cannot be read as Python text; the message is the reason."""


def find_files(paths: Sequence[Path], root: Path | None) -> Iterator[PythonFile | Skipped]:
    """Yield the files that `paths` name, folders searched, sorted by path, each once.

    In a folder only `*.py` and `*.ipynb` count, and hidden folders, virtual environments, what `.gitignore` excludes
    and symbolic links are left out (the target of a link within the folder is found under its own name). A file that is
    named itself is taken whatever it is called.
    """
    seen: set[Path] = set()
    for path in paths:
        base = root if root is not None else path if path.is_dir() else path.parent
        for found in _walk(path) if path.is_dir() else [path]:
            if found not in seen:
                seen.add(found)
                yield _describe(found, base, root)


def _describe(path: Path, base: Path, root: Path | None) -> PythonFile | Skipped:
    shown = shown_path(path, root)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        return Skipped(shown, getattr(error, "strerror", None) or str(error))
    if not stat.S_ISREG(mode):
        return Skipped(shown, "not a regular file")
    return PythonFile(path, shown, module_name(path, base))


def shown_path(path: Path, root: Path | None) -> str:
    """Return `path` relative to `root` where it lies inside, with forward slashes."""
    if root is not None:
        try:
            return path.absolute().relative_to(root.absolute()).as_posix()
        except ValueError:
            pass
    return path.as_posix()


def module_name(path: Path, base: Path) -> str:
    """Return the dotted name under which `path` would be imported: from the outermost folder that still has an
    `__init__.py`, else from `base`. A notebook, which nothing imports, keeps its suffix."""
    folder = path.absolute().parent
    own = path.name if path.suffix == ".ipynb" else path.stem
    names = [] if path.name == "__init__.py" else [own]
    outside = not (folder / "__init__.py").is_file()
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        names.append(folder.name)
        folder = folder.parent
    if outside and folder.is_relative_to(base.absolute()):
        names.extend(reversed(folder.relative_to(base.absolute()).parts))
    return ".".join(reversed(names))


def _walk(folder: Path) -> Iterator[Path]:
    ignored = _Ignored(folder)
    for current, folders, files in os.walk(folder, followlinks=False):
        here = Path(current)
        ignored.enter(here)
        folders[:] = sorted(
            name for name in folders if _is_searched(here / name) and not ignored.excludes(here / name, True)
        )
        for name in sorted(files):
            path = here / name
            if name.endswith(_SEARCHED) and not path.is_symlink() and not ignored.excludes(path, False):
                yield path


def _is_searched(folder: Path) -> bool:
    if folder.name.startswith(".") or folder.name in _SKIPPED_FOLDERS or folder.is_symlink():
        return False
    return not (folder / "pyvenv.cfg").exists()


class _Ignored:
    """The `.gitignore` files that apply to a folder: its own, those below it, and those above it in its repository."""

    def __init__(self, folder: Path) -> None:
        self._specs: dict[Path, pathspec.GitIgnoreSpec] = {}
        top = folder.absolute()
        above = [top, *top.parents]
        repository = next((place for place in above if (place / ".git").exists()), top)
        for place in above[1 : above.index(repository) + 1]:
            self.enter(place)
        if self.excludes(top, True):  # the user named an ignored folder: it is meant to be read
            self._specs.clear()

    def enter(self, folder: Path) -> None:
        """Read the `.gitignore` of `folder`, if it has one."""
        path = folder / ".gitignore"
        if path.is_file():
            try:
                self._specs[folder.absolute()] = pathspec.GitIgnoreSpec.from_lines(
                    path.read_text("utf-8", "replace").splitlines()
                )
            except (OSError, ValueError):
                return  # a broken pattern excludes nothing

    def excludes(self, path: Path, is_folder: bool) -> bool:
        """Tell whether `path` is ignored; the nearest `.gitignore` with an opinion wins."""
        if not self._specs:
            return False
        absolute = path.absolute()
        for folder in absolute.parents:
            spec = self._specs.get(folder)
            if spec is not None:
                relative = absolute.relative_to(folder).as_posix() + ("/" if is_folder else "")
                answer = spec.check_file(relative).include
                if answer is not None:
                    return answer
        return False


def read_text(path: Path) -> str:
    """Return the text of a Python file by its own encoding declaration, with `\\n` line ends.

    Raises UnreadableFile with the reason.
    """
    too_large = f"larger than {LARGEST_FILE >> 20} MB: generated code or data, not source that a person wrote"
    return decode(read_bytes(path, LARGEST_FILE, too_large))


_unsaved: ContextVar[Mapping[Path, bytes]] = ContextVar("unsaved", default=MappingProxyType({}))


@contextmanager
def unsaved(contents: Mapping[Path, bytes]) -> Iterator[None]:
    """Inside this block files hold these bytes, whatever is on the disk: so a change is looked at before it is made.

    Paths are absolute, without symbolic links.
    """
    token = _unsaved.set(contents)
    try:
        yield
    finally:
        _unsaved.reset(token)


def read_bytes(path: Path, limit: int, too_large: str) -> bytes:
    """Return the bytes of a file. Raises UnreadableFile, with the reason `too_large` for more than `limit` bytes."""
    data = _unsaved.get().get(path)
    try:
        if data is None:
            with path.open("rb") as file:
                data = file.read(limit + 1)
    except OSError as error:
        raise UnreadableFile(error.strerror or str(error)) from None
    if len(data) > limit:
        raise UnreadableFile(too_large)
    return data


def decode(data: bytes) -> str:
    """Decode the bytes of a Python file. Raises UnreadableFile."""
    encoding = _encoding(data)
    codec = codecs.lookup(encoding)
    if codec.name.replace("_", "-") in _SLOW_CODECS:
        raise UnreadableFile(f"no source is written in the encoding {codec.name}")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"not valid {encoding} at byte {error.start}") from None
    except (LookupError, ValueError) as error:
        raise UnreadableFile(f"cannot be decoded as {encoding}: {error}") from None
    if "\0" in text:
        raise UnreadableFile("contains NUL bytes: not a text file")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _encoding(data: bytes) -> str:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:  # no such encoding, or none declared and the first lines are not UTF-8
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as bad:
            raise UnreadableFile(f"not valid utf-8 at byte {bad.start}") from None
        raise UnreadableFile(f"its encoding is not known: {error}") from None
    return encoding
