"""What the tests of every room share."""

import sys
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, settings

import tensoraudit
from tensoraudit.options import make_options
from tensoraudit.pipeline import COMPARE, SCAN
from tensoraudit.probes.limits import Limits
from tensoraudit.probes.pool import Pool
from tensoraudit.report.json import document
from tensoraudit.steps import new_audit, run_steps

# Examples of properties are the same in every run, and are not timed: the machine may be busy. New ones:
# `pytest --hypothesis-profile=random`.
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("random"), derandomize=True)
settings.load_profile("same")


class WarmAudits:
    """`scan` and `compare` of the API, with workers that stay for the next audit of the same limits and interpreters:
    to import a framework takes longer than to audit a small model."""

    def __init__(self, stack):
        self._stack, self._pools = stack, {}

    def scan(self, artifact, *, target=None, **options):
        return self._run(SCAN, {"target": target, **options}, artifact)

    def compare(self, reference, candidate, **options):
        return self._run(COMPARE, options, reference, candidate)

    def _run(self, steps, given, *artifacts):
        options = make_options(given)
        return document(run_steps(steps, new_audit(options, *map(str, artifacts)).add(pool=self._pool(options))))

    def _pool(self, options):
        interpreters = dict(options.python)
        key = (options.timeout, options.memory, *sorted(interpreters.items()))
        if key not in self._pools:
            limits = Limits(timeout=options.timeout, memory=options.memory)
            self._pools[key] = self._stack.enter_context(Pool(limits=limits, interpreters=interpreters))
        return self._pools[key]


def pytest_collection_modifyitems(items):
    """Whole models first: what takes minutes must not begin when the other process has nothing left to do."""
    items.sort(key=lambda item: "real" not in item.path.parts)


@pytest.fixture(autouse=True)
def autocast_cache():
    """Every test begins with torch's cache of cast weights on; an export that fails leaves it off for the process."""
    yield
    if torch := sys.modules.get("torch"):
        torch.set_autocast_cache_enabled(True)


@pytest.fixture(scope="module")
def warm_workers():
    """All audits of a module by `tensoraudit.scan` and `tensoraudit.compare` share their workers."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        audits = WarmAudits(stack)
        patch.setattr(tensoraudit, "scan", audits.scan)
        patch.setattr(tensoraudit, "compare", audits.compare)
        yield
