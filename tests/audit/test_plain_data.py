"""Dataclasses from JSON: only what fits is believed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Literal

import pytest

from tensoraudit.audit.plain_data import Misfit, reader_of


class Color(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    x: int | None
    names: tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    color: Color
    points: tuple[Point, ...]
    size: float
    more: Mapping[str, Mapping[str, str]]
    any: Any
    kind: Literal["a", "b"] = "a"


SHAPE = Shape(Color.RED, (Point(1, ("p",)), Point(None, ())), 0.5, {"a": {"b": "c"}}, {"z": [1]}, "b")


def plain(**changes):
    data = asdict(SHAPE)
    data["color"] = "red"
    data["points"] = [{"x": 1, "names": ["p"]}, {"x": None, "names": []}]
    return {**data, **changes}


def test_what_fits_comes_back():
    assert reader_of(Shape)(plain()) == SHAPE


@pytest.mark.parametrize(
    "changes",
    [
        {"color": "blue"},
        {"color": ["red"]},
        {"size": 1},
        {"size": "0.5"},
        {"points": {"x": 1}},
        {"points": [{"x": 1}]},
        {"points": [{"x": True, "names": []}]},
        {"points": [{"x": 1, "names": [1]}]},
        {"more": {"a": "b"}},
        {"more": []},
        {"kind": "c"},
        {"unknown": 1},
    ],
)
def test_what_does_not_fit_is_refused(changes):
    with pytest.raises(Misfit):
        reader_of(Shape)(plain(**changes))


@pytest.mark.parametrize("data", [None, [], "x", {}])
def test_other_data_is_refused(data):
    with pytest.raises(Misfit):
        reader_of(Shape)(data)
