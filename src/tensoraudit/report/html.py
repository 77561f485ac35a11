"""The report as one HTML page that needs nothing else: no script, no font, no network. Jinja2 escapes every text."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from tensoraudit.findings.finding import State
from tensoraudit.findings.result import Result
from tensoraudit.findings.severity import is_open, order_key
from tensoraudit.report import migratability, summary
from tensoraudit.report.clean import clean
from tensoraudit.report.style import DEFAULT, Style


def render(result: Result, style: Style = DEFAULT) -> str:
    """Return the report as an HTML page, complete whatever the style."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_finalize,
    )
    source = files("tensoraudit.report").joinpath("templates/report.html.j2").read_text(encoding="utf-8")
    ordered = sorted(result.findings, key=order_key)
    return environment.from_string(source).render(
        result=result,
        summary=summary,
        migration=migratability.lines,
        joined=lambda texts, separator=", ": separator.join(texts),
        opened=[each for each in ordered if is_open(each)],
        notes=[each for each in ordered if each.state is State.ADVICE],
        refuted=[each for each in ordered if each.state is State.REFUTED],
    )


def _finalize(value: object) -> object:
    """Clean what comes from outside; what a macro has made is HTML already and must not be escaped again."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
