"""How the rule engine grows: loading, compiling and matching, over facts made here (no extractor takes part).

    python bench/rules_engine.py

Facts: 57,000 calls in 400 files (with scopes, blocks and imports) and one graph of 100,000 nodes, as large as 200,000
lines of training code and the largest graphs. Rules: those that ship, repeated under new ids to 304 and 1,000.
`copies` have the same anchors, so that findings grow with the rules too; `spread` copies are anchored at names that
occur now and then, as rules of many topics are. Printed as processor seconds; the curve to look at is the time for each
thousand candidates (pairs of a rule and a fact that the index found), which must not grow with the number of rules.
What must hold of an anchor is compiled at its first candidate, so that `cold` holds that too. What is asked of a rule
that matched (`why`, `confirm`...) is read then, and in no column here.
Limits: 0.3 s to load 304 rules, 10 s a match, 500 MB.
"""

from __future__ import annotations

import argparse
import random
import re
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from tensoraudit.facts import ABSENT, Block, Call, Fact, Import, Name, Node, Package, Scope, Site, Value
from tensoraudit.facts.store import FactStore
from tensoraudit.language.document import plain, read_documents
from tensoraudit.language.engine import match_rules
from tensoraudit.language.load import RuleSet, load_rules, rules_folder

CALLS, NODES, FILES = 57_000, 100_000, 400
LINKS = re.compile(r"^(id|aliases|supersedes|see-also): .*$", re.MULTILINE)
CALLEES = [
    "torch.load", "torch.onnx.export", "torch.nn.Linear", "torch.nn.functional.dropout", "?.item", "?.view", "?.append",
    "torch.jit.trace", "numpy.array", "self.conv", "len", "int", "print", "range", "torch.optim.Adam().step", "?.eval",
]  # fmt: skip
OPS = ["Conv", "Relu", "Add", "MatMul", "Mul", "Softmax", "Reshape", "Transpose", "Gather", "Dropout", "Resize", "Cast"]


