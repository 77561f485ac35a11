"""From plain data (as JSON gives it) back to frozen dataclasses, by their annotations and nothing else.

Every value must be of the type that its field says: data from a file is not believed. Knows no class by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Reader = Callable[[Any], Any]


class Misfit(Exception):  # noqa: N818 - a reason, met inside this room
    """The data does not fit the type."""


@cache
def reader_of(kind: Any) -> Reader:
    """Return what turns plain data into a `kind`: a dataclass, an enum, a tuple, a mapping, or a plain value.

    The reader raises Misfit for anything else.
    """
    origin = get_origin(kind)
    if kind is Any:
        return lambda value: value
    if is_dataclass(kind):
        return _dataclass(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum(kind)
    if origin is tuple:
        return _tuple(reader_of(get_args(kind)[0]))
    if origin is Mapping:
        return _mapping(reader_of(get_args(kind)[1]))
    if origin in {Union, UnionType}:
        return _either([reader_of(each) for each in get_args(kind)])
    if origin is Literal:
        return _one_of(get_args(kind))
    return _plain(kind)


def _dataclass(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    readers = [(field.name, reader_of(hints[field.name])) for field in fields(kind)]

    def read(data: Any) -> Any:
        if not isinstance(data, dict) or len(data) != len(readers):
            raise Misfit(kind.__name__)
        try:
            return kind(**{name: reader(data[name]) for name, reader in readers})
        except KeyError as error:
            raise Misfit(f"{kind.__name__}.{error.args[0]}") from None

    return read


def _enum(kind: type[Enum]) -> Reader:
    members = {each.value: each for each in kind}
    return lambda data: members[data] if isinstance(data, str) and data in members else _misfit(kind)


def _tuple(reader: Reader) -> Reader:
    return lambda data: tuple(map(reader, data)) if isinstance(data, list) else _misfit(tuple)


def _mapping(reader: Reader) -> Reader:
    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            raise Misfit("mapping")
        return {key: reader(value) for key, value in data.items()}

    return read


def _either(readers: list[Reader]) -> Reader:
    def read(data: Any) -> Any:
        for reader in readers:
            try:
                return reader(data)
            except Misfit:
                continue
        raise Misfit("union")

    return read


def _one_of(values: tuple[Any, ...]) -> Reader:
    return lambda data: data if data in values else _misfit(Literal)


def _plain(kind: Any) -> Reader:
    kind = NoneType if kind is None else kind
    return lambda data: data if type(data) is kind else _misfit(kind)


def _misfit(kind: Any) -> Any:
    raise Misfit(str(kind))
