"""The file of `--map` and `--write-map`: which input, output and parameter of the candidate belongs to which of the
reference, by the reference's names.

    inputs: {image: {name: x, transpose: [0, 3, 1, 2]}}
    outputs: {logits: output}
    parameters:
      conv/kernel: {name: conv.weight, transpose: [3, 2, 0, 1]}
      gru/bias: [{name: gru.bias_ih_l0, take: 0}, {name: gru.bias_hh_l0, take: 1}]

Steps are those of `equivalence.steps`, applied in the order in which they are written; `steps` holds a list of them
where one is needed twice. An entry without a partner (`null`) is left alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tensoraudit.equivalence.parameter import Term
from tensoraudit.equivalence.steps import STEPS, Steps
from tensoraudit.errors import InputError

SECTIONS = ("inputs", "outputs", "parameters")
_PLAIN = re.compile(r"[A-Za-z_][\w./-]*")


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
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise InputError(str(problem).splitlines()[0], where=path, remedy="Write a draft with --write-map.") from None
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


def _entry(name: str, value: Any, path: str) -> tuple[str, Steps]:
    """One partner: its name and its steps."""
    if isinstance(value, str):
        return value, ()
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise InputError(
            f"{name} has the partner {value!r}", where=path, remedy="Write a name, or {name: ..., transpose: [...]}."
        )
    steps = [{key: each} for key, each in value.items() if key not in {"name", "steps"}] + list(value.get("steps", ()))
    for step in steps:
        if not isinstance(step, Mapping) or len(step) != 1 or next(iter(step)) not in STEPS:
            raise InputError(f"{name} has the step {step!r}", where=path, remedy=f"Steps are {', '.join(STEPS)}.")
    return value["name"], tuple(steps)


def _partners(section: Mapping[str, Any], path: str) -> dict[str, Partner]:
    found = {}
    for name, value in section.items():
        if value is None:
            continue
        partner, steps = _entry(str(name), value, path)
        if any(next(iter(step)) != "transpose" for step in steps) or len(steps) > 1:
            raise InputError(f"{name} can only be transposed", where=path, remedy="Write transpose: [...].")
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
    partner. Raises InputError when the file cannot be written."""
    head = "# Draft of a map: reference name: candidate name. Correct it, and give it with --map."
    lines = [line for name in SECTIONS for line in _lines(name, sections.get(name, ()))]
    text = "\n".join([head, *lines, *(f"# without a partner in the candidate: {name}" for name in left)]) + "\n"
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as problem:
        raise InputError(
            problem.strerror or str(problem), where=path, remedy="Name a file that can be written."
        ) from None


def _lines(section: str, rows: Sequence[Row]) -> Iterator[str]:
    yield f"{section}:" if rows else f"{section}: {{}}"
    for name, partner, how in rows:
        yield f"  {_shown(name)}: {_shown(partner)}  # {how}"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) and _PLAIN.fullmatch(value) else json.dumps(value)


def entry(name: str, steps: Steps) -> Any:
    """A partner as the file holds it: a name alone where nothing is to be done."""
    if not steps:
        return name
    keys = [next(iter(step)) for step in steps]
    if len(set(keys)) < len(keys):
        return {"name": name, "steps": [dict(step) for step in steps]}
    return {"name": name, **{key: value for step in steps for key, value in step.items()}}
