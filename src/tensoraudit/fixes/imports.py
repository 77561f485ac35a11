"""Importing from elsewhere: the names that a statement binds stay, so that nothing else has to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst
from libcst.helpers import get_full_name_for_node

from tensoraudit.fixes.verbs import CannotEdit

Statement = cst.Import | cst.ImportFrom


def replaced(node: Statement, names: Mapping[str, str]) -> list[Statement]:
    """Return what stands for an import: itself with new names, or two where only a part of it moves.

    `names` maps dotted names of modules, or of what is in them, to new ones. Raises CannotEdit.
    """
    return [_replaced_module(node, names)] if isinstance(node, cst.Import) else _replaced_from(node, names)


def _renamed(name: str, names: Mapping[str, str]) -> str:
    """Return the new dotted name: the longest of the old ones that it is, or lies in, decides."""
    old = max((each for each in names if name == each or name.startswith(f"{each}.")), key=len, default=None)
    return name if old is None else names[old] + name.removeprefix(old)


def _replaced_module(node: cst.Import, names: Mapping[str, str]) -> cst.Import:
    aliases = [_replaced_alias(alias, _renamed(alias.evaluated_name, names)) for alias in node.names]
    if all(new is old for new, old in zip(aliases, node.names, strict=True)):
        raise CannotEdit("nothing here is imported by the old name")
    return node.with_changes(names=aliases)


def _replaced_alias(alias: cst.ImportAlias, new: str) -> cst.ImportAlias:
    if new == alias.evaluated_name:
        return alias
    changed = alias.with_changes(name=dotted(new))
    if alias.asname is not None:
        return changed
    if "." in alias.evaluated_name:
        raise CannotEdit(f"`import {alias.evaluated_name}` binds its first part only, and all its uses would change")
    return changed.with_changes(asname=cst.AsName(cst.Name(alias.evaluated_name)))


def _replaced_from(node: cst.ImportFrom, names: Mapping[str, str]) -> list[Statement]:
    if node.relative or node.module is None:
        raise CannotEdit("a relative import names no package")
    module = get_full_name_for_node(node.module) or ""
    moved = _renamed(module, names)
    if isinstance(node.names, cst.ImportStar):
        if moved == module:
            raise CannotEdit("`*` does not tell what is imported")
        return [node.with_changes(module=dotted(moved))]
    targets = [_renamed(f"{module}.{alias.evaluated_name}", names) for alias in node.names]
    parts = [target.rpartition(".") for target in targets]
    changed = [target != f"{module}.{alias.evaluated_name}" for alias, target in zip(node.names, targets, strict=True)]
    if not any(changed):
        raise CannotEdit("nothing here is imported by the old name")
    homes = {home for (home, _, _), moves in zip(parts, changed, strict=True) if moves}
    if len(homes) > 1 or "" in homes:
        raise CannotEdit("its names move to several places")
    home = homes.pop()
    aliases = [_from_alias(alias, part[2]) for alias, part in zip(node.names, parts, strict=True)]
    if all(part[0] == home for part in parts):
        return [node.with_changes(module=dotted(home), names=aliases)]
    return _split(node, home, aliases, changed)


def _from_alias(alias: cst.ImportAlias, name: str) -> cst.ImportAlias:
    if name == alias.evaluated_name:
        return alias
    local = alias.evaluated_alias or alias.evaluated_name
    asname = None if local == name else alias.asname or cst.AsName(cst.Name(local))
    return alias.with_changes(name=cst.Name(name), asname=asname)


def _split(
    node: cst.ImportFrom, home: str, aliases: Sequence[cst.ImportAlias], changed: Sequence[bool]
) -> list[Statement]:
    """Part a statement; the names that stay keep their layout."""
    stay = [alias for alias, moves in zip(aliases, changed, strict=True) if not moves]
    move = [alias.with_changes(comma=cst.MaybeSentinel.DEFAULT) for alias in aliases if alias not in stay]
    if stay[-1] is not aliases[-1]:  # what ended the list ends it still
        stay[-1] = stay[-1].with_changes(comma=aliases[-1].comma)
    new = cst.ImportFrom(module=dotted(home), names=move)
    return [node.with_changes(names=stay), new]


def dotted(name: str) -> cst.Name | cst.Attribute:
    """Return a dotted name as an expression."""
    first, *rest = name.split(".")
    node: cst.Name | cst.Attribute = cst.Name(first)
    for part in rest:
        node = cst.Attribute(node, cst.Name(part))
    return node
