"""Which rules `tensoraudit rules list` prints: filters with words that are checked. Prints nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from tensoraudit.errors import InputError, did_you_mean
from tensoraudit.language.load import RuleSet
from tensoraudit.language.metrics import PROBES
from tensoraudit.language.rule import Rule
from tensoraudit.language.schema import CERTAINTIES, FRAMEWORKS, LAYERS, SEVERITIES

NO_PROBE: Final = "none"

_FITS: Final[Mapping[str, Callable[[Rule, str], bool]]] = {
    "severity": lambda rule, word: rule.severity == word,
    "layer": lambda rule, word: rule.layer == word,
    "certainty": lambda rule, word: rule.certainty == word,
    "source": lambda rule, word: rule.concerns(word, ""),
    "target": lambda rule, word: rule.concerns("", word),
    "pack": lambda rule, word: rule.pack == word,
    "category": lambda rule, word: rule.category == word,
    "probe": lambda rule, word: word == (rule.confirm.probe if rule.confirm else NO_PROBE),
}
"""Filter to its test. Several words of one filter: any of them; several filters: all of them."""


def filtered(rules: RuleSet, filters: Mapping[str, Sequence[str] | None], words: Iterable[str]) -> list[Rule]:
    """Return the rules that pass every filter and hold every word, in the order of their ids.

    Raises InputError for a word that no filter knows, with the nearest one.
    """
    known = _known(rules)
    for name, values in filters.items():
        for value in values or ():
            if value not in known[name]:
                remedy = f"{did_you_mean(value, known[name])}Known: {', '.join(known[name])}."
                raise InputError(f"{value!r} is no {name} of a rule", where=f"--{name}", remedy=remedy)
    searched = [word.casefold() for word in words]
    return [rule for rule in rules if _passes(rule, filters) and all(word in _text(rule) for word in searched)]


def _passes(rule: Rule, filters: Mapping[str, Sequence[str] | None]) -> bool:
    return all(any(_FITS[name](rule, value) for value in values) for name, values in filters.items() if values)


def _known(rules: RuleSet) -> dict[str, list[str]]:
    return {
        "severity": list(SEVERITIES),
        "layer": list(LAYERS),
        "certainty": list(CERTAINTIES),
        "source": list(FRAMEWORKS),
        "target": list(FRAMEWORKS),
        "pack": sorted({rule.pack for rule in rules}),
        "category": sorted({rule.category for rule in rules} - {""}),
        "probe": [*PROBES, NO_PROBE],
    }


def _text(rule: Rule) -> str:
    """What a search looks through: id and old ids, title, texts, and the names of its anchors."""
    names = (name.text for each in rule.alternatives for name in each.pattern.names)
    return "\n".join((rule.id, *rule.aliases, rule.title, rule.why, rule.remedy, rule.category, *names)).casefold()
