"""From the names in `rules = [...]` to folders of rules, and what the configuration changes about rules.

A name is `default` (the rules that come with tensoraudit), a path (`./audit`), or a pack that an installed distribution
offers under the entry point group `tensoraudit.packs`. Its value is `module` or `module:folder`; the module is located
on the path and never imported, so that a pack costs nothing and runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tensoraudit.errors import ConfigError, did_you_mean
from tensoraudit.language.load import RuleSet, load_rules, rules_folder
from tensoraudit.language.pack_file import DEFAULT, PACK_FILE
from tensoraudit.language.rule import Rule
from tensoraudit.language.schema import SEVERITIES

GROUP: Final = "tensoraudit.packs"


def chosen_rules(
    names: Sequence[str],
    *,
    root: Path,
    severity: Mapping[str, str] | None = None,
    off: Sequence[str] = (),
    examples: bool = True,
) -> RuleSet:
    """Load the packs that `names` name and change what the configuration changes.

    Raises ConfigError for a name or an id that is not known, RuleError for what is wrong in a pack.
    """
    return configured(load_rules(rule_folders(names, root), examples=examples), severity or {}, off)


def rule_folders(names: Sequence[str], root: Path = Path()) -> list[Path]:
    """Return the folders (or single files) of rules, each once. Paths are relative to `root`. Raises ConfigError."""
    found = {path.resolve(): path for path in (_folder(name, root) for name in names)}
    return list(found.values())


def is_path(name: str) -> bool:
    """Tell whether a name is written as a path, with a slash or a leading dot."""
    return "/" in name or name.startswith(".")


def _folder(name: str, root: Path) -> Path:
    if name == DEFAULT:
        return rules_folder()
    path = root / name
    if is_path(name):
        if not path.exists():
            raise ConfigError("there is no such folder of rules", where=name, remedy="Correct the path of the pack.")
        return path
    offered = installed_packs()
    if name in offered:
        return locate(offered[name])
    if path.is_dir():  # `rules test audit`
        return path
    words = [DEFAULT, *sorted(offered)]
    raise ConfigError(
        f"there is no pack {name!r}",
        where="rules",
        remedy=f"{did_you_mean(name, words)}Known packs: {', '.join(words)}; a folder is written ./{name}.",
    )


def installed_packs() -> dict[str, EntryPoint]:
    """Return the packs of installed distributions by name. Raises ConfigError where two offer one name."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        other = found.setdefault(entry.name, entry)
        if other.value != entry.value:
            owners = " and ".join(sorted(_owner(each) for each in (other, entry)))
            raise ConfigError(f"{owners} both offer a pack {entry.name!r}", where=GROUP, remedy="Uninstall one.")
    return found


def locate(entry: EntryPoint) -> Path:
    """Return the folder that an entry point names, without importing anything of it. Raises ConfigError."""
    module, _, inner = entry.value.partition(":")
    for place in _places(module.strip()):
        folder = place / inner.strip() if inner.strip() else place
        if (folder / PACK_FILE).is_file():
            return folder
    raise ConfigError(
        f"the pack {entry.name!r} of {_owner(entry)} names {entry.value!r}, where no {PACK_FILE} lies",
        where=GROUP,
        remedy="The value is a package, or package:folder, that holds one; the folder must be part of the wheel.",
    )


def _places(module: str) -> Iterator[Path]:
    """Yield the folders of a module. Only its first part is looked up: `find_spec` of a submodule imports parents."""
    top, *rest = module.split(".")
    try:
        spec = find_spec(top)
    except ValueError:  # no name, or a module that is loaded without a spec
        return
    if spec is None:
        return
    if spec.submodule_search_locations is not None:
        yield from (Path(place, *rest) for place in spec.submodule_search_locations)
    elif spec.origin:
        yield Path(spec.origin).parent


def _owner(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "an installed distribution"


def configured(rules: RuleSet, severity: Mapping[str, str], off: Sequence[str]) -> RuleSet:
    """Return the rules with severities changed and some switched off. Raises ConfigError for an id nobody has.

    An id under a prefix of which nothing is loaded belongs to a pack that is left out this time, and changes nothing.
    """
    words = {name: _severity(name, word) for name, word in severity.items()}
    changed = {rule.id: words[name] for name, rule in _named(rules, words, "severity")}
    silent = {rule.id for _, rule in _named(rules, off, "off")}
    if not changed and not silent:
        return rules
    made = [replace(rule, severity=changed.get(rule.id, rule.severity)) for rule in rules]
    asked, unasked = ([rule for rule in made if (rule.id in silent) is which] for which in (False, True))
    return RuleSet(tuple(asked), tuple(unasked))


def changes(rules: RuleSet, severity: Mapping[str, str]) -> list[str]:
    """Return what the configuration changed, for the notes of a report: a rule never goes silent without a word."""
    notes = (
        [f"rules switched off by the configuration: {', '.join(rule.id for rule in rules.off)}"] if rules.off else []
    )
    changed = [f"{rule.id} is {rule.severity}" for _, rule in _named(rules, sorted(severity), "severity")]
    return [*notes, f"severities changed by the configuration: {', '.join(changed)}"] if changed else notes


def _named(rules: RuleSet, names: Iterable[str], key: str) -> Iterator[tuple[str, Rule]]:
    prefixes = {name.rpartition("-")[0] for name in rules.names}
    for name in names:
        rule = rules.get(name)
        if rule is not None:
            yield name, rule
        elif name.rpartition("-")[0] in prefixes or did_you_mean(name, rules.names):
            remedy = f"{did_you_mean(name, rules.names)}`tensoraudit rules list` prints all of them."
            raise ConfigError(f"there is no rule {name!r}", where=key, remedy=remedy)


def _severity(name: str, word: object) -> str:
    if word not in SEVERITIES:
        remedy = f"{did_you_mean(str(word), SEVERITIES)}Use one of {', '.join(SEVERITIES)}."
        raise ConfigError(f"{word!r} is no severity", where=f"severity.{name}", remedy=remedy)
    return str(word)
