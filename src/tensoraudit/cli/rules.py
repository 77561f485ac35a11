"""`tensoraudit rules`: list, show, test, explain and write rules. What a command needs is imported when it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensoraudit.cli import arguments as a
from tensoraudit.errors import InputError, did_you_mean
from tensoraudit.options import Options, make_options

if TYPE_CHECKING:
    from tensoraudit.language.load import RuleSet
    from tensoraudit.language.rule import Rule

app = typer.Typer(no_args_is_help=True, help="The rules: their pages, their examples, and your own.")

Json = Annotated[bool, typer.Option("--json", help="Print a JSON document.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="The id of a rule, or an old one.")]


def _filter(name: str, help: str, metavar: str) -> Any:
    return typer.Option(f"--{name}", help=help, metavar=metavar)


def _options(packs: list[str] | None) -> Options:
    return make_options({"rules": packs or None})


def _load(packs: list[str] | None) -> RuleSet:
    from tensoraudit.language.packs import chosen_rules

    options = _options(packs)
    return chosen_rules(options.rules, root=options.root, severity=options.severity, off=options.off)


def _one(rules: RuleSet, name: str) -> Rule:
    found = rules.get(name.upper())
    if found is None:
        remedy = f"{did_you_mean(name.upper(), rules.names)}`tensoraudit rules list` prints all of them."
        raise InputError("there is no such rule", where=name, remedy=remedy)
    return found


@app.command("list")
def list_rules(
    words: Annotated[list[str] | None, typer.Argument(metavar="[WORD]...", help="Words to look for.")] = None,
    severity: Annotated[list[str] | None, _filter("severity", "critical, high, medium, low.", "SEVERITY")] = None,
    layer: Annotated[list[str] | None, _filter("layer", "graph, memory, hardware, deployment.", "LAYER")] = None,
    source: Annotated[list[str] | None, _filter("source", "Asked of models from here.", "FRAMEWORK")] = None,
    target: Annotated[list[str] | None, _filter("target", "Asked of models that go here.", "FRAMEWORK")] = None,
    pack: Annotated[list[str] | None, _filter("pack", "The pack, such as selection.", "PACK")] = None,
    category: Annotated[list[str] | None, _filter("category", "The folder in its pack.", "CATEGORY")] = None,
    certainty: Annotated[
        list[str] | None, _filter("certainty", "certain, likely, suspected, advice.", "CERTAINTY")
    ] = None,
    probe: Annotated[list[str] | None, _filter("probe", "What confirms it; none: nothing.", "PROBE")] = None,
    rules: a.Rules = None,
    as_json: Json = False,
) -> int:
    """Print rules with severity, layer, probe and title. A filter may be repeated; all filters must fit."""
    from tensoraudit.cli.rules_list import filtered

    filters = {
        "severity": severity,
        "layer": layer,
        "source": source,
        "target": target,
        "pack": pack,
        "category": category,
        "certainty": certainty,
        "probe": probe,
    }
    found = filtered(_load(rules), filters, words or ())
    if as_json:
        from tensoraudit.report.rule_json import rules_document

        _print_json(rules_document(found))
        return 0
    rows = [(r.id, r.severity, r.layer, r.confirm.probe if r.confirm else "", r.title) for r in found]
    _print_table(("id", "severity", "layer", "probe", "title"), rows)
    return 0


@app.command("show")
def show_rule(rule: Id, rules: a.Rules = None, as_json: Json = False) -> int:
    """Print the page of one rule."""
    packs = _load(rules)
    found = _one(packs, rule)
    if as_json:
        from tensoraudit.report.rule_json import rule_document

        _print_json(rule_document(found))
        return 0
    from rich.console import Console
    from rich.markdown import Markdown

    from tensoraudit.report.rule_page import rule_page

    Console().print(Markdown(rule_page(found, {each.id: each.title for each in packs})))
    return 0


@app.command("test")
def test_rules(
    packs: Annotated[list[str] | None, typer.Argument(metavar="[PACK]...", help="Folders or names of packs.")] = None,
) -> int:
    """Run the examples inside the rules; exit code 1 when one does not do as it says, 3 when one could not run."""
    from tensoraudit.cli.rules_new import unfinished
    from tensoraudit.language.examples import run_examples

    rules = _load(packs)
    outcomes = [outcome for rule in rules for outcome in run_examples(rule)]
    bad = [outcome for outcome in outcomes if not outcome.good]
    for outcome in bad:
        print(f"{outcome.rule} example {outcome.example} (line {outcome.line}): {outcome.status}: {outcome.text}")
    begun = {rule.id: unfinished(rule) for rule in rules}
    for name, keys in begun.items():
        if keys:
            print(f"{name}: unfinished: {', '.join(keys)} still to be written")
    print(f"{len(outcomes) - len(bad)} expectations hold, {len(bad)} do not")
    if any(begun.values()) or any(outcome.status != "skipped" for outcome in bad):
        return 1
    return 3 if bad else 0


@app.command("explain")
def explain_rule(
    rule: Id,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Source, notebook, .onnx, TorchScript or .pt2.")],
    rules: a.Rules = None,
) -> int:
    """Print the place that comes nearest to a rule, each of its conditions, and the first that fails."""
    from tensoraudit.cli.rules_explain import explained

    found = _one(_load(rules), rule)
    for line in explained(found, file, _options(rules)):
        print(line)
    return 0


@app.command("new")
def new_rule(
    title: Annotated[str, typer.Argument(metavar="[TITLE]", help="Names the bad pattern; makes the file's name.")] = "",
    pack: Annotated[str, typer.Option("--pack", metavar="FOLDER", help="The folder of your pack.")] = "",
    category: Annotated[str, typer.Option("--category", metavar="NAME", help="A folder inside the pack.")] = "",
    prefix: Annotated[str, typer.Option("--prefix", metavar="ABC", help="Of the id; the pack's own by default.")] = "",
    kind: Annotated[str, typer.Option("--kind", metavar="KIND", help="The fact it is about: call, node, ...")] = "call",
) -> int:
    """Write the skeleton of a rule under the next free id. It compiles; its words are yours. Overwrites nothing."""
    from tensoraudit.cli.rules_new import write_rule
    from tensoraudit.language.load import rules_folder

    if not pack:
        raise InputError("no pack is named", where="--pack", remedy="Name the folder of your rules: --pack ./audit.")
    for path in write_rule(Path(pack), category, prefix, kind, title, [rules_folder()]):
        print(f"wrote {path}")
    print(f"Next: write its words and examples, then run `tensoraudit rules test {pack}`.")
    return 0


@app.command("cost")
def show_cost(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[PATH]...", help="Source or models to count candidates in.")
    ] = None,
    rules: a.Rules = None,
    as_json: Json = False,
) -> int:
    """Print how each rule finds its candidates and, in files that are given, how many there are; the dearest first."""
    from tensoraudit.cli.rules_cost import COLUMNS, cost_document, costs, row
    from tensoraudit.cli.rules_facts import facts_in
    from tensoraudit.extract.derived import complete_store

    facts, notes = facts_in(files or (), _options(rules))
    found = costs(_load(rules), complete_store(facts) if files else None)
    if as_json:
        _print_json(cost_document(found))
        return 0
    for note in notes:
        print(f"note: {note}")
    _print_table(COLUMNS, [row(each) for each in found])
    return 0


@app.command("schema")
def print_schema() -> int:
    """Print the JSON Schema of a rule file, for completion and checks in an editor."""
    from tensoraudit.language.json_schema import rule_schema

    _print_json(rule_schema())
    return 0


@app.command("pages")
def write_pages(
    out: Annotated[str, typer.Option("--out", metavar="FOLDER", help="Where to write them.")],
    packs: Annotated[list[str] | None, typer.Argument(metavar="[PACK]...", help="Folders or names of packs.")] = None,
) -> int:
    """Write a Markdown page for each rule and an index. Pages that were written for rules that are gone are removed."""
    from tensoraudit.report.rule_page import write_pages

    if not out.strip():
        raise InputError("no folder is named", where="--out", remedy="Name the folder for the pages: --out docs/rules.")
    count, removed = write_pages(Path(out), _load(packs))
    print(f"{count} pages in {out}" + (f", {removed} removed" if removed else ""))
    return 0


def _print_json(document: Any) -> None:
    import json

    print(json.dumps(document, indent=2, ensure_ascii=False))


def _print_table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Fold the last column on a terminal; elsewhere each row is one line, for grep."""
    if not sys.stdout.isatty():
        table = [columns, *rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
            print("  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip())
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    shown = Table(box=None, pad_edge=False)
    for column in columns:
        shown.add_column(column, overflow="fold", no_wrap=column != columns[-1])
    for row in rows:
        shown.add_row(*map(escape, row))
    Console().print(shown)
