"""The options of an audit: defaults, then `[tool.tensoraudit]` of pyproject.toml, then the command line."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tensoraudit.errors import ConfigError

FRAMEWORKS = ("pytorch", "tensorflow", "jax")
"""What a model can be made of."""

TARGETS = ("onnx", "pytorch", "tensorflow", "jax")
DEVICES = ("cpu", "cuda", "all")
FAIL_ON = ("critical", "high", "medium", "low", "never")
MEMORY_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True)
class Options:
    """Everything a user can set. Times are in seconds, memory in bytes (per worker). `targeted` says whether the user
    named the target."""

    target: tuple[str, ...] = ("onnx",)
    inputs: tuple[str, ...] = ()
    input: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    model: str | None = None
    framework: str | None = None
    via: str | None = None
    opset: int | None = None
    device: str = "cpu"
    tolerance: float | None = None
    gradients: bool = False
    seed: int = 0
    trust: bool = False
    timeout: float = 600.0
    memory: int = 8 << 30
    python: Mapping[str, str] = field(default_factory=dict)
    report: tuple[str, ...] = ("console",)
    fail_on: str = "high"
    baseline: str | None = None
    reproducer: str | None = None
    map: str | None = None
    write_map: str | None = None
    checkpoint: str | None = None
    values: bool = False
    by_value: bool = False
    save_after: int = 10
    steps: int = 5
    transfer: bool = False
    ignore: tuple[Mapping[str, Any], ...] = ()
    rules: tuple[str, ...] = ("default",)
    severity: Mapping[str, str] = field(default_factory=dict)
    off: tuple[str, ...] = ()
    cache: bool = True
    quiet: bool = False
    color: bool = True
    verbose: bool = False
    root: Path = Path()
    targeted: bool = False

    def source_paths(self) -> list[Path]:
        """The files and folders of source code that are named here, absolute: the factory's file and `code`."""
        model = [Path(self.model.rpartition(":")[0])] if self.model and ":" in self.model else []
        named = [*(each for each in model if each.exists()), *map(Path, self.code)]
        return [Path(os.path.realpath(path)) for path in named]  # `Path.resolve` raises for a loop of links


def _strings(value: Any) -> tuple[str, ...]:
    try:
        values = (value,) if isinstance(value, str) else tuple(value)
    except TypeError:
        raise ConfigError(f"{value!r} is no list", where="options", remedy='Write a list such as ["src"].') from None
    return tuple(str(each) for each in values)


