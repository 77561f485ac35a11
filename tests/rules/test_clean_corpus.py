"""All rules over code and graphs that people use and that are not known to be wrong.

Every hit stands in `known_hits.csv` with the reason why it is right to say something there; a hit that is not listed is
a false alarm until somebody has looked at it, and a line of the list that nothing hits any more is taken out.

columns: package, path, rule, state, count, why
"""

import csv
from collections import Counter
from pathlib import Path

import pytest

from tensoraudit.extract.environment import read_environment
from tensoraudit.extract.onnx import read_onnx
from tensoraudit.facts.store import FactStore
from tensoraudit.findings.settle import findings_from_matches
from tensoraudit.language.engine import match_rules
from tensoraudit.language.load import load_rules, rules_folder
from tensoraudit.options import make_options
from tensoraudit.steps import LINT, run_steps, source_audit

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
KNOWN = Path(__file__).with_name("known_hits.csv")
SITE = Path(pytest.__file__).parents[1]
RULES = load_rules([rules_folder()])
CODE = {
    **{
        name: ROOT / ".corpus" / name
        for name in ("accelerate", "flax", "keras", "optax", "peft", "pytorch_lightning", "timm")
    },
    "torch.nn": SITE / "torch" / "nn",
    "torch.utils": SITE / "torch" / "utils",
    "torch.distributed.fsdp": SITE / "torch" / "distributed" / "fsdp",
    **{
        f"transformers.{name}": SITE / "transformers" / "models" / name
        for name in ("bert", "llama", "t5", "vit", "wav2vec2", "whisper")
    },
}
GRAPHS = {
    "onnx": (SITE / "onnx" / "backend" / "test" / "data", 149),
    "silero_vad": (SITE / "silero_vad", 6),
    "nudenet": (SITE / "nudenet", 1),
    "rapidocr_onnxruntime": (SITE / "rapidocr_onnxruntime", 3),
    "magika": (SITE / "magika", 1),
}


RUNTIME = {"onnx": "1.23.2", "onnxruntime-gpu": "1.31.1", "numpy": "2.4.6"}


def known(package):
    with KNOWN.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["package"] == package]
    assert all(row["why"].strip() for row in rows), "a hit without a reason"
    return Counter({(row["path"], row["rule"], row["state"]): int(row["count"]) for row in rows})


def hits(findings, folder):
    rows = Counter()
    for finding in findings:
        path = Path(finding.where.path or "")
        shown = path.relative_to(folder) if path.is_relative_to(folder) else path
        rows[shown.as_posix(), finding.rule, finding.state] += 1
    return rows


def lint(folder):
    options = make_options({"code": [str(folder)], "report": (), "quiet": True})
    return run_steps(LINT, source_audit(options))


@pytest.mark.parametrize("package", CODE)
def test_source_code_without_unexplained_hits(package):
    assert CODE[package].is_dir(), f"{package} is not installed: run `make test`"
    result = lint(CODE[package])
    assert not result.suppressed
    shown = hits(result.findings, CODE[package].resolve().relative_to(ROOT.resolve()))
    assert shown == known(package)


@pytest.mark.parametrize("package", GRAPHS)
def test_graphs_without_unexplained_hits(package):
    folder, number = GRAPHS[package]
    files = sorted(folder.rglob("*.onnx"))
    assert len(files) == number
    found = []
    for path in files:
        store = FactStore(
            [*read_onnx(path, side="both"), *read_environment("both", packages=RUNTIME, devices=[{"kind": "cpu"}])]
        )
        matches = match_rules(RULES, store, source="onnx", target="onnxruntime")
        found += findings_from_matches(matches, store, "onnx")
    assert hits(found, folder) == known(package)
