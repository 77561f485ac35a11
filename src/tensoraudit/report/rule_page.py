"""The page of one rule, and the index of all, in Markdown: drawn from the rules themselves, never written by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from itertools import groupby, product
from pathlib import Path
from typing import Any, Final

import yaml

from tensoraudit.facts.store import CODE_KINDS
from tensoraudit.language.document import Items, Table, plain
from tensoraudit.language.example import FORMS, Example
from tensoraudit.language.rule import Rule
from tensoraudit.report.rule_words import confirm_words, fix_words

GENERATED: Final = "<!-- Written by `make docs` from the rules; what is changed here is lost. -->\n\n"

_CLAIMS: Final[Mapping[str, str]] = {
    "certain": "the match alone can be certain",
    "likely": "the match alone is likely, never certain",
    "suspected": "the match alone is a suspicion; it counts one step milder until a probe confirms it",
    "advice": "a note; it never counts",
}
_CODE: Final[Mapping[str, str]] = {"python": "python", "onnx": "text", "onnx_model": "text"}
"""Forms of examples that are shown as they are written, with the language of the block."""
_MARKS: Final[Mapping[str, str]] = {
    "flag": "Lines marked `# flag` are reported.\n",
    "suspect": "Lines marked `# suspect` are reported as suspicions.\n",
}
_UNSHOWN: Final = frozenset({"flag", "suspect", "fixed", "file"})


def pages(rules: Iterable[Rule]) -> dict[str, str]:
    """Return file name -> text: a page for each rule, and `index.md`."""
    rules = list(rules)
    titles = {rule.id: rule.title for rule in rules}
    written = {f"{rule.id}.md": GENERATED + rule_page(rule, titles) for rule in rules}
    return {**written, "index.md": GENERATED + index_page(rules)}


def write_pages(folder: Path, rules: Iterable[Rule]) -> tuple[int, int]:
    """Write all pages into a folder and remove those of rules that are gone. Returns how many of each."""
    written = pages(rules)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    gone = [path for path in folder.glob("*.md") if path.name not in written and _is_generated(path)]
    for path in gone:
        path.unlink()
    return len(written), len(gone)


def _is_generated(path: Path) -> bool:
    return path.read_text(encoding="utf-8", errors="replace").startswith(GENERATED)


def index_page(rules: Iterable[Rule]) -> str:
    """Return the list of rules by pack and category, each with severity, layer and title."""
    lines = ["# Rules\n"]
    ordered = sorted(rules, key=lambda rule: (rule.pack, rule.category, rule.id))
    for (pack, category), group in groupby(ordered, key=lambda rule: (rule.pack, rule.category)):
        lines += [
            f"## {pack}{f' / {category}' if category else ''}\n",
            "| rule | severity | layer | |",
            "| --- | --- | --- | --- |",
        ]
        lines += [f"| [{r.id}]({r.id}.md) | {r.severity} | {r.layer} | {_cell(r.title)} |" for r in group]
        lines.append("")
    return "\n".join(lines)


def rule_page(rule: Rule, titles: Mapping[str, str] | None = None) -> str:
    """Return the page of a rule: what happens, examples, what to change, how it is confirmed, how to silence it.

    `titles` are those of the rules that this page may name.
    """
    return "\n".join(_lines(rule, titles or {})).rstrip() + "\n"


def _lines(rule: Rule, titles: Mapping[str, str]) -> Iterator[str]:
    yield f"# {rule.id}: {rule.title}\n"
    yield from _head(rule)
    yield f"## What happens\n\n{rule.why}\n"
    yield from _examples(rule)
    yield f"## What to change\n\n{rule.remedy}\n"
    for fix in dict.fromkeys(_fixes(rule)):
        yield f"Fix: {fix}\n"
    yield from _fixed(rule)
    yield from _confirm(rule)
    yield from _silence(rule)
    if rule.references:
        yield "## References\n"
        yield from (
            f"- <{text}>" if text.startswith("http") and " " not in text else f"- {text}" for text in rule.references
        )
        yield ""
    yield from _related(rule, titles)


def _fixes(rule: Rule) -> Iterator[str]:
    """The fix of the rule, and those of its patterns that have their own."""
    if rule.fix:
        yield fix_words(rule.fix)
    match = rule.document.items["match"]
    for part in match.items if isinstance(match, Items) else (match,):
        if isinstance(part, Table) and "fix" in part.items:
            yield fix_words(plain(part.items["fix"]))


def _head(rule: Rule) -> Iterator[str]:
    rows = {
        "severity": rule.severity,
        "layer": rule.layer,
        "certainty": f"{rule.certainty}: {_CLAIMS[rule.certainty]}",
        "from": ", ".join(rule.source) or "any framework",
        "to": ", ".join(rule.target) or "any framework",
        "versions": rule.versions,
        "formerly": ", ".join(rule.aliases),
        "deprecated": "yes: no longer asked" if rule.deprecated else "",
    }
    yield "| | |\n| --- | --- |"
    yield from (f"| {name} | {_cell(text)} |" for name, text in rows.items() if text)
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


# Examples


def _examples(rule: Rule) -> Iterator[str]:
    flagged, silent = _pair(rule)
    yield "## Flagged\n"
    yield from _shown(flagged)
    marks = {mark for lines in flagged.marks.values() for mark in lines.values()}
    yield from (text for mark, text in _MARKS.items() if mark in marks)
    yield "## Not flagged\n"
    yield from _shown(silent)


def _fixed(rule: Rule) -> Iterator[str]:
    """An example after the fix; the one that is shown as flagged where that has one."""
    shown, _ = _pair(rule)
    fixed = next((each.parts["fixed"] for each in (shown, *rule.examples) if "fixed" in each.parts), None)
    if fixed is not None:
        yield "After the fix:\n"
        yield from _block("python", str(plain(fixed)))


def _pair(rule: Rule) -> tuple[Example, Example]:
    """The first flagged example that has a silent one of its own form, with the most similar of these."""
    flagged = [each for each in rule.examples if not each.silent]
    silent = [each for each in rule.examples if each.silent]

    def rank(pair: tuple[Example, Example]) -> tuple[bool, int, float]:
        first, second = pair
        one, other = ("\n".join(_shown(each)) for each in pair)
        return _form(first) == _form(second), -first.number, SequenceMatcher(None, one, other, autojunk=False).ratio()

    return max(product(flagged, silent), key=rank)


def _form(example: Example) -> frozenset[str]:
    return frozenset(example.parts).intersection(FORMS)


def _shown(example: Example) -> Iterator[str]:
    for form, language in _CODE.items():
        if form in example.parts:
            yield from _block(language, str(plain(example.parts[form])))
    rest = {key: plain(part) for key, part in example.parts.items() if key not in _UNSHOWN and key not in _CODE}
    if rest:
        yield from _block("yaml", yaml.safe_dump(rest, sort_keys=False, default_flow_style=None, width=100))
    named = ", ".join(f"`{name}`" for name in (*example.flag, *example.suspect))
    if named:
        yield f"Reported: {named}.\n"


def _block(language: str, text: str) -> Iterator[str]:
    fence = "```" if "```" not in text else "~~~~"
    yield f"{fence}{language}\n{text.strip()}\n{fence}\n"


# Proof, silence, relatives


def _confirm(rule: Rule) -> Iterator[str]:
    yield "## How it is confirmed\n"
    block = rule.document.items.get("confirm")
    if rule.confirm is None or not isinstance(block, Table):
        yield "By the match itself: no probe is needed, or none can tell.\n"
        return
    yield f"`tensoraudit scan` runs the probe `{rule.confirm.probe}`.\n"
    for key in ("confirmed", "refuted"):
        yield f"It is **{key}** when\n"
        yield from confirm_words(plain(block.items[key]))
        yield ""
    yield "When neither holds, or nothing was measured, it stays unverified, with the reason.\n"


def _silence(rule: Rule) -> Iterator[str]:
    yield "## How to silence it\n"
    if any(each.pattern.kind in CODE_KINDS for each in rule.alternatives):
        yield f"On the line, with a reason: `# tensoraudit: ignore[{rule.id}] why it does no harm here`.\n"
        yield "Elsewhere, in `pyproject.toml`:\n"
    else:
        yield "In `pyproject.toml`, with a reason:\n"
    entry = {"rule": rule.id, "where": _place(rule), "reason": "why it does no harm here"}
    lines = [f'{key} = "{text}"' for key, text in entry.items() if text]
    yield from _block("toml", "\n".join(["[[tool.tensoraudit.ignore]]", *lines]))


def _place(rule: Rule) -> str:
    """What `where` is likely to name: a file for code, else a node, tensor or variable; nothing for a whole model."""
    kinds = {each.pattern.kind for each in rule.alternatives}
    places: dict[Any, str] = {
        "node": "a node's name",
        "tensor": "a tensor's name",
        "value": "a tensor's name",
        "variable": "NAME",
    }
    return "src/*.py" if kinds & CODE_KINDS else next((places[kind] for kind in places if kind in kinds), "")


def _related(rule: Rule, titles: Mapping[str, str]) -> Iterator[str]:
    relatives = {
        "See also": [name for name in rule.see_also if name not in rule.supersedes],
        "Shown instead of, where both hit one place": list(rule.supersedes),
    }
    if any(relatives.values()):
        yield "## See also\n"
    for lead, names in relatives.items():
        for name in names:
            prefix = "" if lead == "See also" else f"{lead}: "
            yield f"- {prefix}[{name}]({name}.md){f': {titles[name]}' if name in titles else ''}"
