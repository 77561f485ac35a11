"""Which ways between frameworks can be gone here: every ordered pair, by the routes of `migration` and what workers
have. Starts nothing: it reads what workers said when they started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tensoraudit.audit.frameworks import FRAMEWORKS
from tensoraudit.audit.migration import ROUTES, Hop, Route, worker_of
from tensoraudit.options import TARGETS
from tensoraudit.probes.outcome import Outcome

Interpreters = Mapping[str, str]
"""The `--python` options: role, side or tool to interpreter."""

WORKERS: Mapping[str, str] = {"tflite": "tensorflow"}
"""The workers of sources that are no framework of their own."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One ordered pair. `route` is the best that works; `detail` says what else there is, what is missing, or why."""

    source: str
    target: str
    status: Literal["works", "missing", "impossible"]
    route: str
    detail: str


def ordered() -> tuple[tuple[str, str], ...]:
    """Return every ordered pair of frameworks, and those of other sources that some route starts from."""
    frameworks = [(source, target) for source in TARGETS for target in TARGETS if source != target]
    return (*frameworks, *(pair for pair in ROUTES if pair not in frameworks))


def workers(interpreters: Interpreters) -> tuple[str, ...]:
    """Return the roles of the workers that run converters in interpreters of their own."""
    hops = (hop for routes in ROUTES.values() for route in routes for hop in route.hops)
    roles = (_worker(hop, interpreters) for hop in hops)
    return tuple(dict.fromkeys(role for role in roles if ":" in role))


def pairs(hellos: Mapping[str, Outcome], interpreters: Interpreters) -> Iterator[Pair]:
    """Yield what is known of each pair, from what each worker said."""
    for source, target in ordered():
        yield _pair(source, target, hellos, interpreters)


def _pair(source: str, target: str, hellos: Mapping[str, Outcome], interpreters: Interpreters) -> Pair:
    routes = ROUTES.get((source, target), ())
    if not routes:
        return Pair(source, target, "impossible", "", f"no converter leads from {source} to {target}")
    lacking = {route.name: _lacking(source, target, route, hellos, interpreters) for route in routes}
    working = [route for route in routes if not lacking[route.name]]
    # A route that takes every artifact says more than one for Keras files.
    best = next((route for route in working if not route.formats), None)
    if best is not None:
        others = [_told(route) for route in working if route is not best]
        return Pair(source, target, "works", best.name, "; ".join((best.name, *(f"also {each}" for each in others))))
    only = f"; {_told(working[0])} works" if working else ""
    first = next((route for route in routes if not route.formats), routes[0])
    return Pair(source, target, "missing", "", f"{first.name}: {'; '.join(lacking[first.name])}{only}")


def _told(route: Route) -> str:
    return f"{route.name} (from {', '.join(sorted(route.formats))})" if route.formats else route.name


def _lacking(
    source: str, target: str, route: Route, hellos: Mapping[str, Outcome], interpreters: Interpreters
) -> Sequence[str]:
    """What keeps a route from working here; empty when nothing does."""
    found: dict[str, None] = {}
    for end in (source, target):
        role = WORKERS.get(end) or FRAMEWORKS[end].role  # type: ignore[index]
        if hellos[role].result is None:
            found[_absent(end, role, hellos[role])] = None
    for hop in route.hops:
        hello = hellos[_worker(hop, interpreters)]
        if hello.result is None:
            found[_absent(hop.framework, _worker(hop, interpreters), hello)] = None
            continue
        packages = [name for name in hop.packages if name not in hello.result.get("packages", {})]
        if packages:
            found[_install(hop, packages, interpreters)] = None
    return tuple(found)


def _worker(hop: Hop, interpreters: Interpreters) -> str:
    return worker_of(hop, FRAMEWORKS[hop.framework].role, interpreters)


def _absent(framework: str, role: str, hello: Outcome) -> str:
    extra = FRAMEWORKS[WORKERS.get(framework, framework)].extra  # type: ignore[index]
    install = f": pip install '{extra}', or --python {role.partition(':')[0]}=PATH" if hello.status == "missing" else ""
    return f"the {role} worker did not start ({hello.reason or hello.status}){install}"


def _install(hop: Hop, packages: Sequence[str], interpreters: Interpreters) -> str:
    role = FRAMEWORKS[hop.framework].role
    where = interpreters.get(hop.tool) or interpreters.get(role) or "this Python"
    return f"pip install {' '.join(packages)} for {hop.tool} in {where}, or --python {hop.tool}=PATH"
