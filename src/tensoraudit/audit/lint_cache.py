"""The results of earlier `lint` runs, kept under the user's cache folder by the digest of all they depend on.

A file holds the digest of its body on its first line and JSON on the second; nothing in it is ever executed. What
cannot be read, is damaged, or could have been written by somebody else is passed over in silence and computed afresh.
A result is kept only when nothing changed while it was made, and when it comes back from the file as it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from tensoraudit.audit.lint_key import lint_key
from tensoraudit.audit.plain_data import Misfit, reader_of
from tensoraudit.findings.result import Result
from tensoraudit.options import Options

MOST_BYTES: Final = 64 << 20
MOST_RESULTS: Final = 100
"""Of all results together; beyond these the ones that were used longest ago are removed."""

_STALE: Final = 3600.0
"""Seconds after which an unfinished file of a run that was killed may be removed."""


def cached_lint(options: Options, work: Callable[[], Result]) -> Result:
    """Return the result that `work` gives, from the cache if nothing it depends on has changed."""
    started = time.perf_counter()
    folder = cache_folder() if options.cache else None
    key = lint_key(options) if folder is not None else None
    if folder is None or key is None:
        return work()
    found = recall(folder, key)
    if found is not None:
        return replace(found, timings={"recall": time.perf_counter() - started})
    result = work()
    # A file may have been saved in between: then the result is of neither state.
    if not result.probes and lint_key(options) == key:
        keep(folder, key, result)
    return result


def cache_folder() -> Path | None:
    """Return the folder for results of `lint`, whether or not it is there; None when the user has no home."""
    stated = os.environ.get("XDG_CACHE_HOME", "")
    try:
        if stated and Path(stated).is_absolute():
            base = Path(stated)
        elif sys.platform == "win32":
            base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local")
        else:
            base = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    except RuntimeError:
        return None
    return base / "tensoraudit" / "lint"


def recall(folder: Path, key: str) -> Result | None:
    """Return the result kept under `key`, None if there is none that can be trusted."""
    path = folder / f"{key}.json"
    try:
        if not (_is_ours(folder) and _is_ours(path)) or path.stat().st_size > MOST_BYTES:
            return None
        result = _decoded(path.read_bytes(), key)
        os.utime(path)
    except (OSError, ValueError, RecursionError, Misfit):
        return None
    return result


def keep(folder: Path, key: str, result: Result) -> None:
    """Keep a result; silently nothing where that is not possible."""
    content = _encoded(result, key)
    if content is None or len(content) > MOST_BYTES:
        return
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _is_ours(folder):
            _write(folder / f"{key}.json", content)
            _evict(folder)


def _encoded(result: Result, key: str) -> bytes | None:
    """Return the content of a file, None when the result would not come back from it as it is."""
    kept = replace(result, timings={})
    try:
        body = json.dumps({"key": key, "result": asdict(kept)}, allow_nan=False).encode()
        content = _digest(body) + b"\n" + body
        return content if _decoded(content, key) == kept else None
    except (TypeError, ValueError, RecursionError, Misfit):
        return None


def _decoded(content: bytes, key: str) -> Result:
    """Raises ValueError or Misfit for what is not the result of `key`, whole."""
    digest, _, body = content.partition(b"\n")
    document = json.loads(body) if digest == _digest(body) else None
    if not isinstance(document, dict) or document.get("key") != key:
        raise ValueError("damaged")
    result: Result = reader_of(Result)(document.get("result"))
    return result


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=32).hexdigest().encode()


def _is_ours(path: Path) -> bool:
    """Tell whether only this user can have written here: a planted result would read as a pass."""
    if not hasattr(os, "getuid"):
        return True
    state = path.stat()
    return state.st_uid == os.getuid() and not state.st_mode & 0o022


def _write(path: Path, content: bytes) -> None:
    """Write whole or not at all: another run may read at the same moment."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _evict(folder: Path) -> None:
    """Remove what was used longest ago, until count and size are within the limits."""
    entries = [(path.stat(), path) for path in folder.iterdir() if path.suffix in {".json", ".part"}]
    room, total = MOST_RESULTS, 0
    for state, path in sorted(entries, key=lambda entry: -entry[0].st_mtime_ns):
        if path.suffix == ".part":
            if time.time() - state.st_mtime > _STALE:
                path.unlink(missing_ok=True)
            continue
        room, total = room - 1, total + state.st_size
        if room < 0 or total > MOST_BYTES:
            path.unlink(missing_ok=True)
