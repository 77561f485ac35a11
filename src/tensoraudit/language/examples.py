"""Running the examples of a rule: what was reported, what was missing, what was noise.

The outcomes are `reported`, `validated` and `fixed` (as expected), `missing`, `noisy` and `unfixed` (not), `broken`
(the example itself is wrong) and `skipped` (an optional package is missing). `dropped_conditions` finds the conditions
that no example needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tensoraudit.extract.derived import complete_store
from tensoraudit.facts import Fact, Measurement, Node
from tensoraudit.facts.store import FactStore, key_of
from tensoraudit.language.compile import compile_rule
from tensoraudit.language.document import Items, Table, Tree
from tensoraudit.language.engine import Match, match_rules
from tensoraudit.language.example import Example, without_marks
from tensoraudit.language.example_facts import CannotBuildError, example_facts, node_lines, parsed_nodes
from tensoraudit.language.example_fix import fix_faults
from tensoraudit.language.load import RuleSet
from tensoraudit.language.problems import Wrong, text
from tensoraudit.language.rule import Rule

_MARK_OF = {"certain": "flag", "likely": "flag", "advice": "flag", "suspected": "suspect"}
GOOD = frozenset({"reported", "validated", "fixed"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one expectation: `status` as above; `line` in the rule's file."""

    rule: str
    example: int
    line: int
    status: str
    text: str

    @property
    def good(self) -> bool:
        """Whether the rule did as its example says. A skipped example proves nothing and is not good."""
        return self.status in GOOD


@dataclass(frozen=True, slots=True)
class _Hit:
    """A match in an example: the names it may be called by, its mark, and its line in a marked text."""

    names: frozenset[str]
    mark: str
    line: tuple[str, int] | None
    shown: str


def run_examples(rule: Rule) -> list[Outcome]:
    """Run every example of a rule against the rule alone."""
    return [outcome for example in rule.examples for outcome in _run(rule, example)]


def _run(rule: Rule, example: Example) -> Iterator[Outcome]:
    try:
        hits = [_hit(match, example) for match in _matches(rule, complete_store(example_facts(example)))]
    except Wrong as wrong:
        yield Outcome(rule.id, example.number, wrong.tree.line, "broken", wrong.text)
        return
    except CannotBuildError as error:
        yield Outcome(rule.id, example.number, example.line, "skipped", str(error))
        return
    yield from _compared(rule, example, hits)
    if "fixed" in example.parts:
        yield from _fixed(rule, example)


def _fixed(rule: Rule, example: Example) -> Iterator[Outcome]:
    def matches(changed: Example) -> list[Match]:
        return _matches(rule, complete_store(example_facts(changed)))

    faults = list(fix_faults(example, matches))
    line = example.parts["fixed"].line
    for fault in faults:
        yield Outcome(rule.id, example.number, line, "unfixed", fault)
    if not faults:
        yield Outcome(rule.id, example.number, line, "fixed", "the fix gives this text, and the rule is silent on it")


def _compared(rule: Rule, example: Example, hits: list[_Hit]) -> Iterator[Outcome]:
    used: set[int] = set()
    for expected, named in _expectations(example):
        found = [number for number, hit in enumerate(hits) if hit.mark == expected and _fits(hit, named)]
        used.update(found)
        where = named if isinstance(named, str) else f"{named[0]} line {named[1]}"
        status, words = ("reported", "is") if found else ("missing", "is not")
        yield Outcome(rule.id, example.number, example.line, status, f"{where} {words} reported as '{expected}'")
    noise = [hit for number, hit in enumerate(hits) if number not in used]
    for hit in noise:
        yield Outcome(rule.id, example.number, example.line, "noisy", f"{hit.shown} is reported as '{hit.mark}'")
    if not noise and example.silent:
        yield Outcome(rule.id, example.number, example.line, "validated", "nothing is reported")


def _expectations(example: Example) -> Iterator[tuple[str, str | tuple[str, int]]]:
    for form, marks in example.marks.items():
        yield from ((mark, (form, line)) for line, mark in marks.items())
    yield from (("flag", name) for name in example.flag)
    yield from (("suspect", name) for name in example.suspect)


def _fits(hit: _Hit, named: str | tuple[str, int]) -> bool:
    return named in hit.names if isinstance(named, str) else named == hit.line


def _matches(rule: Rule, store: FactStore) -> list[Match]:
    return match_rules(RuleSet((replace(rule, deprecated=False),)), store, source="", target="")


def _hit(match: Match, example: Example) -> _Hit:
    names = _names(match.kind, match.anchor)
    line = _line(match, example)
    shown = f"{match.kind} {sorted(names)[0]}" + (f" in {line[0]} line {line[1]}" if line else "")
    return _Hit(names, _MARK_OF[match.state], line, shown)


