"""The tensors of a checkpoint as a tree of modules, folded until it can be read at a glance.

1. A module with nothing but one module inside shares its line: `encoder.layer`.
2. Siblings that differ in a number alone and hold the same (names, dtypes and shapes, in one order) are one line,
   `layer.0-11`, and what is inside is shown for the first of them.
3. A module that holds a few tensors and no modules is one line with their shapes.
4. Lines are opened from the top, the largest first, while there is room; what stays closed says how much it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tensoraudit.checkpoints.schema import Entry
from tensoraudit.report.amounts import ranges, size

ROOM: Final = 32
"""Lines that a folded tree takes, about."""

FEW: Final = 6
"""Tensors whose shapes stand on their module's own line, if they take no more than this many characters:"""

LONGEST: Final = 72

WIDEST: Final = 24
"""Characters of the numbers of alike siblings."""

_NUMBERED: Final = re.compile(r"(.*?)(\d+)")


@dataclass(slots=True)
class Branch:
    """A module: its name, modules and tensors inside by name, and what all of them amount to.

    `alike` are the numbers of the siblings that this one stands for, () if it stands for itself alone; amounts are then
    those of all. `kind` is equal for branches that hold the same.
    """

    name: str
    inside: dict[str, Branch] = field(default_factory=dict)
    own: dict[str, Entry] = field(default_factory=dict)
    tensors: int = 0
    bytes: int = 0
    dtypes: tuple[str, ...] = ()
    kind: int = 0
    alike: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the tree. `guides` tells for each level above whether more of it follows, the last of them for the line
    itself."""

    guides: tuple[bool, ...]
    name: str
    tensors: int
    bytes: int
    dtypes: tuple[str, ...]
    shapes: str = ""


def grow(name: str, entries: Iterable[Entry]) -> Branch:
    """Return the tree of these tensors, summed up and with alike siblings folded."""
    root = Branch(name)
    known: dict[str, Branch] = {"": root}
    for entry in entries:
        path = f"{'.'.join(entry.path)}.{entry.name}" if entry.path else entry.name
        modules, _, last = path.replace("/", ".").rpartition(".")
        branch = known.get(modules)
        if branch is None:
            branch = _branch(root, known, modules)
        branch.own[last] = entry
    _sum_up(root)
    return root


def _branch(root: Branch, known: dict[str, Branch], modules: str) -> Branch:
    """The branch of a path, made where it is not there yet. Those of a path and of the one above it are remembered;
    remembering all above would take memory by the square of a name's depth."""
    above, _, last = modules.rpartition(".")
    parent = known.get(above)
    if parent is None:
        parent = known[above] = _descend(root, above)
    branch = known[modules] = _inside(parent, last)
    return branch


def _descend(root: Branch, modules: str) -> Branch:
    branch = root
    for part in modules.split("."):
        branch = _inside(branch, part)
    return branch


def _inside(branch: Branch, name: str) -> Branch:
    found = branch.inside.get(name)
    if found is None:
        found = branch.inside[name] = Branch(name)
    return found


def _sum_up(root: Branch) -> None:
    """Amounts and kinds from the leaves up; without recursion, as names may be of any depth."""
    order = [root]
    for branch in order:
        if branch.inside:
            order.extend(branch.inside.values())
    kinds: dict[object, int] = {}
    for branch in reversed(order):
        branch.tensors = len(branch.own)
        held: list[object] = []
        dtypes: set[str] = set()
        for name, entry in branch.own.items():
            branch.bytes += entry.stored_bytes
            dtypes.add(entry.dtype)
            held += name, entry.dtype, entry.shape
        if branch.inside:
            _add(branch, dtypes)
            branch.inside = _folded(branch.inside)
            held += ((name, inner.kind) for name, inner in branch.inside.items())
        branch.dtypes = tuple(dtypes) if len(dtypes) < 2 else tuple(sorted(dtypes))
        branch.kind = kinds.setdefault(tuple(held), len(kinds))


