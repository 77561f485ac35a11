"""Take a training step with activation checkpointing and one without, where a rule asks for it.

Only rules with `confirm: {probe: training}` that already match make it run, so that models without checkpointing do
not pay for it. It runs in the reference's worker, on copies of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensoraudit.audit.execute import PROVIDERS, usable_samples
from tensoraudit.audit.frameworks import framework_of, rule_source, rule_target
from tensoraudit.audit.probing import wire
from tensoraudit.audit.rows import probe_row
from tensoraudit.audit.state import Audit, Sample
from tensoraudit.audit.training_regions import (
    Anchor,
    Place,
    Row,
    anchors_of,
    calls_of_regions,
    read_regions,
    region_rows,
)
from tensoraudit.equivalence.comparison import Comparison, compare_arrays
from tensoraudit.extract.derived import complete_store
from tensoraudit.facts import Fact, Measurement
from tensoraudit.language.engine import match_rules
from tensoraudit.language.load import RuleSet
from tensoraudit.probes.outcome import Status
from tensoraudit.probes.pool import Pool

PROBE = "training"

JITTER = 1e-3
"""Relative L2 distance between two equal steps that rounding explains (sums of float32 differ by about 1e-6). Of a
tensor whose elements are drawn anew, one in a million is enough to exceed it."""


def measure_training(audit: Audit) -> Audit:
    """Measure one training step if a rule that matches wants to know.

    A step that cannot be taken is a probe that did not run, with its reason: findings then stay unverified.
    """
    if audit.pool is None or audit.reference is None or audit.reference.role == "onnxruntime":
        return audit
    asking = _asking(audit)
    if not asking:
        return audit
    framework = framework_of(audit.reference.role)
    if not framework.can("training"):
        return _not_run(audit, "cpu", "unsupported", framework.lacks("take training steps of"))
    anchors = anchors_of(asking, audit.options.root)
    sample = _sample(audit)
    if sample is None:
        return _not_run(audit, "cpu", "failed", "the model accepts no input set")
    audit.progress("taking a training step with checkpointing and without")
    audit = _on_device(audit, sample, "cpu", anchors)
    return _on_cuda(audit, sample, anchors) if "cuda" in PROVIDERS[audit.options.device] else audit


def _asking(audit: Audit) -> list[Fact]:
    """What the rules that this probe settles match already, for any target."""
    assert audit.rules is not None and audit.artifact is not None
    asking = RuleSet(tuple(rule for rule in audit.rules if rule.confirm is not None and rule.confirm.probe == PROBE))
    source = rule_source(audit.artifact.framework)
    if not len(asking):
        return []
    store = complete_store(audit.facts)
    targets = (rule_target(target) for target in audit.options.target)
    matches = (match_rules(asking, store, source=source, target=target, only="facts") for target in targets)
    return [match.anchor for found in matches for match in found]


def _sample(audit: Audit) -> Sample | None:
    """The user's first input set, which is the most like training data; else any but the edge values."""
    usable = [sample for sample in usable_samples(audit) if sample.kind != "edge"]
    return next((sample for sample in usable if sample.kind == "user"), usable[0] if usable else None)


def _on_device(audit: Audit, sample: Sample, device: str, anchors: Sequence[Anchor]) -> Audit:
    assert audit.pool is not None and audit.reference is not None
    params = {
        **audit.reference.params,
        "inputs": wire(audit.pool, sample),
        "device": device,
        "seed": audit.options.seed,
        "lines": lines_of(anchors),
    }
    job = framework_of(audit.reference.role).job("training")
    outcome = audit.pool.run(audit.reference.role, job, params)
    if outcome.result is None:
        return _not_run(audit, device, outcome.status, outcome.reason)
    rows = rows_at(_opened(audit.pool, outcome.result), anchors, audit.facts, audit.options.root)
    unsupported = _detail(rows, "training.status", "unsupported")
    row = probe_row(PROBE, audit.reference.role, device, "unsupported" if unsupported else outcome, unsupported)
    audit.pool.discard(outcome.result)
    place = f"{device}: " if device != "cpu" else ""
    return audit.add(
        probes=(row,),
        measurements=tuple(
            Measurement(metric, subject, value, probe=job, side="source", detail=f"{place}{detail}")
            for metric, subject, value, detail in rows
        ),
        notes=tuple(_note(rows, device)),
    )


def _on_cuda(audit: Audit, sample: Sample, anchors: Sequence[Anchor]) -> Audit:
    assert audit.pool is not None and audit.reference is not None
    role = audit.reference.role
    hello = audit.pool.hello(role).result or {}
    if any(device["kind"] == "cuda" for device in hello.get("devices", ())):
        return _on_device(audit, sample, "cuda", anchors)
    reason = hello.get("inactive", {}).get("cuda", f"no CUDA device is active in the {role} worker")
    return _not_run(audit, "cuda", "missing", reason)