def calls(rng: random.Random) -> Iterator[Fact]:
    """Yield calls in functions of classes, some inside blocks, a third of them of names that hardly repeat."""
    for number in range(FILES):
        path = f"pkg/file{number}.py"
        yield from (
            Import(module, (module,), number * 100, Site(path, 1, 1), "source") for module in ("torch", "numpy")
        )
        for scope in range(20):
            kind: Any = "module" if scope == 0 else ("class" if scope % 5 == 1 else "function")
            parent = None if scope == 0 else number * 100 + (0 if kind == "class" else scope - scope % 5 + 1)
            parent = number * 100 if parent == number * 100 + scope else parent
            yield Scope(
                number * 100 + scope,
                kind,
                f"Net{scope}.forward",
                parent,
                (),
                f"pkg.file{number}",
                Site(path, scope + 1, 1),
            )
        for order in range(CALLS // FILES):
            callee = rng.choice(CALLEES) if rng.random() < 0.67 else f"lib{rng.randrange(300)}.f{rng.randrange(60)}"
            scope = number * 100 + rng.randrange(20)
            blocks = (Block("with", ("torch.no_grad",), "", Site(path, order, 1)),) if rng.random() < 0.1 else ()
            arguments: dict[int | str, Any] = {0: Name("model"), "0": 3, "dim": rng.randrange(4)}
            yield Call(callee, arguments, False, scope, blocks, order, Site(path, order + 30, 1), "source")


def graph(rng: random.Random) -> Iterator[Fact]:
    """Yield a graph in which each node reads two of the sixteen nodes before it."""
    yield Value("v0", "float32", ("batch", 3, 224, 224), ABSENT, "input", "main", "target")
    for number in range(1, NODES + 1):
        inputs = tuple(f"v{max(0, number - rng.randrange(1, 17))}" for _ in range(2))
        op, domain = (rng.choice(OPS), "") if rng.random() < 0.67 else (f"Op{rng.randrange(3_000)}", "bench")
        attributes = {"strides": (2, 2), "axis": rng.randrange(4)} if rng.random() < 0.5 else {}
        site = Site("model.onnx", node=f"n{number}")
        yield Node(op, domain, 18, f"n{number}", attributes, inputs, (f"v{number}",), "main", site, "target")
        yield Value(f"v{number}", "float32", ("batch", 8), ABSENT, "intermediate", "main", "target")


class _Indented(yaml.SafeDumper):
    """Lists are indented, as in the rules that ship: there the examples end at the next line without."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Never without: PyYAML leaves it out below a key."""
        super().increase_indent(flow, False)


def repeated(folder: Path, target: Path, count: int, spread: bool) -> Path:
    """Write the rules of `folder` again and again under new ids, until there are `count`."""
    paths = [path for path in sorted(folder.rglob("*.yaml")) if path.name != "pack.yaml"]
    texts = [LINKS.sub("", path.read_text(encoding="utf-8")) for path in paths]
    for number in range(count):
        text = texts[number % len(texts)]
        if spread and number >= len(texts):
            rule = plain(read_documents(text, "")[0][0])
            match = [_renamed(part, number) for part in _parts(rule["match"])]
            text = yaml.dump({**rule, "match": match}, Dumper=_Indented, sort_keys=False, allow_unicode=True)
        (target / f"r{number}.yaml").write_text(f"id: BEN-{number}\n{text}", encoding="utf-8")
    return target


def _parts(match: Any) -> list[dict[str, Any]]:
    return match if isinstance(match, list) else [match]


def _renamed(part: dict[str, Any], number: int) -> dict[str, Any]:
    """Anchor a pattern at names that occur about ten times each among the facts."""
    names = {"call": f"lib{number % 300}.f{number % 60}", "node": f"Op{number % 3_000}"}
    if "node" in part:  # ONNX has no such operators, and a rule about one of its domain would be refused
        names["domain"] = "bench"
    return {key: names.get(key, value) for key, value in part.items()}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that `work` took, and its result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rules", type=int, nargs="*", default=[0, 304, 1_000], help="0: the rules that ship")
    counts = parser.parse_args().rules
    rng = random.Random(7)
    facts = [*calls(rng), *graph(rng), Package("torch", "2.13.0", "source"), Package("onnxruntime", "1.31.1", "target")]
    print(f"facts {len(facts)}: {CALLS} calls, {NODES} nodes")
    for count, spread in [(number, way) for number in counts for way in ((False, True) if number else (False,))]:
        print(measured(facts, count, spread), flush=True)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB (limit 500 MB)")


def measured(facts: list[Fact], count: int, spread: bool) -> str:
    """Return a line of the table. `cold` is the first match over new facts: the indexes are built then."""
    rules, load = _loaded(count, spread)
    making, store = timed(lambda: FactStore(facts))
    cold, matches = timed(lambda: match_rules(rules, store, source="pytorch", target="onnx"))
    warm, _ = timed(lambda: match_rules(rules, store, source="pytorch", target="onnx"))
    kind = "shipped" if not count else "spread" if spread else "copies"
    tried = candidates(rules, store)
    work = f"load {load:.2f} s, store {making:.2f} s, match {cold:.2f} s cold, {warm:.2f} s warm (limit 10 s)"
    curve = f"{tried} candidates, {1e6 * warm / max(tried, 1):.1f} ms for a thousand, {len(matches)} matches"
    return f"{len(rules):5d} rules ({kind}): {work}; {curve}"


def candidates(rules: RuleSet, store: FactStore) -> int:
    """Return how many pairs of an alternative and a fact the index finds, live or not."""
    return sum(
        len(found) * len(list(rules.index.lookup(kind, by, key)))
        for kind, by in rules.index.fields()
        for key, found in store.keyed(kind, by).items()
    )


def _loaded(count: int, spread: bool) -> tuple[RuleSet, float]:
    """Load rules as a scan loads those that ship: without their examples."""
    if not count:
        seconds, rules = timed(lambda: load_rules([rules_folder()], examples=False))
        return rules, seconds
    with tempfile.TemporaryDirectory() as folder:
        path = repeated(rules_folder(), Path(folder), count, spread)
        with patch("tensoraudit.language.load.rules_folder", lambda: path):
            seconds, rules = timed(lambda: load_rules([path], examples=False))
    return rules, seconds


if __name__ == "__main__":
    main()
