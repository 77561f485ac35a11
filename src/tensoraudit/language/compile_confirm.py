"""Compiling `confirm`: the probe, and what its measurements look like when they confirm or refute."""

from __future__ import annotations

from typing import Any, Literal

from tensoraudit.language import problems as wrong
from tensoraudit.language.document import Items, Table, Tree, plain
from tensoraudit.language.metrics import METRICS, PROBES
from tensoraudit.language.names import compile_name
from tensoraudit.language.operators import compile_test
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
    parameters = rows.items.get("with")
    return Confirm(
        wrong.one_of(rows.items["probe"], PROBES, "probe"),
        plain(wrong.table(parameters, "with")) if parameters else {},
        _measured(rows.items["confirmed"], alternatives),
        _measured(rows.items["refuted"], alternatives),
    )


def _check_keys(rows: Table, known: tuple[str, ...], what: str) -> None:
    for key in rows.items:
        if key not in known:
            raise Wrong(rows.keys[key], f"{what} has no key '{key}'{nearest(str(key), known)}")


def _measured(tree: Tree, alternatives: Alternatives) -> Row | Rows:
    if isinstance(tree, Items):
        return Rows("any", tuple(_measured(part, alternatives) for part in tree.items))
    rows = wrong.table(tree, "a test on measurements")
    join = next((key for key in _JOINS if key in rows.items), None)
    if join is None:
        return _row(rows, alternatives)
    inner = rows.items[join]
    if len(rows.items) > 1 or not isinstance(inner, Items):
        raise Wrong(rows, f"'{join}' stands alone and holds a list")
    return Rows(join, tuple(_measured(part, alternatives) for part in inner.items))


def _row(rows: Table, alternatives: Alternatives) -> Row:
    _check_keys(rows, _ROW_KEYS, "a test on measurements")
    items, types = rows.items, ANCHORS["measurement"]
    if "measurement" not in items:
        raise Wrong(rows, "a test on measurements needs 'measurement'")
    word = wrong.one_of(items["quantifier"], ("any", "every"), "quantifier") if "quantifier" in items else "any"
    quantifier: Any = word
    return Row(
        wrong.one_of(items["measurement"], METRICS, "metric"),
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