def _names(kind: str, fact: Fact) -> frozenset[str]:
    names = {key_of(kind, fact)}
    if isinstance(fact, Node):
        names |= {fact.name, *fact.outputs[:1]} - {""}
    if isinstance(fact, Measurement):
        names.add(f"{fact.metric}@{fact.subject}")
    return frozenset(names)


def _line(match: Match, example: Example) -> tuple[str, int] | None:
    if isinstance(match.anchor, Node) and "onnx" in example.parts:
        lines = without_marks(text(example.parts["onnx"], "onnx"))
        nodes = parsed_nodes(lines, example.parts["onnx"])
        own = (number for number, node in zip(node_lines(lines), nodes, strict=True) if _same_node(node, match.anchor))
        number = next(own, None)
        return None if number is None else ("onnx", number)
    return ("python", match.where.line) if match.where.line is not None and "python" in example.parts else None


def _same_node(proto: Any, node: Node) -> bool:
    return tuple(proto.output) == node.outputs and proto.op_type == node.op


# Conditions that no example needs


@dataclass(frozen=True, slots=True)
class Dropped:
    """A condition of a rule whose removal changes no example: `path` such as `match.attributes.axis`, and its place."""

    path: str
    line: int
    column: int


_KEPT = frozenset({"in", "within", "message", "fix", "certainty", "refutable", "argument", "of"})
"""Keys that are no condition, or that a relation cannot do without."""


def dropped_conditions(rule: Rule) -> list[Dropped]:
    """Return the conditions of `match` and `when` that can be removed without any example noticing.

    An example that cannot be built here (CannotBuildError) is left out; conditions that only it needs are then listed.
    """
    stores = [complete_store(facts) for facts in _built(rule)]
    expected = _reported(rule, stores)
    found = []
    for path, tree, document in _without_each(rule.document):
        other, _ = compile_rule(document, rule.path)
        # What no longer compiles (an anchor that nothing can find) cannot be dropped.
        if other is not None and _reported(other, stores) == expected:
            found.append(Dropped(path, tree.line, tree.column))
    return found


def _built(rule: Rule) -> Iterator[list[Fact]]:
    for example in rule.examples:
        try:
            yield example_facts(example)
        except CannotBuildError:
            continue


def _reported(rule: Rule, stores: list[FactStore]) -> list[set[tuple[int, str]]]:
    return [{(id(match.anchor), _MARK_OF[match.state]) for match in _matches(rule, store)} for store in stores]


def _without_each(document: Table) -> Iterator[tuple[str, Tree, Table]]:
    """Yield the document without each of its conditions in turn."""
    for key in ("match", "when"):
        if key in document.items:
            for path, tree, smaller in _smaller(document.items[key], key):
                items = {name: item for name, item in document.items.items() if name != key}
                if smaller is not None:
                    items[key] = smaller
                yield path, tree, replace(document, items=items)


def _smaller(tree: Tree, path: str) -> Iterator[tuple[str, Tree, Tree | None]]:
    """Yield each way to take one condition out of a tree; None when nothing is left."""
    if isinstance(tree, Table):
        yield from _smaller_table(tree, path)
    elif isinstance(tree, Items) and any(isinstance(item, Table) for item in tree.items):
        for number, item in enumerate(tree.items):
            rest = (*tree.items[:number], *tree.items[number + 1 :])
            yield f"{path}[{number}]", item, replace(tree, items=rest) if rest else None
            for inner, place, smaller in _smaller(item, f"{path}[{number}]"):
                kept = () if smaller is None else (smaller,)
                yield inner, place, replace(tree, items=(*tree.items[:number], *kept, *tree.items[number + 1 :]))


def _smaller_table(tree: Table, path: str) -> Iterator[tuple[str, Tree, Tree | None]]:
    for key, value in tree.items.items():
        if key in _KEPT:
            continue
        if len(tree.items) > 1:  # to drop an only key is to drop its parent
            yield f"{path}.{key}", tree.keys[key], _replaced(tree, key, None)
        for inner, place, smaller in _smaller(value, f"{path}.{key}"):
            yield inner, place, _replaced(tree, key, smaller)


def _replaced(tree: Table, key: Any, value: Tree | None) -> Table | None:
    items: Mapping[Any, Tree] = {name: item for name, item in tree.items.items() if name != key}
    # In the place of the old value, so that the order of the file is kept.
    new = {
        name: (value if name == key else item) for name, item in tree.items.items() if name != key or value is not None
    }
    return replace(tree, items=new) if items or value is not None else None  # type: ignore[arg-type]
