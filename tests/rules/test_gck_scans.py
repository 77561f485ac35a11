"""Scans of the models in fixtures/rules settle the rules on checkpointing: one is confirmed, the other refuted.

The steps are those of `tensoraudit scan FILE.py:confirmed --target onnx` without the conversions, which settle nothing
here and take most of the time.
"""

from pathlib import Path

import pytest

from tensoraudit.audit.conclude import conclude, match_and_settle
from tensoraudit.audit.execute import run_reference
from tensoraudit.audit.observe import collect_facts
from tensoraudit.audit.prepare import choose_samples, describe_reference, identify_artifacts
from tensoraudit.audit.training import measure_training
from tensoraudit.language.load import load_rules, rules_folder
from tensoraudit.options import Options
from tensoraudit.probes.limits import Limits
from tensoraudit.probes.pool import Pool
from tensoraudit.steps import new_audit, run_steps

pytest.importorskip("torch")

pytestmark = pytest.mark.slow

FIXTURES = Path(__file__).parents[2] / "fixtures" / "rules"
RULES = load_rules([rules_folder()])
STEPS = (
    identify_artifacts,
    describe_reference,
    collect_facts,
    choose_samples,
    run_reference,
    measure_training,
    match_and_settle,
    conclude,
)
TRAINED = sorted(rule.id for rule in RULES if rule.confirm is not None and rule.confirm.probe == "training")


@pytest.fixture(scope="module")
def pool():
    with Pool(limits=Limits()) as pool:
        yield pool


@pytest.mark.parametrize("which", ["confirmed", "refuted"])
@pytest.mark.parametrize("rule", TRAINED)
def test_a_scan_settles_the_rule(pool, rule, which):
    path = FIXTURES / f"{rule.lower().replace('-', '_')}.py"
    audit = new_audit(Options(root=FIXTURES, target=("onnx",)), f"{path}:{which}").add(pool=pool, rules=RULES)
    result = run_steps(STEPS, audit)
    found = [finding for finding in result.findings if finding.rule == rule and of_the_model(finding, path, which)]
    assert {finding.state.value for finding in found} == {which}, [(each.where, each.reason) for each in found]
    for finding in found:
        assert all(row.subject in {"model", f"{path.name}:{finding.where.line}"} for row in finding.evidence)


def of_the_model(finding, path, which):
    """Whether a finding is about the model: a Function of its twin stands in the same file, and is read as well."""
    other = {"confirmed": "class Keeping", "refuted": "class Dropping"}[which]
    return not path.read_text().splitlines()[finding.where.line - 1].startswith(other)
