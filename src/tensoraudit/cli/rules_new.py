"""`tensoraudit rules new`: a file that is a whole rule but for its words, under the next free id."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Final

from tensoraudit.errors import InputError, RuleError, did_you_mean
from tensoraudit.language.document import plain
from tensoraudit.language.pack_file import ENGINE, PACK_FILE, read_pack
from tensoraudit.language.rule import Rule

TODO: Final = "TODO"
_IDS: Final = re.compile(r"^(?:id|aliases):(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Start:
    """How a rule about one kind of fact begins: its pattern and two examples, one flagged and one silent."""

    match: str
    flagged: str
    silent: str


def _source(pattern: str, flagged: str, silent: str) -> _Start:
    return _Start(pattern, f"python: |\n  {flagged}", f"python: |\n  {silent}")


STARTS: Final[Mapping[str, _Start]] = {
    "call": _source("call: todo.load", "import todo\n  todo.load()   # flag", "import todo\n  todo.save()"),
    "import": _source("import: todo", "import todo   # flag", "import done"),
    "reference": _source("reference: todo.flag", "import todo\n  x = todo.flag   # flag", "import todo\n  x = todo.no"),
    "operation": _source('operation: "//"', "y = a // b   # flag", "y = a / b"),
    "class": _source("class: Todo", "class Todo:   # flag\n      pass", "class Done:\n      pass"),
    "function": _source("function: todo", "def todo():   # flag\n      pass", "def done():\n      pass"),
    "node": _Start('node: Celu\ndomain: ""', "onnx: |\n  y = Celu (x)   # flag", "onnx: |\n  y = Relu (x)"),
    "value": _Start(
        "value: todo\nrole: input",
        'values: {todo: "float32[2] input"}\nflag: [todo]',
        'values: {done: "float32[2] input"}',
    ),
    "tensor": _Start(
        'tensor: "**.todo"', 'tensors: {a.todo: "float16[4]"}\nflag: [a.todo]', 'tensors: {a.done: "float16[4]"}'
    ),
    "model": _Start("model: onnx", "model: {format: onnx}\nflag: [onnx]", "model: {format: torchscript}"),
    "checkpoint": _Start("checkpoint: todo", "checkpoint: {format: todo}\nflag: [todo]", "checkpoint: {format: done}"),
    "package": _Start(
        'package: todo\nversion: ">=2"',
        'environment: {source: {todo: "2.0"}}\nflag: [todo]',
        'environment: {source: {todo: "1.0"}}',
    ),
    "variable": _Start(
        "variable: TODO\nside: source",
        'environment: {variables: {source: {TODO: "1"}}}\nflag: [TODO]',
        'environment: {variables: {target: {TODO: "1"}}}',
    ),
    "device": _Start(
        "device: cuda\nside: target",
        "environment: {devices: {target: [cuda]}}\nflag: [cuda]",
        "environment: {devices: {source: [cuda]}}",
    ),
    "measurement": _Start(
        "measurement: output.verdict\nvalue: break",
        "measurements: {output.verdict: break}\nflag: [output.verdict]",
        "measurements: {output.verdict: noise}",
    ),
}  # fmt: skip
"""One start for each kind of fact; `rules test` passes on each but for the words that are still to be written."""

_RULE = """\
id: {id}
title: {title}
severity: medium          # critical, high, medium, low: what happens when it is true
layer: graph              # graph, memory, hardware, deployment
certainty: certain        # certain, likely, suspected, advice: the most that the match alone may claim
match:
{match}
message: "{todo}: one sentence about this place."
why: "{todo}: the mechanism."
remedy: "{todo}: what to change, exactly."
references: []            # URLs, or repository and path
# confirm:                # how a scan puts it to the test; both blocks or none
#   probe: outputs
#   confirmed: {{measurement: output.verdict, value: [drift, break]}}
#   refuted: {{measurement: output.verdict, value: [identical, equivalent, noise], quantifier: every}}
examples:
{flagged}
{silent}
"""

_PACK = """\
name: {name}
prefix: {prefix}
version: "0.1"
engine: ">={engine},<{next}"
"""


def write_rule(folder: Path, category: str, prefix: str, kind: str, title: str, taken: Iterable[Path]) -> list[Path]:
    """Write the skeleton, and a pack.yaml where the folder is new. Returns the files written.

    `taken` are the folders whose ids are in use. Raises InputError for a wrong word, RuleError for a wrong pack.yaml.
    """
    if kind not in STARTS:
        remedy = f"{did_you_mean(kind, STARTS)}Known: {', '.join(STARTS)}."
        raise InputError(f"{kind!r} is no kind of fact", where="--kind", remedy=remedy)
    if not re.fullmatch(r"[a-z0-9_-]*", category):
        raise InputError(f"{category!r} is no category", where="--category", remedy="Write small letters and dashes.")
    if not title.isprintable():
        remedy = "Write one line of plain text."
        raise InputError("the title holds characters that cannot be shown", where="TITLE", remedy=remedy)
    prefix = _prefix(folder, prefix)
    name = next_id(prefix, [folder, *taken])
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60] or "todo"
    path = folder / category / f"{name}-{slug}.yaml"
    written = []
    if not folder.exists():
        written.append(_write(folder / PACK_FILE, _pack_text(folder, prefix)))
    return [*written, _write(path, rule_text(name, kind, title))]


def rule_text(name: str, kind: str, title: str) -> str:
    """Return a rule of this id about this kind of fact, which lacks nothing but its words."""
    start = STARTS[kind]
    examples = [f"  - {indent(part, '    ').lstrip()}" for part in (start.flagged, start.silent)]
    return _RULE.format(
        id=name,
        title=json.dumps(title or f"{TODO}: name the bad pattern in one line", ensure_ascii=False),
        todo=TODO,
        match=indent(start.match, "  "),
        flagged=examples[0],
        silent=examples[1],
    )


def next_id(prefix: str, folders: Iterable[Path]) -> str:
    """Return the id after the highest that is or was in use; a gap may be a rule that people still silence."""
    taken = [int(number) for text in _texts(folders) for number in re.findall(rf"\b{prefix}-(\d+)\b", text)]
    return f"{prefix}-{max(taken, default=0) + 1:03d}"


def _texts(folders: Iterable[Path]) -> Iterator[str]:
    """The lines that name ids, read as text: a rule that is broken at the moment still has its id."""
    for folder in folders:
        for path in sorted(folder.rglob("*.yaml")):
            yield "\n".join(_IDS.findall(path.read_text(encoding="utf-8", errors="replace")))


def _prefix(folder: Path, prefix: str) -> str:
    """The prefix that was given, or that of the pack. Both must agree."""
    file = folder / PACK_FILE
    pack, problems = read_pack(file) if file.is_file() else (None, [])
    if problems:
        raise RuleError(tuple(problems))
    own = pack.prefix if pack is not None else ""
    if prefix and own and prefix != own:
        raise InputError(f"the pack's prefix is {own}, not {prefix}", where=str(file), remedy="Leave --prefix out.")
    found = prefix or own
    if not re.fullmatch("[A-Z]+", found):
        what = f"{found!r} is no prefix of ids" if found else "no prefix of ids is named"
        raise InputError(what, where="--prefix", remedy="Write capital letters, such as ACME for ACME-001.")
    return found


def _pack_text(folder: Path, prefix: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", Path(os.path.realpath(folder)).name.lower()).strip("-0123456789") or "own"
    major = int(ENGINE.partition(".")[0])
    return _PACK.format(name=name, prefix=prefix, engine=major, next=major + 1)


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = path.open("x", encoding="utf-8")  # "x": never over a file that is there
    except FileExistsError:
        raise InputError("is there already", where=str(path), remedy="Take another title or category.") from None
    try:
        with file:
            file.write(text)
    except OSError:
        path.unlink()
        raise
    return path


def unfinished(rule: Rule) -> list[str]:
    """Return the keys whose text is still the skeleton's."""
    texts = {key: plain(rule.document.items[key]) for key in ("title", "message", "why", "remedy")}
    return [key for key, text in texts.items() if str(text).startswith(TODO)]
