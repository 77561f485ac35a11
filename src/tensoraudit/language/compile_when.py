"""Compiling `when`: tests on the environment that are asked once per scan and prune whole rules."""

from __future__ import annotations

from collections.abc import Iterator

from tensoraudit.language import problems as wrong
from tensoraudit.language.compile_pattern import PatternCompiler
from tensoraudit.language.document import Items, Table, Tree
from tensoraudit.language.kleene import all_of, any_of, negate
from tensoraudit.language.pattern import Condition, Question
from tensoraudit.language.problems import Problems, Wrong
from tensoraudit.language.relations import exists_question
from tensoraudit.language.schema import ANCHORS, ENVIRONMENT_ANCHORS


def compile_when(tree: Tree, problems: Problems) -> tuple[Condition, ...]:
    """Compile one test or a list of tests, all of which must hold."""

    if isinstance(tree, Items) and not tree.items:
        problems.add(tree, "'when' over nothing")

    def built() -> Iterator[Condition]:
        for part in _parts(tree):
            question = problems.guard(_test, part, problems)
            if question is not None:
                yield Condition("when", part.line, part.column, question)

    return tuple(built())


def _parts(tree: Tree) -> tuple[Tree, ...]:
    return tree.items if isinstance(tree, Items) else (tree,)


def _test(tree: Tree, problems: Problems) -> Question:
    rows = wrong.table(tree, "a test of 'when'")
    join = next((key for key in ("all", "any", "not") if key in rows.items), None)
    if join is None:
        return _fact(rows, problems)
    if len(rows.items) > 1:
        raise Wrong(rows, f"'{join}' stands alone in a test of 'when'")
    questions = wrong.each(_parts(rows.items[join]), lambda part: _test(part, problems))
    if not questions:
        raise Wrong(rows.items[join], f"'{join}' over nothing")
    combine = all_of if join == "all" else any_of
    if join == "not":
        return lambda fact, context: negate(any_of(question(fact, context) for question in questions))
    return lambda fact, context: combine(question(fact, context) for question in questions)


def _fact(rows: Table, problems: Problems) -> Question:
    if not any(key in ENVIRONMENT_ANCHORS for key in rows.items):
        word = next((str(key) for key in rows.items if key in ANCHORS), str(next(iter(rows.items), "")))
        raise Wrong(rows, f"'when' asks about {', '.join(ENVIRONMENT_ANCHORS)}, not '{word}'")
    return exists_question(PatternCompiler(problems), rows, None)
