"""What the rest of a project can know of one file: plain data, written in origins, without any syntax tree.

Origins that lead into another file of the project are not followed here: they stay as written, with the steps that were
taken from there (`pkg.build()[0].conv`), and `python_project` follows them once every file has its summary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensoraudit.extract.python_origins import Origins, is_own


@dataclass(frozen=True, slots=True)
class FunctionSummary:
    """A function or method. `parameters` are those that may be passed by position, without the instance; None where a
    decorator may have changed them. `returned` counts from the instance: `self`, `self.conv`.

    `on_instance` tells that it needs an instance, `is_property` that reading the attribute gives what it returns,
    `keeps` that it returns its first argument, as a decorator that only registers a function does.
    """

    parameters: tuple[str, ...] | None
    returned: Origins
    on_instance: bool = False
    is_property: bool = False
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class ClassSummary:
    """A class: its direct bases, what its instances hold, its constants, its methods, and the parameters of its
    constructor where it defines one itself."""

    bases: Origins
    attributes: Mapping[str, Origins]
    constants: Mapping[str, Any]
    methods: Mapping[str, FunctionSummary]
    fields: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """A file. `exports` are the names of the module, `stars` the modules of `from m import *`, `public` what a star
    import of this file gives, `changed` the dotted names that it sets elsewhere (`config.N = 1`)."""

    module: str
    exports: Mapping[str, Origins]
    constants: Mapping[str, Any]
    stars: tuple[str, ...]
    public: tuple[str, ...] | None
    functions: Mapping[str, FunctionSummary]
    classes: Mapping[str, ClassSummary]
    changed: frozenset[str]


def relative_to(receiver: str, origins: Origins) -> Origins:
    """Return `origins` with the instance named: `self.conv` of `pkg.Net()` is `pkg.Net().conv`."""
    if not any(map(is_own, origins)):
        return origins
    return tuple(f"{receiver}{origin[4:]}" if is_own(origin) else origin for origin in origins)
