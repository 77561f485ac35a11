"""The file of `--map` and `--write-map`: which input, output and parameter of the candidate belongs to which of the
reference, by the reference's names.

    inputs: {image: {name: x, transpose: [0, 3, 1, 2]}}
    outputs: {logits: output}
    parameters:
      conv/kernel: {name: conv.weight, transpose: [3, 2, 0, 1]}
      gru/bias: [{name: gru.bias_ih_l0, take: 0}, {name: gru.bias_hh_l0, take: 1}]

Steps are those of `equivalence.steps`, applied in the order in which they are written; `steps` holds a list of them
where one is needed twice. An entry without a partner (`null`) is left alone. No two
inputs and no two outputs have one partner; a parameter may be the sum of several.
"""

from __future__ import annotations

import json
import os
import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tensoraudit.equivalence.parameter import Term
from tensoraudit.equivalence.steps import STEPS, Steps
from tensoraudit.errors import InputError

SECTIONS = ("inputs", "outputs", "parameters")
LARGEST = 4 << 20
"""Bytes of a map; ten thousand parameters take less than half of it."""

_PLAIN = re.compile(r"[A-Za-z_][\w./-]*")
_WORDS_OF_YAML = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Partner:
    """The candidate's name for an input or output, and its axes: as for numpy.transpose from the reference's layout."""

    name: str
    transpose: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PortMap:
    """A map as it was read. `parameters` are the terms of each of the candidate's parameters."""

    inputs: Mapping[str, Partner] = field(default_factory=dict)
    outputs: Mapping[str, Partner] = field(default_factory=dict)
    parameters: Mapping[str, tuple[Term, ...]] = field(default_factory=dict)


def read_map(path: str) -> PortMap:
    """Read a map. Raises InputError that says which entry is wrong."""
    content = _content(path)
    if not isinstance(content, Mapping) or set(content) - set(SECTIONS):
        raise InputError(
            "this is no map", where=path, remedy=f"Its sections are {', '.join(SECTIONS)}; --write-map writes a draft."
        )
    sections = {name: content.get(name) or {} for name in SECTIONS}
    for name, section in sections.items():
        if not isinstance(section, Mapping):
            raise InputError(f"{name} is no mapping of names", where=path, remedy="Write reference: candidate.")
    return PortMap(
        _partners(sections["inputs"], path), _partners(sections["outputs"], path), _terms(sections["parameters"], path)
    )


def _content(path: str) -> Any:
    """What the file holds, each name once. Raises InputError."""
    try:
        if Path(path).stat().st_size > LARGEST:
            raise InputError(f"this is no map: it is larger than {LARGEST >> 20} MiB", where=path)
        text = Path(path).read_text(encoding="utf-8")
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=_Loader)):
            raise InputError("a map has no aliases (*name)", where=path, remedy="Write the entry out.")
        tree = yaml.compose(text, Loader=_Loader)
        twice = next(_written_twice(tree), None)
        content = None if twice else yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError) as problem:
        raise InputError(str(problem).splitlines()[0], where=path, remedy="Write a draft with --write-map.") from None
    except RecursionError:
        raise InputError("this is no map: it is nested too deeply", where=path) from None
    if twice:
        raise InputError(
            f"{twice.value} stands there twice (line {twice.start_mark.line + 1})",
            where=path,
            remedy="Write one entry for a name; several partners go into a list.",
        )
    return content


def _written_twice(tree: Any) -> Iterator[Any]:
    """Yield the names of a mapping, or of one directly in it, that were there before."""
    for mapping in (tree, *(value for _, value in _pairs(tree))):
        seen: set[str] = set()
        for key, _ in _pairs(mapping):
            if str(key.value) in seen:
                yield key
            seen.add(str(key.value))


def _pairs(node: Any) -> list[tuple[Any, Any]]:
    return node.value if isinstance(node, yaml.MappingNode) else []


