"""Compiling `fix`: words, or one of four verbs that `tensoraudit fix` carries out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tensoraudit.extract.signatures import signatures
from tensoraudit.fixes.verbs import (
    Dotted,
    Fix,
    Parameter,
    RemoveArgument,
    RenameCall,
    ReplaceImport,
    SetArgument,
    Verb,
)
from tensoraudit.language import problems as wrong
from tensoraudit.language.document import Items, Leaf, Table, Tree, plain
from tensoraudit.language.example import Example
from tensoraudit.language.fields import argument_keys
from tensoraudit.language.pattern import Pattern
from tensoraudit.language.problems import Problems, Wrong, nearest
from tensoraudit.language.schema import FIX_VERBS

_PARAMETER: Final = re.compile(r"(?:(\d+)\|)?([A-Za-z_]\w*)")
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_LITERALS: Final = (str, int, float, bool, type(None))


def compile_fix(tree: Tree) -> str | Fix:
    """Compile a fix. Raises Wrong."""
    if not isinstance(tree, Table):
        return wrong.text(tree, "fix")
    verbs = [str(key) for key in tree.items if key != "safety"]
    for verb in verbs:
        if verb not in FIX_VERBS:
            raise Wrong(tree.keys[verb], f"'{verb}' is no fix{nearest(verb, FIX_VERBS)}")
    if len(verbs) != 1:
        raise Wrong(tree, f"a fix has one of {', '.join(FIX_VERBS)}")
    if "safety" not in tree.items:
        raise Wrong(tree, "a fix says 'safety: safe' or 'safety: unsafe'")
    safety = wrong.one_of(tree.items["safety"], ("safe", "unsafe"), "safety")
    return Fix(_VERBS[verbs[0]](tree.items[verbs[0]]), safety == "safe")


def check_fix(tree: Table, fix: Fix, pattern: Pattern, part: Table) -> None:
    """Refuse a verb that does not fit what the alternative `part` is anchored at. Raises Wrong."""
    anchor = "import" if isinstance(fix.verb, ReplaceImport) else "call"
    verb = next(key for key in tree.items if key != "safety")
    if pattern.kind != anchor:
        text = f"'{verb}' needs a pattern anchored at '{anchor}', not at '{pattern.kind}'"
        raise Wrong(tree.keys[verb], text)
    tested = {key for field in ("args", "effective") for key in _tested(part.items.get(field))}
    for place, parameter in _parameters(tree.items[verb], fix.verb):
        for callee in (name.text for name in pattern.names if name.exact):
            known = {each.name for version in signatures(callee) for each in version.parameters}
            # The table lists what rules speak of: what the pattern itself asks for is an argument as well.
            if known and parameter not in known | tested:
                raise Wrong(place, f"{callee} has no argument '{parameter}'{nearest(parameter, sorted(known))}")


def check_fixed(fixes: Iterable[tuple[Tree, str | Fix]], examples: Iterable[Example], problems: Problems) -> None:
    """Demand an example with `fixed` of a rule with a verb, and a verb of a rule with such an example."""
    fixed = [example.parts["fixed"] for example in examples if "fixed" in example.parts]
    verbs = [tree for tree, fix in fixes if isinstance(fix, Fix)]
    if verbs and not fixed:
        problems.add(verbs[0], "a fix with a verb needs an example with 'fixed': its python text after the fix")
    if fixed and not verbs:
        problems.add(fixed[0], "no fix of this rule has a verb, so that nothing can make this text")


def _tested(tree: Tree | None) -> Iterable[str]:
    rows = tree.items if isinstance(tree, Table) else {}
    return (str(key) for name in rows for key in argument_keys(str(name)))


def _parameters(tree: Tree, verb: Verb) -> Iterable[tuple[Tree, str]]:
    match verb:
        case SetArgument(values=values) if isinstance(tree, Table):
            return zip(tree.keys.values(), (parameter.name for parameter, _ in values), strict=True)
        case RemoveArgument(parameters=parameters):
            places = tree.items if isinstance(tree, Items) else (tree,)
            return zip(places, (parameter.name for parameter in parameters), strict=True)
        case _:
            return ()


# Verbs


def _set_argument(tree: Tree) -> Verb:
    rows = wrong.table(tree, "set-argument")
    if not rows.items:
        raise Wrong(tree, "'set-argument' names no argument")
    pairs = wrong.each(rows.items.items(), lambda row: (_parameter(rows.keys[row[0]]), _value(row[1])))
    return SetArgument(tuple(pairs))


def _remove_argument(tree: Tree) -> Verb:
    parts = tree.items if isinstance(tree, Items) else (tree,)
    if not parts:
        raise Wrong(tree, "'remove-argument' names no argument")
    return RemoveArgument(tuple(wrong.each(parts, _parameter)))


def _rename_call(tree: Tree) -> Verb:
    return RenameCall(_dotted(tree, "the new name of a call"))


def _replace_import(tree: Tree) -> Verb:
    rows = wrong.table(tree, "replace-import")
    if not rows.items:
        raise Wrong(tree, "'replace-import' names no import")

    def pair(row: tuple[Any, Tree]) -> tuple[str, str]:
        old, new = wrong.text(rows.keys[row[0]], "an import"), wrong.text(row[1], "an import")
        for part, name in ((rows.keys[row[0]], old), (row[1], new)):
            if not _MODULE.fullmatch(name):
                raise Wrong(part, f"'{name}' is no dotted name")
        if new == old or new.startswith(f"{old}."):
            raise Wrong(row[1], f"a second run would find '{old}' in '{new}' again")
        return old, new

    return ReplaceImport(dict(wrong.each(rows.items.items(), pair)))


_VERBS: Final[Mapping[str, Callable[[Tree], Verb]]] = {
    "set-argument": _set_argument,
    "remove-argument": _remove_argument,
    "rename-call": _rename_call,
    "replace-import": _replace_import,
}


def _parameter(tree: Tree) -> Parameter:
    found = _PARAMETER.fullmatch(wrong.text(tree, "an argument"))
    if found is None:
        raise Wrong(tree, "write the name of an argument, or its position too, as in '0|name'")
    return Parameter(found[2], None if found[1] is None else int(found[1]))


def _value(tree: Tree) -> Any:
    if not isinstance(tree, Table):
        return _literal(tree)
    if list(tree.items) == ["name"]:
        return _dotted(tree.items["name"], "the name of a value")
    if list(tree.items) == ["is"]:
        return _literal(tree.items["is"])
    raise Wrong(tree, "write {name: torch.float16} for a name, {is: {...}} for a dict")


def _literal(tree: Tree) -> Any:
    match tree:
        case Leaf(value=value) if isinstance(value, _LITERALS) and not (
            isinstance(value, float) and not math.isfinite(value)
        ):
            return value
        case Leaf():
            raise Wrong(tree, "no literal of Python")
        case Items(items=items):
            return wrong.each(items, _literal)
        case _:
            wrong.each(tree.items.values(), _literal)
            return plain(tree)


def _dotted(tree: Tree, what: str) -> Dotted:
    name = wrong.text(tree, what)
    if not _DOTTED.fullmatch(name):
        raise Wrong(tree, f"'{name}' is no dotted name such as torch.float16")
    return Dotted(name)
