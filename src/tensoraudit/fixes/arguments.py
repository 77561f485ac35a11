"""Setting and removing the arguments of a call in a concrete syntax tree; comments and layout stay.

An argument is found as Python binds it: by keyword, or by its position in the callee's signature. Where that cannot be
told from the call (`**options`), nothing is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst

from tensoraudit.extract.signatures import positional, signatures
from tensoraudit.fixes.verbs import CannotEdit, Parameter

Whitespace = cst.BaseParenthesizableWhitespace
_NONE = cst.SimpleWhitespace("")
_SPACE = cst.SimpleWhitespace(" ")


@dataclass(frozen=True, slots=True)
class Binding:
    """How one call binds its arguments. `callee` is its resolved name."""

    callee: str
    call: cst.Call

    def find(self, parameter: Parameter) -> int | None:
        """Return the index in `call.args` of what is passed for a parameter, None when it is not passed.

        Raises CannotEdit when the call does not tell.
        """
        args = self.call.args
        for index, arg in enumerate(args):
            if arg.keyword is not None and arg.keyword.value == parameter.name:
                return index
        if any(arg.star == "**" for arg in args):
            raise CannotEdit(f"`**` may pass {parameter.name} too")
        own = next((index for index, arg in enumerate(args) if arg.keyword is not None or arg.star), len(args))
        position = self._position(parameter, own)
        if position is not None and position < own:
            return position
        if any(arg.star == "*" for arg in args) and not self._by_name_only(parameter):
            raise CannotEdit(f"`*` may pass {parameter.name} too")
        return None

    def _position(self, parameter: Parameter, given: int) -> int | None:
        names = positional(self.callee, given)
        if parameter.name in names:
            return names.index(parameter.name)
        if "" in names[:given]:
            raise CannotEdit(f"versions of {self.callee} differ about which of its positional arguments is which")
        return None if names else parameter.index

    def _by_name_only(self, parameter: Parameter) -> bool:
        versions = signatures(self.callee)
        return bool(versions) and not any(parameter.name in version.positional for version in versions)


def set_argument(binding: Binding, parameter: Parameter, value: cst.BaseExpression, *, unsafe: bool) -> cst.Call:
    """Return the call with a parameter set to `value`. Raises CannotEdit."""
    call, index = binding.call, binding.find(parameter)
    if index is None:
        return _appended(call, cst.Arg(value, cst.Name(parameter.name), equal=_EQUAL))
    old = call.args[index]
    if old.value.deep_equals(value):
        return call
    _require_constant(old, parameter, unsafe)
    return call.with_changes(args=[*call.args[:index], old.with_changes(value=value), *call.args[index + 1 :]])


def remove_argument(binding: Binding, parameter: Parameter, *, unsafe: bool) -> cst.Call:
    """Return the call without what it passes for a parameter. Raises CannotEdit."""
    call, index = binding.call, binding.find(parameter)
    if index is None:
        return call
    old = call.args[index]
    following = call.args[index + 1 :]
    if old.keyword is None and any(arg.keyword is None and arg.star != "**" for arg in following):
        raise CannotEdit(f"{parameter.name} is passed by position, and other arguments follow it")
    _require_constant(old, parameter, unsafe)
    return _without(call, index)


def literal(value: Any) -> cst.BaseExpression:
    """Return a literal as source, texts in double quotes where that needs no escape."""
    return cst.parse_expression(_code(value))


def _code(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_code(key)}: {_code(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_code, value)) + "]"
    text = repr(value)
    return f'"{value}"' if isinstance(value, str) and text == f"'{value}'" and '"' not in value else text


_EQUAL = cst.AssignEqual(whitespace_before=_NONE, whitespace_after=_NONE)
_CONSTANTS = (cst.BaseNumber, cst.SimpleString, cst.ConcatenatedString)


def _require_constant(arg: cst.Arg, parameter: Parameter, unsafe: bool) -> None:
    """What is computed was chosen somewhere else, and computing it may do more than give a value."""
    if not unsafe and not _constant(arg.value):
        raise CannotEdit(f"{parameter.name} is not a constant here", risky=True)


def _constant(node: cst.CSTNode) -> bool:
    match node:
        case cst.Name(value="True" | "False" | "None"):
            return True
        case cst.UnaryOperation(expression=inner):
            return _constant(inner)
        case cst.Tuple(elements=elements) | cst.List(elements=elements) | cst.Set(elements=elements):
            return all(isinstance(each, cst.Element) and _constant(each.value) for each in elements)
        case cst.Dict(elements=elements):
            pairs = [each for each in elements if isinstance(each, cst.DictElement)]
            return len(pairs) == len(elements) and all(_constant(p.key) and _constant(p.value) for p in pairs)
        case _:
            return isinstance(node, _CONSTANTS)


# Layout. Behind an argument stands a comma with its whitespace, or only whitespace; comments are part of whitespace.


def _appended(call: cst.Call, new: cst.Arg) -> cst.Call:
    if not call.args:
        return call.with_changes(args=[new])
    *front, last = call.args
    if isinstance(last.value, cst.GeneratorExp) and not last.value.lpar:
        last = last.with_changes(value=last.value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()]))
    tail, comma = _tail(last), isinstance(last.comma, cst.Comma)
    between = _carrying(tail, _style(call))
    before = last.comma.whitespace_before if isinstance(last.comma, cst.Comma) else _NONE
    last = last.with_changes(comma=cst.Comma(before, between), whitespace_after_arg=_NONE)
    return call.with_changes(args=[*front, last, _ended(new, _bare(tail), comma)])


def _without(call: cst.Call, index: int) -> cst.Call:
    gone, rest = call.args[index], [*call.args[:index], *call.args[index + 1 :]]
    if not rest:
        before = call.whitespace_before_args
        return call.with_changes(args=[], whitespace_before_args=before if _comments(before) else _NONE)
    if index == len(rest):  # the last one: what closed it closes the one before
        last = rest[-1]
        end = _carrying(_tail(last), _bare(_tail(gone)))
        rest[-1] = _ended(last, end, isinstance(gone.comma, cst.Comma))
    return call.with_changes(args=rest)


def _tail(arg: cst.Arg) -> Whitespace:
    """What stands between an argument, or its comma, and the next thing."""
    return arg.comma.whitespace_after if isinstance(arg.comma, cst.Comma) else arg.whitespace_after_arg


def _ended(arg: cst.Arg, tail: Whitespace, comma: bool) -> cst.Arg:
    if comma:
        return arg.with_changes(comma=cst.Comma(whitespace_after=tail), whitespace_after_arg=_NONE)
    return arg.with_changes(comma=cst.MaybeSentinel.DEFAULT, whitespace_after_arg=tail)


def _style(call: cst.Call) -> Whitespace:
    """Return what parts the arguments of a call: a new line where the last of them begins on one."""
    previous: Sequence[cst.Arg] = call.args[-2:-1]
    own = _tail(previous[0]) if previous else call.whitespace_before_args
    return _bare(own) if isinstance(own, cst.ParenthesizedWhitespace) else _SPACE


def _carrying(comments: Whitespace, shape: Whitespace) -> Whitespace:
    """Return whitespace with the comments of one and the indentation of another."""
    if not _comments(comments) or not isinstance(comments, cst.ParenthesizedWhitespace):
        return shape
    if not isinstance(shape, cst.ParenthesizedWhitespace):
        return comments
    return comments.with_changes(indent=shape.indent, last_line=shape.last_line)


def _bare(space: Whitespace) -> Whitespace:
    """Return whitespace without its comments and empty lines."""
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    first = space.first_line.with_changes(comment=None, whitespace=_NONE)
    return space.with_changes(first_line=first, empty_lines=[])


def _comments(space: Whitespace) -> bool:
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return False
    return space.first_line.comment is not None or any(line.comment is not None for line in space.empty_lines)
