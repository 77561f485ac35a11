from __future__ import annotations

import random

from tensoraudit.facts import Site
from tensoraudit.findings.finding import Severity
from tensoraudit.findings.severity import counted, order_key, worse_of, worst


def test_worst_of_nothing_is_none():
    assert worst([]) == "none"
    assert worst(["low", "critical", "none"]) == "critical"


def test_order_is_by_what_counts_then_rule_then_place(finding):
    ordered = [
        finding("B-1", "critical"),
        finding("A-9", "critical", "suspected"),
        finding("A-1", "high", where=Site(path="a.py", line=2)),
        finding("A-1", "high", where=Site(path="a.py", line=10)),
        finding("A-1", "high", where=Site(path="b.py", line=1)),
        finding("A-2", "high"),
        finding("A-1", "critical", "refuted"),
        finding("A-1", "low", "refuted"),
    ]
    shuffled = ordered[:]
    random.Random(3).shuffle(shuffled)
    assert sorted(shuffled, key=order_key) == ordered
    assert [counted(each) for each in ordered] == ["critical", "high", "high", "high", "high", "high", "none", "none"]


def test_worse_of():
    assert worse_of(Severity.LOW, Severity.HIGH) is Severity.HIGH
    assert worse_of(Severity.CRITICAL, Severity.HIGH) is Severity.CRITICAL
