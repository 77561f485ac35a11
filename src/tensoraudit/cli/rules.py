"""`tensoraudit rules`: list them, show one's page, run their examples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from tensoraudit.errors import InputError
from tensoraudit.language.examples import run_examples
from tensoraudit.language.load import RuleSet, load_rules, rules_folder
from tensoraudit.report.rule_page import rule_page

app = typer.Typer(no_args_is_help=True, help="The rules, their pages, and their examples.")

Folder = Annotated[str | None, typer.Argument(metavar="FOLDER", help="Your own folder of rules.")]


def _load(folder: str | None) -> RuleSet:
    path = Path(folder) if folder else rules_folder()
    if not path.exists():
        raise InputError("there is no such folder", where=str(path), remedy="Name a folder with *.yaml rules.")
    return load_rules([path])


@app.command("list")
def list_rules(folder: Folder = None) -> int:
    """Print every rule with severity, layer and title."""
    table = Table(box=None, pad_edge=False)
    for column in ("id", "severity", "layer", "title"):
        table.add_column(column, overflow="fold")
    for rule in _load(folder):
        table.add_row(rule.id, rule.severity, rule.layer, rule.title)
    Console().print(table)
    return 0


@app.command("show")
def show_rule(rule: Annotated[str, typer.Argument(metavar="ID")], folder: Folder = None) -> int:
    """Print the page of one rule. An unknown id is an error."""
    found = _load(folder).get(rule)
    if found is None:
        raise InputError("there is no such rule", where=rule, remedy="`tensoraudit rules list` prints all of them.")
    Console().print(Markdown(rule_page(found)))
    return 0


@app.command("test")
def test_rules(folder: Folder = None) -> int:
    """Run the examples inside the rules; exit code 1 when one does not do as it says, 3 when one could not run."""
    outcomes = [outcome for rule in _load(folder) for outcome in run_examples(rule)]
    bad = [outcome for outcome in outcomes if not outcome.good]
    for outcome in bad:
        print(f"{outcome.rule} example {outcome.example} (line {outcome.line}): {outcome.status}: {outcome.text}")
    print(f"{len(outcomes) - len(bad)} expectations hold, {len(bad)} do not")
    if any(outcome.status != "skipped" for outcome in bad):
        return 1
    return 3 if bad else 0