def _not_run(audit: Audit, device: str, status: Status, reason: str) -> Audit:
    assert audit.reference is not None
    return audit.add(probes=(probe_row(PROBE, audit.reference.role, device, status, reason),))


def _opened(pool: Pool, result: Mapping[str, Any]) -> dict[str, Any]:
    """The result of the job with arrays instead of references."""
    pairs = [
        {
            **pair,
            "reference": pool.get(pair["reference"]),
            "candidate": pool.get(pair["candidate"]),
            "repeat": None if pair["repeat"] is None else pool.get(pair["repeat"]),
            "perturbed": [pool.get(draw) for draw in pair["perturbed"]],
        }
        for pair in result["pairs"]
    ]
    regions = [{**region, "found": _opened(pool, region["found"])} for region in result.get("regions", ())]
    return {**result, "pairs": pairs, "regions": regions}


def rows_of(result: Mapping[str, Any]) -> list[Row]:
    """The rows of a `pytorch.training` result that holds arrays, with every pair of them judged."""
    finished: Iterator[Row] = ((metric, subject, value, detail) for metric, subject, value, detail in result["rows"])
    return [*finished, *map(_judged, result["pairs"])]


def rows_at(result: Mapping[str, Any], anchors: Sequence[Anchor], facts: Iterable[Fact], root: Path) -> list[Row]:
    """The rows of the model, then those of lines: of every line that begins regions, and of each anchor.

    `root` is the folder that the facts' paths are relative to. Of a step that was not taken nothing is said.
    """
    rows = rows_of(result)
    if not any(row[0] == "training.status" and row[2] == "ok" for row in rows):
        return rows
    calls = anchors_of(calls_of_regions(facts, anchors), root)
    regions = read_regions(result, rows_of)
    return [*rows, *region_rows(regions, result.get("lines", ()), anchors=anchors, calls=calls, root=root)]


def lines_of(anchors: Iterable[Anchor]) -> list[Place]:
    """The lines that the job is to watch."""
    return list(dict.fromkeys(anchor.place for anchor in anchors))


def _judged(pair: Mapping[str, Any]) -> Row:
    """Judge a tensor after a step with checkpointing against the one without.

    Kernels that add up in any order (on CUDA) never repeat every bit: a second step without checkpointing that is off
    by rounding is one more draw of the noise. One that is off by more is a model that draws numbers nobody can seed.
    """
    draws, repeat = list(pair["perturbed"]), pair["repeat"]
    if repeat is not None and _distance(repeat, pair["reference"]) <= JITTER:
        draws, repeat = [*draws, repeat], None
    compared = _compared(pair, draws, repeat)
    worst = compared.worst
    detail = "; ".join(text for text in (pair["detail"], worst.reason if worst is not None else "") if text)
    return pair["metric"], pair["subject"], str(compared.verdict), detail


def _distance(a: Any, b: Any) -> float:
    if a.shape != b.shape:
        return float("inf")
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    scale = float(np.linalg.norm(y))
    distance = float(np.linalg.norm(x - y))
    return distance / scale if scale else distance


def _compared(pair: Mapping[str, Any], draws: Sequence[Any], repeat: Any) -> Comparison:
    name, logical = pair["subject"], pair["logical"]
    return compare_arrays(
        {name: pair["reference"]},
        {name: pair["candidate"]},
        perturbed=[{name: draw} for draw in draws],
        reference_repeat=None if repeat is None else {name: repeat},
        reference_dtypes={name: logical["reference"]} if logical["reference"] else None,
        candidate_dtypes={name: logical["candidate"]} if logical["candidate"] else None,
    )


def _detail(rows: Sequence[Row], metric: str, value: Any) -> str:
    return next((row[3] for row in rows if row[0] == metric and row[2] == value), "")


def _note(rows: Sequence[Row], device: str) -> Iterator[str]:
    """The trade as measured: memory against computation."""
    whole = {row[0].partition(".")[2]: row[2] for row in rows if row[1] == "model"}
    regions = whole.get("regions", 0)
    parts = []
    if "peak_memory_ratio" in whole:
        parts.append(f"peak {whole['peak_memory_ratio']:.0%} of the memory of a step without it")
    if "flops_ratio" in whole:
        parts.append(f"{whole['flops_ratio'] - 1:+.0%} floating-point operations")
    if "time_ratio" in whole:
        parts.append(f"{whole['time_ratio']:.2g} times as long")
    if regions and parts:
        where = f" on {device}" if device != "cpu" else ""
        plural = "" if regions == 1 else "s"
        expected = "often quoted: 40% of the memory for 25% more operations"
        yield f"checkpointing{where}: {regions} region{plural}, {', '.join(parts)} ({expected})"
