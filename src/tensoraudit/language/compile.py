"""From a document to a rule: every key checked, every fault collected. Patterns are compiled in compile_pattern.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tensoraudit.errors import RuleProblem
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
from tensoraudit.language.rule import Alternative, Rule
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
_ID = re.compile(r"[A-Z]+-[0-9]+")


def compile_rule(document: Table, path: str, *, examples: bool = True) -> tuple[Rule | None, list[RuleProblem]]:
    """Compile one rule. Returns the rule only when nothing is wrong, else all problems. Without `examples` they are
    neither asked for nor looked at, and what must hold of an anchor is compiled, and its faults raised, when the first
    candidate comes: so it is with rules that were tested before."""
    compiler = _RuleCompiler(document, Problems(path), examples)
    rule = compiler.rule()
    return (None if compiler.problems.found else rule), compiler.problems.found


class _RuleCompiler:
    def __init__(self, document: Table, problems: Problems, with_examples: bool) -> None:
        self.document, self.problems, self.with_examples = document, problems, with_examples
        self.items: Mapping[Any, Tree] = document.items
        self.fixes: dict[int, tuple[Tree, str | Fix]] = {}
        """Each fix with its part of the document, by the identity of that part: alternatives may share one."""

    def rule(self) -> Rule:
        self._check_keys()
        scan = self._read("scan", lambda tree: wrong.boolean(tree, "scan"), False)
        compiler = PatternCompiler(self.problems, scan=scan, lazy=not self.with_examples)
        alternatives = self._alternatives(compiler)
        if scan and alternatives and not compiler.scans:
            self.problems.add(self.items["scan"], "an index finds every anchor here; leave 'scan' out")
        return Rule(
            id=self._read("id", _id, ""),
            title=self._text("title"),
            severity=self._word("severity", SEVERITIES, ""),
            layer=self._word("layer", LAYERS, ""),
            certainty=self._word("certainty", CERTAINTIES, "certain"),
            alternatives=alternatives,
            when=self._when(),
            why=self._text("why"),
            remedy=self._text("remedy"),
            examples=self._examples() if self.with_examples else (),
            path=self.problems.path,
            line=self.document.line,
            document=self.document,
            source=self._words("source", FRAMEWORKS),
            target=self._words("target", FRAMEWORKS),
            confirm=self._read("confirm", lambda tree: compile_confirm(tree, alternatives), None),
            versions=self._text("versions"),
            fix=plain(self.items["fix"]) if "fix" in self.items else "",
            references=self._texts("references"),
            aliases=self._ids("aliases"),
            deprecated=self._read("deprecated", lambda tree: wrong.boolean(tree, "deprecated"), False),
            see_also=self._ids("see-also"),
            supersedes=self._ids("supersedes"),
            scan=scan,
        )

    # Keys

    def _check_keys(self) -> None:
        for key in self.items:
            if key not in REQUIRED and key not in OPTIONAL:
                text = f"a rule has no key '{key}'{nearest(str(key), [*REQUIRED, *OPTIONAL])}"
                self.problems.add(self.document.keys[key], text)
        for key in REQUIRED:
            if key not in self.items and (self.with_examples or key != "examples"):
                self.problems.add(self.document, f"the rule has no '{key}'")

    def _read(self, key: str, build: Callable[[Tree], Any], default: Any) -> Any:
        if key not in self.items:
            return default
        found = self.problems.guard(lambda: build(self.items[key]))
        return default if found is None else found

    def _text(self, key: str) -> str:
        def build(tree: Tree) -> str:
            text = wrong.text(tree, key).strip()
            if not text:
                raise Wrong(tree, f"'{key}' is empty")
            return text

        return str(self._read(key, build, ""))

    def _word(self, key: str, words: tuple[str, ...], default: str) -> str:
        return str(self._read(key, lambda tree: wrong.one_of(tree, words, key), default))

    def _words(self, key: str, words: tuple[str, ...]) -> tuple[str, ...]:
        def build(tree: Tree) -> tuple[str, ...]:
            items = tree.items if isinstance(tree, Items) else (tree,)
            return tuple(wrong.one_of(item, words, "framework") for item in items)

        return tuple(self._read(key, build, ()))

    def _texts(self, key: str) -> tuple[str, ...]:
        return tuple(self._read(key, lambda tree: wrong.texts(tree, key), ()))

    def _ids(self, key: str) -> tuple[str, ...]:
        def build(tree: Tree) -> tuple[str, ...]:
            return tuple(_id(item) for item in (tree.items if isinstance(tree, Items) else (tree,)))

        return tuple(self._read(key, build, ()))

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
        words = self.problems.guard(lambda: wrong.text(tree, "message")) if tree else None
        template = parse_template((words or "").strip())
        fault = unknown_placeholder(template, pattern.kind, captures)
        if fault and tree:
            self.problems.add(tree, fault)
        return template

    def _own_certainty(self, part: Table) -> str:
        tree = part.items.get("certainty")
        word = self.problems.guard(lambda: wrong.one_of(tree, CERTAINTIES, "certainty")) if tree else None
        return word or ""

    def _refutable(self, part: Table) -> bool:
        tree = part.items.get("refutable")
        if tree is None:
            return True
        if "confirm" not in self.items:
            self.problems.add(part.keys["refutable"], "the rule has no 'confirm', so nothing can refute it")
        return self.problems.guard(lambda: wrong.boolean(tree, "refutable")) is not False

    def _fix(self, part: Table, pattern: Pattern) -> str | Fix:
        """Return the fix of an alternative: its own `fix`, or the rule's."""
        tree = part.items.get("fix", self.items.get("fix"))
        fix = self._compiled_fix(tree) if tree else ""
        if isinstance(fix, Fix) and isinstance(tree, Table):
            self.problems.guard(lambda: check_fix(tree, fix, pattern, part))
        return fix

    def _compiled_fix(self, tree: Tree) -> str | Fix:
        if id(tree) not in self.fixes:
            self.fixes[id(tree)] = (tree, self.problems.guard(lambda: compile_fix(tree)) or "")
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


def _id(tree: Tree) -> str:
    word = wrong.text(tree, "an id")
    if not _ID.fullmatch(word):
        raise Wrong(tree, f"'{word}' is no id; write capital letters, a dash and digits, such as ONX-019")
    return word
