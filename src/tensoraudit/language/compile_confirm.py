"""Compiling `confirm`: the probe, and what its measurements look like when they confirm or refute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from tensoraudit.language import problems as wrong
from tensoraudit.language.document import Items, Table, Tree, plain
from tensoraudit.language.metrics import METRICS, PROBES
from tensoraudit.language.names import compile_name
from tensoraudit.language.operators import compile_test
from tensoraudit.language.possible import check_measured
from tensoraudit.language.problems import Wrong, nearest
from tensoraudit.language.rule import Alternative, Confirm, Row, Rows
from tensoraudit.language.schema import ANCHORS, SIDE
from tensoraudit.language.templates import Template, parse_template, unknown_placeholder

_KEYS = ("probe", "with", "confirmed", "refuted")
_ROW_KEYS = ("measurement", "value", "subject", "side", "detail", "quantifier")
_JOINS: tuple[Literal["all", "any"], ...] = ("all", "any")
Alternatives = tuple[Alternative, ...]


def compile_confirm(tree: Tree, alternatives: Alternatives) -> Confirm:
    """Compile a `confirm` block; placeholders are checked against every anchor of the rule. Raises Wrong."""
    rows = wrong.table(tree, "confirm")
    _check_keys(rows, _KEYS, "'confirm'")
    for key in ("probe", "confirmed", "refuted"):
        if key not in rows.items:
            raise Wrong(rows, f"'confirm' needs '{key}': a probe that can say only one thing proves nothing")
    build: dict[str, Callable[[Tree], Any]] = {
        "probe": lambda part: wrong.one_of(part, PROBES, "probe"),
        "with": lambda part: plain(wrong.table(part, "with")),
        "confirmed": lambda part: _measured(part, alternatives),
        "refuted": lambda part: _measured(part, alternatives),
    }
    built = dict(wrong.each(rows.items.items(), lambda row: (row[0], build[row[0]](row[1]))))
    return Confirm(built["probe"], built.get("with", {}), built["confirmed"], built["refuted"])


def _check_keys(rows: Table, known: tuple[str, ...], what: str) -> None:
    def check(key: Any) -> None:
        if key not in known:
            raise Wrong(rows.keys[key], f"{what} has no key '{key}'{nearest(str(key), known)}")

    wrong.each(rows.items, check)


def _measured(tree: Tree, alternatives: Alternatives) -> Row | Rows:
    if isinstance(tree, Items):
        return Rows("any", _measured_each(tree, alternatives))
    rows = wrong.table(tree, "a test on measurements")
    join = next((key for key in _JOINS if key in rows.items), None)
    if join is None:
        return _row(rows, alternatives)
    inner = rows.items[join]
    if len(rows.items) > 1 or not isinstance(inner, Items):
        raise Wrong(rows, f"'{join}' stands alone and holds a list")
    return Rows(join, _measured_each(inner, alternatives))


def _measured_each(tree: Items, alternatives: Alternatives) -> tuple[Row | Rows, ...]:
    if not tree.items:
        raise Wrong(tree, "an empty list of tests on measurements decides nothing")
    return tuple(wrong.each(tree.items, lambda part: _measured(part, alternatives)))


def _row(rows: Table, alternatives: Alternatives) -> Row:
    _check_keys(rows, _ROW_KEYS, "a test on measurements")
    items, types = rows.items, ANCHORS["measurement"]
    if "measurement" not in items:
        raise Wrong(rows, "a test on measurements needs 'measurement'")
    word = wrong.one_of(items["quantifier"], ("any", "every"), "quantifier") if "quantifier" in items else "any"
    quantifier: Any = word
    metric = wrong.one_of(items["measurement"], METRICS, "metric")
    if "value" in items:
        check_measured(items["value"], metric)
    return Row(
        metric,
        compile_test(items["value"], types["value"]) if "value" in items else None,
        _subject(items["subject"], alternatives) if "subject" in items else None,
        wrong.one_of(items["side"], SIDE.words, "side") if "side" in items else None,
        compile_test(items["detail"], types["detail"]) if "detail" in items else None,
        quantifier,
    )


def _subject(tree: Tree, alternatives: Alternatives) -> Template:
    template = parse_template(wrong.text(tree, "subject"))
    for alternative in alternatives:
        fault = unknown_placeholder(template, alternative.pattern.kind, alternative.pattern.captures)
        if fault:
            raise Wrong(tree, fault)
    try:
        compile_name("".join(literal for literal, _ in template.parts))
    except ValueError as error:
        raise Wrong(tree, str(error)) from None
    return template
