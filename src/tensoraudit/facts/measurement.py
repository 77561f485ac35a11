"""What a probe measured: facts like any other, so that rules can speak of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensoraudit.facts.site import NOWHERE, Side, Site


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured quantity, `metric` as `<noun>.<quantity>`.

    `subject` is what it speaks of: "model", a node, a tensor, a route, or a finding's fingerprint. `value` is plain
    JSON data. `probe` is the job that measured it, `device` where.
    """

    metric: str
    subject: str
    value: Any
    unit: str = ""
    probe: str = ""
    seed: int | None = None
    side: Side = "both"
    target: str = ""
    at: Site = NOWHERE
    detail: str = ""