def _add(branch: Branch, dtypes: set[str]) -> None:
    for inner in branch.inside.values():
        branch.tensors += inner.tensors
        branch.bytes += inner.bytes
        dtypes.update(inner.dtypes)


def _folded(branches: dict[str, Branch]) -> dict[str, Branch]:
    """Siblings with a number in their name, and the same inside, as one; each where the first of them stood."""
    groups: dict[tuple[str, int], list[tuple[int, Branch]]] = {}
    for name, branch in branches.items():
        if name[-1:].isdigit() and (match := _NUMBERED.fullmatch(name)) and len(match[2]) < 10:
            groups.setdefault((match[1], branch.kind), []).append((int(match[2]), branch))
    folded = dict(branches)
    for (start, _), members in groups.items():
        if len(members) < 2:
            continue
        first = members[0][1]
        numbers = tuple(sorted(number for number, _ in members))
        joined = replace(first, name=f"{start}{_numbers(numbers)}", alike=numbers)
        joined.tensors = sum(branch.tensors for _, branch in members)
        joined.bytes = sum(branch.bytes for _, branch in members)
        folded[first.name] = joined
        for _, branch in members[1:]:
            del folded[branch.name]
    return folded


def _numbers(numbers: tuple[int, ...]) -> str:
    """The numbers of siblings in a few characters: an optimiser often has a hundred here and there."""
    text = ranges(numbers)
    if len(text) <= WIDEST:
        return text
    return f"{text[:WIDEST].rpartition(', ')[0] or numbers[0]}, ... {numbers[-1]}"


def lines(root: Branch, room: int | None = ROOM) -> list[Line]:
    """Return the lines of a tree, its root first; all of them without `room`."""
    root = _shortened(root)
    if _is_flat(root):
        return [_line((), root.name, root)]
    opened = _opened(root, room)
    most = None if room is None else room // 2
    found = [_line((), root.name, root)]
    stack: list[tuple[tuple[bool, ...], list[_Row | Entry | _Rest]]] = [((), _rows(root, most))]
    while stack:
        guides, rows = stack[-1]
        if not rows:
            stack.pop()
            continue
        row = rows.pop(0)
        own = (*guides, bool(rows))
        found.append(_written(own, row))
        if isinstance(row, _Row) and id(row.branch) in opened:
            stack.append((own, _rows(row.branch, most)))
    return found


def _shortened(root: Branch) -> Branch:
    """A root with nothing but one module inside is that module: `optimizer.state`, `model: state_dict`."""
    rows = _shared(root)
    if len(rows) != 1 or root.own or rows[0].branch.alike:
        return root
    name = rows[0].name if rows[0].name.startswith(root.name) else f"{root.name}: {rows[0].name}"
    return replace(rows[0].branch, name=name)


@dataclass(slots=True)
class _Row:
    """A branch under the name of its line: those of the modules above that share it come first."""

    name: str
    branch: Branch


@dataclass(slots=True)
class _Rest:
    """Tensors of a module that are only counted."""

    entries: Sequence[Entry]


def _opened(root: Branch, room: int | None) -> set[int]:
    """The branches whose inside is shown, level by level, the largest of a level first."""
    opened, left = {id(root)}, None if room is None else room - _height(root, room)
    level = _shared(root)
    while level:
        below: list[_Row] = []
        for row in sorted(level, key=lambda row: (-row.branch.bytes, row.name)):
            height = _height(row.branch, room)
            if _is_flat(row.branch) or (left is not None and height > left):
                continue
            left = None if left is None else left - height
            opened.add(id(row.branch))
            below += _shared(row.branch)
        level = below
    return opened


