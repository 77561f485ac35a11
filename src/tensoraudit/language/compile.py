"""From a document to a rule: every key checked, every fault collected. Patterns are compiled in compile_pattern.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from tensoraudit.errors import RuleError, RuleProblem
from tensoraudit.fixes.verbs import Fix
from tensoraudit.language import problems as wrong
from tensoraudit.language.compile_confirm import compile_confirm
from tensoraudit.language.compile_fix import check_fix, check_fixed, compile_fix
from tensoraudit.language.compile_pattern import PatternCompiler
from tensoraudit.language.compile_when import compile_when
from tensoraudit.language.document import Items, Table, Tree, plain
from tensoraudit.language.example import Example, compile_example
from tensoraudit.language.pattern import Condition, Pattern
from tensoraudit.language.problems import Problems, Wrong, nearest
from tensoraudit.language.rule import Alternative, Rest, Rule
from tensoraudit.language.schema import (
    CERTAINTIES,
    FRAMEWORKS,
    LAYERS,
    SEVERITIES,
)
from tensoraudit.language.templates import Template, parse_template, unknown_placeholder

REQUIRED = ("id", "title", "severity", "layer", "match", "message", "why", "remedy", "examples")
OPTIONAL = (
    "certainty", "source", "target", "when", "confirm", "scan", "versions", "fix", "references", "aliases",
    "deprecated", "see-also", "supersedes",
)  # fmt: skip
LATER = ("why", "remedy", "references", "confirm")
"""What is asked only of a rule that matched, or is shown."""
_NOT_AT_ONCE = (*LATER, "examples")
_T = TypeVar("_T")
_A = ParamSpec("_A")
_KEYS = frozenset((*REQUIRED, *OPTIONAL))
_ID = re.compile(r"[A-Z]+-[0-9]+")


def compile_rule(
    document: Table, path: str, *, later: Callable[[], Table] | None = None, pack: str = "", category: str = ""
) -> tuple[Rule | None, list[RuleProblem]]:
    """Compile one rule. Returns the rule only when nothing is wrong, else all problems.

    A rule that was tested before comes with `later`, which reads the keys in `LATER`. They are compiled, and their
    faults raised, when one of them is asked for; what must hold of an anchor when the first candidate comes; examples
    never.
    """
    compiler = _RuleCompiler(document, Problems(path), later)
    rule = compiler.rule(pack, category)
    return (None if compiler.problems.found else rule), compiler.problems.found


class _RuleCompiler:
    def __init__(self, document: Table, problems: Problems, later: Callable[[], Table] | None = None) -> None:
        self.document, self.problems, self.later = document, problems, later
        self.items: Mapping[Any, Tree] = document.items
        self.fixes: dict[int, tuple[Tree, str | Fix]] = {}
        """Each fix with its part of the document, by the identity of that part: alternatives may share one."""

    def rule(self, pack: str, category: str) -> Rule:
        self._check_keys()
        scan = self._flag("scan")
        compiler = PatternCompiler(self.problems, scan=scan, lazy=self.later is not None)
        alternatives = self._alternatives(compiler)
        if scan and alternatives and not compiler.scans:
            self.problems.add(self.items["scan"], "an index finds every anchor here; leave 'scan' out")
        return Rule(
            id=self._read("id", _id) or "",
            title=self._text("title"),
            severity=self._word("severity", SEVERITIES, ""),
            layer=self._word("layer", LAYERS, ""),
            certainty=self._word("certainty", CERTAINTIES, "certain"),
            alternatives=alternatives,
            when=self._when(),
            rest=self._rest(alternatives),
            examples=self._examples() if self.later is None else (),
            path=self.problems.path,
            line=self.document.line,
            document=self.document,
            source=self._words("source", FRAMEWORKS),
            target=self._words("target", FRAMEWORKS),
            versions=self._text("versions"),
            fix=plain(self.items["fix"]) if "fix" in self.items else "",
            aliases=self._ids("aliases"),
            deprecated=self._flag("deprecated"),
            see_also=self._ids("see-also"),
            supersedes=self._ids("supersedes"),
            scan=scan,
            pack=pack,
            category=category,
        )

    def _rest(self, alternatives: tuple[Alternative, ...]) -> Callable[[], Rest]:
        if self.later is not None:
            return cache(partial(_read_later, self.later, self.problems.path, alternatives))
        rest = self.compiled_rest(alternatives)
        return lambda: rest

    def compiled_rest(self, alternatives: tuple[Alternative, ...]) -> Rest:
        """Compile the keys in `LATER`."""
        return Rest(
            self._text("why"),
            self._text("remedy"),
            self._read("references", wrong.texts, "references") or (),
            self._read("confirm", compile_confirm, alternatives),
        )

    # Keys

    def _check_keys(self) -> None:
        for key in self.items:
            if key not in _KEYS:
                text = f"a rule has no key '{key}'{nearest(str(key), [*REQUIRED, *OPTIONAL])}"
                self.problems.add(self.document.keys[key], text)
        for key in REQUIRED:
            if key not in self.items and (self.later is None or key not in _NOT_AT_ONCE):
                self.problems.add(self.document, f"the rule has no '{key}'")

    def _read(
        self, key: str, build: Callable[Concatenate[Tree, _A], _T], *more: _A.args, **named: _A.kwargs
    ) -> _T | None:
        """Return what `build` makes of the part under `key`; None where there is none, or it is wrong."""
        tree = self.items.get(key)
        return None if tree is None else self.problems.guard(build, tree, *more, **named)

    def _text(self, key: str) -> str:
        return self._read(key, _filled, key) or ""

    def _word(self, key: str, words: tuple[str, ...], default: str) -> str:
        return self._read(key, wrong.one_of, words, key) or default

    def _words(self, key: str, words: tuple[str, ...]) -> tuple[str, ...]:
        return self._read(key, _each, wrong.one_of, words, "framework") or ()

    def _ids(self, key: str) -> tuple[str, ...]:
        return self._read(key, _each, _id) or ()

    def _flag(self, key: str) -> bool:
        return self._read(key, wrong.boolean, key) or False

    # Match

    def _alternatives(self, compiler: PatternCompiler) -> tuple[Alternative, ...]:
        tree = self.items.get("match")
        if tree is None:
            return ()
        found = []
        for part in tree.items if isinstance(tree, Items) else (tree,):
            if not isinstance(part, Table):
                self.problems.add(part, f"a pattern must be a mapping, not {wrong.describe(part)}")
            elif (pattern := compiler.anchored(part)) is not None:
                message, fix = self._message(part, pattern, compiler.bound), self._fix(part, pattern)
                found.append(Alternative(pattern, message, fix, self._own_certainty(part), self._refutable(part)))
        if isinstance(tree, Items) and not tree.items:
            self.problems.add(tree, "'match' is an empty list")
        return tuple(found)

    def _message(self, part: Table, pattern: Pattern, captures: frozenset[str]) -> Template:
        """Return the sentence of an alternative: its own `message`, or the rule's."""
        tree = part.items.get("message", self.items.get("message"))
        words = self.problems.guard(wrong.text, tree, "message") if tree else None
        template = parse_template((words or "").strip())
        fault = unknown_placeholder(template, pattern.kind, captures)
        if fault and tree:
            self.problems.add(tree, fault)
        return template

    def _own_certainty(self, part: Table) -> str:
        tree = part.items.get("certainty")
        word = self.problems.guard(wrong.one_of, tree, CERTAINTIES, "certainty") if tree else None
        return word or ""

    def _refutable(self, part: Table) -> bool:
        tree = part.items.get("refutable")
        if tree is None:
            return True
        if self.later is None and "confirm" not in self.items:
            self.problems.add(part.keys["refutable"], "the rule has no 'confirm', so nothing can refute it")
        return self.problems.guard(wrong.boolean, tree, "refutable") is not False

    def _fix(self, part: Table, pattern: Pattern) -> str | Fix:
        """Return the fix of an alternative: its own `fix`, or the rule's."""
        tree = part.items.get("fix", self.items.get("fix"))
        fix = self._compiled_fix(tree) if tree else ""
        if isinstance(fix, Fix) and isinstance(tree, Table):
            self.problems.guard(check_fix, tree, fix, pattern, part)
        return fix

    def _compiled_fix(self, tree: Tree) -> str | Fix:
        if id(tree) not in self.fixes:
            self.fixes[id(tree)] = (tree, self.problems.guard(compile_fix, tree) or "")
        return self.fixes[id(tree)][1]

    def _when(self) -> tuple[Condition, ...]:
        tree = self.items.get("when")
        return compile_when(tree, self.problems) if tree is not None else ()

    # Examples

    def _examples(self) -> tuple[Example, ...]:
        tree = self.items.get("examples")
        if tree is None:
            return ()
        if not isinstance(tree, Items):
            self.problems.add(tree, "'examples' is a list")
            return ()
        built = [compile_example(part, number, self.problems) for number, part in enumerate(tree.items, 1)]
        examples = tuple(example for example in built if example is not None)
        if all(example.silent for example in examples):
            self.problems.add(tree, "no example is flagged; mark a line with '# flag' or '# suspect', or list 'flag'")
        if not any(example.silent for example in examples):
            self.problems.add(tree, "no example stays silent; add one with nothing marked")
        check_fixed(self.fixes.values(), examples, self.problems)
        return examples


def _read_later(later: Callable[[], Table], path: str, alternatives: tuple[Alternative, ...]) -> Rest:
    """Compile the rest of a rule long after its match. Raises RuleError with all that is wrong in it."""
    compiler = _RuleCompiler(later(), Problems(path))
    rest = compiler.compiled_rest(alternatives)
    if compiler.problems.found:
        raise RuleError(tuple(compiler.problems.found))
    return rest


def _filled(tree: Tree, key: str) -> str:
    text = wrong.text(tree, key).strip()
    if not text:
        raise Wrong(tree, f"'{key}' is empty")
    return text


def _each(tree: Tree, build: Callable[Concatenate[Tree, _A], _T], *more: _A.args, **named: _A.kwargs) -> tuple[_T, ...]:
    return tuple(build(item, *more, **named) for item in (tree.items if isinstance(tree, Items) else (tree,)))


def _id(tree: Tree) -> str:
    word = wrong.text(tree, "an id")
    if not _ID.fullmatch(word):
        raise Wrong(tree, f"'{word}' is no id; write capital letters, a dash and digits, such as ONX-019")
    return word