def _entry(name: str, value: Any, path: str) -> tuple[str, Steps]:
    """One partner: its name and its steps."""
    if isinstance(value, str):
        return value, ()
    listed = value.get("steps", []) if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str) or not isinstance(listed, list):
        raise InputError(
            f"{name} has the partner {reprlib.repr(value)}",
            where=path,
            remedy="Write a name, or {name: ..., transpose: [...]}.",
        )
    steps = [{key: each} for key, each in value.items() if key not in {"name", "steps"}] + listed
    for step in steps:
        if not isinstance(step, Mapping) or len(step) != 1 or next(iter(step)) not in STEPS:
            raise InputError(
                f"{name} has the step {reprlib.repr(step)}", where=path, remedy=f"Steps are {', '.join(STEPS)}."
            )
        _check_axes(name, step.get("transpose", []), path)
    return value["name"], tuple(steps)


def _check_axes(name: str, axes: Any, path: str) -> None:
    plain = isinstance(axes, list) and all(type(each) is int for each in axes)
    if not plain or sorted(axes) != list(range(len(axes))):
        raise InputError(
            f"{name} has the transposition {reprlib.repr(axes)}",
            where=path,
            remedy="Write every axis once, counted from 0, as numpy.transpose takes them.",
        )


def _partners(section: Mapping[str, Any], path: str) -> dict[str, Partner]:
    found: dict[str, Partner] = {}
    for name, value in section.items():
        if value is None:
            continue
        partner, steps = _entry(str(name), value, path)
        if any(next(iter(step)) != "transpose" for step in steps) or len(steps) > 1:
            raise InputError(f"{name} can only be transposed", where=path, remedy="Write transpose: [...].")
        if rival := next((other for other, each in found.items() if each.name == partner), None):
            raise InputError(
                f"{rival} and {name} have one partner, {partner}", where=path, remedy="Correct one of them."
            )
        found[str(name)] = Partner(partner, tuple(steps[0]["transpose"]) if steps else ())
    return found


def _terms(section: Mapping[str, Any], path: str) -> dict[str, tuple[Term, ...]]:
    found: dict[str, tuple[Term, ...]] = {}
    for name, value in section.items():
        for each in value if isinstance(value, list) else [] if value is None else [value]:
            partner, steps = _entry(str(name), each, path)
            found[partner] = (*found.get(partner, ()), Term(str(name), steps))
    return found


Row = tuple[str, Any, str]
"""The reference's name, its partner as the file holds it, and how it was found."""


def write_map(path: str, sections: Mapping[str, Sequence[Row]], left: Sequence[str] = ()) -> None:
    """Write a draft, with how each pair was found as a comment. `left` are the candidate's parameters without a
    partner. Raises InputError when the file cannot be written; then nothing is left of it."""
    head = "# Draft of a map: reference name: candidate name. Correct it, and give it with --map."
    lines = [line for name in SECTIONS for line in _lines(name, sections.get(name, ()))]
    rest = (f"# without a partner in the candidate: {_shown(name)}" for name in left)
    text = "\n".join([head, *lines, *rest]) + "\n"
    check_draft(path)
    draft = Path(f"{path}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as problem:
        draft.unlink(missing_ok=True)
        raise InputError(problem.strerror or str(problem), where=path, remedy=_WRITABLE) from None


_WRITABLE = "Name a file that can be written, in a folder that exists."


def check_draft(path: str) -> None:
    """Raise InputError when a draft cannot be written to a path: it is known before an audit of minutes, and no map
    that somebody corrected is written over."""
    folder = Path(path).absolute().parent
    if os.path.lexists(path):
        raise InputError("there is a file already", where=path, remedy="Name another one, or remove it first.")
    if not folder.is_dir():
        raise InputError(f"No such file or directory: {folder}", where=path, remedy=_WRITABLE)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"Permission denied: {folder}", where=path, remedy=_WRITABLE)


def _lines(section: str, rows: Sequence[Row]) -> Iterator[str]:
    yield f"{section}:" if rows else f"{section}: {{}}"
    for name, partner, how in rows:
        yield f"  {_shown(name)}: {_shown(partner)}  # {how}"


def _shown(value: Any) -> str:
    plain = isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS_OF_YAML
    return str(value) if plain else json.dumps(value)


def entry(name: str, steps: Steps) -> Any:
    """A partner as the file holds it: a name alone where nothing is to be done."""
    if not steps:
        return name
    keys = [next(iter(step)) for step in steps]
    if len(set(keys)) < len(keys):
        return {"name": name, "steps": [dict(step) for step in steps]}
    return {"name": name, **{key: value for step in steps for key, value in step.items()}}