def _entries(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{value!r} is no list", where="ignore", remedy="Write [[tool.tensoraudit.ignore]].")
    return tuple(value)


def _targets(value: Any) -> tuple[str, ...]:
    names = tuple(name.strip() for each in _strings(value) for name in each.split(",") if name.strip())
    for name in names:
        _one_of("target", name, TARGETS)
    if not names:
        raise ConfigError("no target is named", where="target", remedy=f"Name one of {', '.join(TARGETS)}.")
    return names


def _one_of(key: str, value: Any, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        near = get_close_matches(str(value), allowed, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise ConfigError(f"{value!r} is not known", where=key, remedy=f"{hint}Use one of {', '.join(allowed)}.")
    return str(value)


def _positive(key: str, kind: type[float] | type[int]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        try:
            number = kind(value)
        except (TypeError, ValueError, OverflowError):
            number = kind(0)
        if isinstance(value, bool) or not 0 < number < float("inf"):
            raise ConfigError(f"{value!r} is not a positive number", where=key, remedy="Give a number above 0.")
        return number

    return read


def _whole(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{value!r} is not a whole number", where="seed", remedy="Write for example 0.") from None


def parse_memory(value: Any) -> int:
    """Bytes from a number of bytes or a text such as `8GiB`, `512M`. Raises ConfigError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", str(value).lower())
    size = float(match[1]) * MEMORY_UNITS[match[2]] if match else 0.0
    if not 64 << 20 <= size < 1 << 63:
        raise ConfigError(f"{value!r} is no usable amount of memory", where="memory", remedy="Write for example 8GiB.")
    return int(size)


def parse_interpreters(value: Any) -> dict[str, str]:
    """`FRAMEWORK=/path/to/python` pairs, or a mapping of the same. Raises ConfigError."""
    if isinstance(value, Mapping):
        return {str(name): str(path) for name, path in value.items()}
    pairs = [each.partition("=") for each in _strings(value)]
    for name, equals, path in pairs:
        if not (name and equals and path):
            raise ConfigError(
                f"{name + equals + path!r} is not FRAMEWORK=PATH",
                where="python",
                remedy="Write pytorch=/path/to/python.",
            )
    return {name: path for name, _, path in pairs}


def _names(key: str, example: str) -> Callable[[Any], tuple[str, ...]]:
    def read(value: Any) -> tuple[str, ...]:
        names = (value,) if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name.strip() for name in names):
            raise ConfigError(f"{value!r} is no list of names", where=key, remedy=f"Write for example {example}.")
        return tuple(names)

    return read


def _packs(value: Any) -> tuple[str, ...]:
    names = _names("rules", 'rules = ["default", "./audit"]')(value)
    if not names:
        raise ConfigError("no pack is named", where="rules", remedy='Write rules = ["default"].')
    return names


def _table(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        remedy = 'Write [tool.tensoraudit.severity] and below it ONX-014 = "low".'
        raise ConfigError(f"{value!r} is no table", where="severity", remedy=remedy)
    return dict(value)


def _text(key: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str | Path) or not str(value).strip():
            raise ConfigError(f"{value!r} is no name", where=key, remedy=f'Write {key} = "NAME".')
        return str(value)

    return read


def _switch(key: str) -> Callable[[Any], bool]:
    def read(value: Any) -> bool:
        if not isinstance(value, bool):  # the text "false" would count as true
            raise ConfigError(f"{value!r} is neither true nor false", where=key, remedy=f"Write {key} = true.")
        return value

    return read


SWITCHES = ("gradients", "transfer", "values", "by_value", "trust", "cache", "quiet", "color", "verbose")

READERS: Mapping[str, Callable[[Any], Any]] = {
    "target": _targets,
    "inputs": _strings,
    "input": _strings,
    "code": _strings,
    "report": _strings,
    "framework": lambda value: _one_of("framework", value, FRAMEWORKS),
    "opset": _positive("opset", int),
    "save_after": _positive("save-after", int),
    "steps": _positive("steps", int),
    "device": lambda value: _one_of("device", value, DEVICES),
    "tolerance": _positive("tolerance", float),
    "timeout": _positive("timeout", float),
    "memory": parse_memory,
    "python": parse_interpreters,
    "fail_on": lambda value: _one_of("fail-on", value, FAIL_ON),
    "ignore": _entries,
    "rules": _packs,
    "severity": _table,
    "off": _names("off", 'off = ["ONX-020"]'),
    "seed": _whole,
    **{key: _text(key) for key in ("model", "via", "baseline", "reproducer", "map", "write_map", "checkpoint")},
    **{key: _switch(key) for key in SWITCHES},
}


def read_pyproject(folder: Path) -> dict[str, Any]:
    """The keys of `[tool.tensoraudit]` in the nearest pyproject.toml at or above `folder`. Raises ConfigError."""
    path = next((p for f in (folder, *folder.parents) if (p := f / "pyproject.toml").is_file()), None)
    if path is None:
        return {}
    try:
        tool = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
        table = tool.get("tensoraudit", {}) if isinstance(tool, Mapping) else tool
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(str(error), where=str(path), remedy="Correct the file.") from None
    if not isinstance(table, Mapping):
        raise ConfigError("tool.tensoraudit is no table", where=str(path), remedy="Write [tool.tensoraudit].")
    keys = {key.replace("-", "_"): value for key, value in table.items()}
    named = keys.get("rules")
    if isinstance(named, str | list):
        keys["rules"] = [_beside(path.parent, name) for name in ([named] if isinstance(named, str) else named)]
    return keys


def _beside(folder: Path, name: Any) -> Any:
    """A path in a file means beside that file, wherever the command is run."""
    return str(folder / name) if isinstance(name, str) and (name.startswith(".") or "/" in name) else name


def make_options(given: Mapping[str, Any], *, folder: Path | None = None) -> Options:
    """Options from what was `given` (None: not given), over pyproject.toml, over the defaults. Raises ConfigError."""
    folder = folder or Path.cwd()
    known = {each.name for each in fields(Options)} - {"root", "targeted"}
    merged = {**read_pyproject(folder), **{key: value for key, value in given.items() if value is not None}}
    for key in merged:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known keys: {', '.join(sorted(known))}."
            raise ConfigError(f"there is no option {key!r}", where="options", remedy=hint)
    values = {key: READERS[key](value) if key in READERS else value for key, value in merged.items()}
    return replace(Options(root=folder, targeted="target" in merged), **values)