def _height(branch: Branch, room: int | None) -> int:
    own = len(branch.own) if room is None else min(len(branch.own), room // 2)
    return len(branch.inside) + own


def _is_flat(branch: Branch) -> bool:
    return not branch.inside and len(branch.own) <= FEW and len(_shapes(branch)) <= LONGEST


def _shared(branch: Branch) -> list[_Row]:
    """The modules of a branch, each together with the modules that are alone inside it."""
    return [_row(inner) for inner in branch.inside.values()]


def _row(branch: Branch) -> _Row:
    name = branch.name
    while len(branch.inside) == 1 and not branch.own and not branch.alike:
        (branch,) = branch.inside.values()
        name = f"{name}.{branch.name}"
    return _Row(name, branch)


def _rows(branch: Branch, most: int | None) -> list[_Row | Entry | _Rest]:
    """What stands inside an opened branch; of its own tensors at most this many lines."""
    own = list(branch.own.values())
    if most is None or len(own) <= most:
        return [*_shared(branch), *own]
    return [*_shared(branch), *own[: most - 1], _Rest(own[most - 1 :])]


def _written(guides: tuple[bool, ...], row: _Row | Entry | _Rest) -> Line:
    if isinstance(row, _Row):
        return _line(guides, row.name, row.branch)
    if isinstance(row, _Rest):
        total = sum(entry.stored_bytes for entry in row.entries)
        dtypes = tuple(sorted({entry.dtype for entry in row.entries}))
        return Line(guides, f"... {len(row.entries):,} more", len(row.entries), total, dtypes)
    last = row.name.replace("/", ".").rpartition(".")[2]
    shapes = _shape(row)
    return Line(guides, last, 1, row.stored_bytes, (row.dtype,), shapes)


def _line(guides: tuple[bool, ...], name: str, branch: Branch) -> Line:
    shapes = _shapes(branch) if _is_flat(branch) else ""
    if branch.alike:
        shapes = f"each {shapes}" if shapes else f"{len(branch.alike):,} alike, one is shown"
    return Line(guides, name, branch.tensors, branch.bytes, branch.dtypes, shapes)


def _shapes(branch: Branch) -> str:
    """The tensors of a module with their shapes, those that follow each other with one shape together."""
    groups: list[tuple[list[str], str]] = []
    for name, entry in branch.own.items():
        shape = _shape(entry)
        if groups and groups[-1][1] == shape:
            groups[-1][0].append(name)
        else:
            groups.append(([name], shape))
    return ", ".join(f"{' '.join(names)} {shape}" for names, shape in groups)


def _shape(entry: Entry) -> str:
    """A shape, with the tensor that it is tied to and the variable's own name where the file's is only its place."""
    tied = f" is {entry.same_as}" if entry.same_as else ""
    return f"{list(entry.shape)}{tied}{f' = {entry.alias}' if entry.alias else ''}"


def prefix(guides: tuple[bool, ...], *, unicode: bool) -> str:
    """Return what stands before the name of a line."""
    if not guides:
        return ""
    more, none, fork, last = ("│  ", "   ", "├─ ", "└─ ") if unicode else ("|  ", "   ", "+- ", "`- ")
    return "".join(more if each else none for each in guides[:-1]) + (fork if guides[-1] else last)


def texts(found: Sequence[Line], *, unicode: bool, width: int | None = None) -> Iterator[str]:
    """Yield the lines as text, in columns: name, tensors, size, dtypes, shapes. Shapes past the `width` are cut off."""
    rows = [
        (
            prefix(line.guides, unicode=unicode) + line.name,
            f"{line.tensors:,}",
            size(line.bytes),
            ", ".join(line.dtypes),
            line.shapes,
        )
        for line in found
    ]
    head = ("", "tensors", "size", "dtype", "shape")
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(4)]
    for name, tensors, total, dtype, shape in (head, *rows):
        cells = (name.ljust(widths[0]), tensors.rjust(widths[1]), total.rjust(widths[2]), dtype.ljust(widths[3]), shape)
        yield _cut("  ".join(cells).rstrip(), len(shape), width)


def _cut(text: str, shapes: int, width: int | None) -> str:
    """A line without the end of its shapes where they are too long; nothing else is ever left out."""
    over = 0 if width is None else len(text) - width
    return f"{text[: -over - 4]} ..." if 0 < over < shapes - 8 else text
