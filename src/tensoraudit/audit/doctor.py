"""What can run here: each framework's worker is started and asked; being installed proves nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from typing import Any

from tensoraudit.audit.frameworks import FRAMEWORKS
from tensoraudit.audit.migration import HOPS
from tensoraudit.audit.pairs import Pair, pairs, workers
from tensoraudit.options import Options
from tensoraudit.probes.limits import Limits
from tensoraudit.probes.outcome import Outcome
from tensoraudit.probes.pool import Pool

EXTRAS: Mapping[str, str] = {each.role: each.extra for each in FRAMEWORKS.values() if each.abilities}
"""Worker roles, and the extra that installs each."""

OPTIONAL = frozenset(("tensorflow", "jax", "litert"))
"""Frameworks that few environments hold beside PyTorch; one that is not installed is no fault unless it was named."""

NEEDS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "probe: PyTorch forward": (("pytorch", ""),),
    "probe: ONNX Runtime forward": (("onnxruntime", ""), ("onnxruntime", "onnx")),
    "probe: NumPy reference evaluator": (("onnxruntime", "onnx"),),
    "probe: TensorFlow forward": (("tensorflow", ""),),
    "probe: JAX forward": (("jax", ""),),
    "probe: TensorFlow Lite forward": (("litert", ""),),
    **{
        f"route: {hop.tool}": (
            (FRAMEWORKS[hop.framework].role, ""),
            *((FRAMEWORKS[hop.framework].role, package) for package in hop.packages),
        )
        for hop in HOPS
        if hop.job == "export"
    },
}
"""What each probe and route needs: a worker, and packages inside its interpreter."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the diagnosis. `status` is ok, missing, crashed, timeout, failed or conflict; of a pair of frameworks
    works, missing or impossible.

    An `optional` line may be missing on a sound machine; where anything else cannot run, an audit could not tell.
    """

    name: str
    status: str
    detail: str
    optional: bool = False


def examine(options: Options) -> list[Check]:
    """Start every worker once and report versions, devices, probes, routes and conflicts."""
    with Pool(limits=Limits(timeout=options.timeout, memory=options.memory), interpreters=dict(options.python)) as pool:
        roles = (*EXTRAS, *workers(options.python))
        for role in roles:
            pool.start(role)
        hellos = {role: pool.hello(role) for role in roles}
    absent = {role for role in OPTIONAL & set(hellos) - set(options.python) if hellos[role].status == "missing"}
    return [
        *_frameworks(hellos, absent),
        *_devices(hellos),
        *_abilities(hellos, absent),
        *_conflicts(hellos),
        *(_way(pair) for pair in pairs(hellos, options.python)),
    ]


def _way(pair: Pair) -> Check:
    """No single way is expected of a machine: one that cannot be gone is no fault of it."""
    return Check(f"{pair.source} -> {pair.target}", pair.status, pair.detail, optional=True)


def _frameworks(hellos: Mapping[str, Outcome], absent: Collection[str]) -> Iterator[Check]:
    for role, outcome in hellos.items():
        hello = outcome.result
        if hello is None:
            extra = EXTRAS[role.partition(":")[0]]
            yield Check(role, outcome.status, f"{outcome.reason}; install {extra}", role in absent)
        else:
            network = "no network" if hello.get("network") == "isolated" else "network not blocked"
            wide = f", 64-bit types {'on' if hello['x64'] else 'off'}" if "x64" in hello else ""
            yield Check(role, "ok", f"{hello['version']}, Python {hello['python']}, {network}{wide}")


def _devices(hellos: Mapping[str, Outcome]) -> Iterator[Check]:
    for role, outcome in hellos.items():
        if outcome.result is None:
            continue
        kinds = {device["kind"]: device.get("name", "") for device in outcome.result.get("devices", ())}
        for kind in ("cpu", "cuda"):
            name = kinds.get(kind)
            why = outcome.result.get("inactive", {}).get(kind, f"a real {role} run found no {kind.upper()} device")
            yield Check(f"{role}/{kind}", "missing" if name is None else "ok", name or why, kind == "cuda")


def _abilities(hellos: Mapping[str, Outcome], absent: Collection[str]) -> Iterator[Check]:
    for ability, needs in NEEDS.items():
        lacking = [need for role, package in needs if (need := _lacking(hellos[role], role, package))]
        optional = any(role in absent for role, _ in needs)
        yield Check(ability, "missing" if lacking else "ok", "; ".join(dict.fromkeys(lacking)) or "runs here", optional)


def _lacking(outcome: Outcome, role: str, package: str) -> str:
    if outcome.result is None:
        return f"the {role} worker did not start"
    packages: Mapping[str, Any] = outcome.result.get("packages", {})
    return f"{package} is not installed beside {role}" if package and package not in packages else ""


def _conflicts(hellos: Mapping[str, Outcome]) -> Iterator[Check]:
    """`onnxruntime` and `onnxruntime-gpu` write the same files: with both, which one runs is chance."""
    hello = hellos["onnxruntime"].result
    if hello is None:
        here = {(each.metadata["Name"] or "").lower().replace("_", "-") for each in distributions()}
        conflict = BOTH if {"onnxruntime", "onnxruntime-gpu"} <= here else ""
    else:
        conflict = hello.get("conflict", "")
    yield Check("onnxruntime packages", "conflict" if conflict else "ok", conflict or "one distribution only")


BOTH = "both onnxruntime and onnxruntime-gpu are installed and overwrite each other: uninstall both, then install one"
