"""How many calls of real training code the reader of Python can name: one line per folder.

    python bench/resolution.py FOLDER [FOLDER ...]

A folder is one that an import would be named from (a target of `pip install --no-deps --target FOLDER package`). Each
call counts once, whatever the number of its possible meanings; `ambiguous` are those with several.
"""

from __future__ import annotations

import argparse
import builtins
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tensoraudit.extract.python_source import read_python
from tensoraudit.facts import Call, ClassDef, Fact, Import, Scope
from tensoraudit.facts.code_index import CodeIndex

KINDS = ("imports", "builtins", "project", "receiver", "own method", "own attribute", "unknown", "ambiguous")
RESOLVED = KINDS[:5]
BUILTINS = frozenset(dir(builtins))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--unknown", type=int, default=0, help="also list the most common unknown callees")
    options = parser.parse_args()
    print(
        f"{'folder':<20}{'lines':>8}{'calls':>7}{'resolved':>10}" + "".join(f"{kind:>15}" for kind in KINDS) + "  CPU s"
    )
    for folder in options.folders:
        started = time.process_time()
        read = read_python([folder], root=folder)
        seconds = time.process_time() - started
        kinds = list(kinds_of_calls(read.facts))
        counts = Counter(kind for kind, _ in kinds)
        total = sum(count for kind, count in counts.items() if kind != "ambiguous") or 1
        shares = "".join(f"{counts[kind] / total:>15.1%}" for kind in KINDS)
        resolved = sum(counts[kind] for kind in RESOLVED) / total
        print(f"{folder.name:<20}{read.lines:>8}{total:>7}{resolved:>10.1%}{shares}{seconds:>7.1f}")
        missed = Counter(callee for kind, callee in kinds if kind in ("unknown", "own attribute"))
        for callee, count in missed.most_common(options.unknown):
            print(f"    {count:>6}  {callee}")


def kinds_of_calls(facts: list[Fact]) -> Iterator[tuple[str, str]]:
    """Yield (kind, callee) of every call, and ("ambiguous", callee) beside it for those with several meanings."""
    scopes = [fact for fact in facts if isinstance(fact, Scope)]
    code = CodeIndex(
        scopes,
        [fact for fact in facts if isinstance(fact, ClassDef)],
        [fact for fact in facts if isinstance(fact, Import)],
    )
    roots = {scope.module.partition(".")[0] for scope in scopes}
    methods = _methods(facts)
    seen: set[tuple[int, int]] = set()
    for call in facts:
        if not isinstance(call, Call) or (call.scope, call.order) in seen:
            continue
        seen.add((call.scope, call.order))
        if call.ambiguous:
            yield "ambiguous", call.callee
        yield _kind(call, roots, code, methods), call.callee


def _kind(call: Call, roots: set[str], code: CodeIndex, methods: dict[str, set[str]]) -> str:
    callee = call.callee
    root = callee.partition(".")[0].partition("(")[0].partition("[")[0]
    if root == "?":
        return "unknown"
    if root == "self":
        return "own method" if _is_own_method(call, code, methods) else "own attribute"
    if "()" in callee or "[]" in callee:
        return "receiver"
    if root in BUILTINS:
        return "builtins"
    return "project" if root in roots else "imports"


def _methods(facts: list[Fact]) -> dict[str, set[str]]:
    """Return the methods of the classes of each name, whatever their module: bases are written in many ways."""
    found: dict[str, set[str]] = {}
    for fact in facts:
        if isinstance(fact, ClassDef):
            found.setdefault(fact.name.rpartition(".")[2], set()).update(fact.methods)
    return found


def _is_own_method(call: Call, code: CodeIndex, methods: dict[str, set[str]]) -> bool:
    names = call.callee.split(".")
    scope = code.innermost(call, "class")
    definition = code.class_of(scope) if scope is not None else None
    if definition is None or len(names) != 2:
        return False
    family = [
        *definition.methods,
        *(name for base in code.bases(definition) for name in methods.get(base.rpartition(".")[2], ())),
    ]
    return names[1] in family


if __name__ == "__main__":
    main()
