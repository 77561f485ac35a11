"""Scans of the models in fixtures/rules with a checkpoint beside them settle the rules on loading: one is confirmed,
the other refuted. First the fixtures are run, so that what the scan says is what torch does.

The steps are those of `tensoraudit scan FILE.py:confirmed --checkpoint WEIGHTS` without conversions and runs.
"""

import importlib.util
from pathlib import Path

import pytest

from tensoraudit.audit.conclude import conclude, match_and_settle
from tensoraudit.audit.model_checkpoint import compare_parameters, read_weights
from tensoraudit.audit.observe import collect_facts
from tensoraudit.audit.prepare import choose_samples, describe_reference, identify_artifacts
from tensoraudit.language.load import load_rules, rules_folder
from tensoraudit.options import Options
from tensoraudit.probes.limits import Limits
from tensoraudit.probes.pool import Pool
from tensoraudit.steps import new_audit, run_steps

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.slow

FIXTURES = Path(__file__).parents[2] / "fixtures" / "rules"
RULES = load_rules([rules_folder()])
STEPS = (
    identify_artifacts,
    read_weights,
    describe_reference,
    collect_facts,
    choose_samples,
    compare_parameters,
    match_and_settle,
    conclude,
)
SETTLED = ("DCK-002", "DCK-003", "DCK-011", "DCK-012")


@pytest.fixture(scope="module")
def pool():
    with Pool(limits=Limits()) as pool:
        yield pool


def fixture(rule):
    path = FIXTURES / f"{rule.lower().replace('-', '_')}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return path, module


def written(module, which, folder):
    """The checkpoint of a fixture: what its `weights` are, or what its `write` writes."""
    if hasattr(module, "write"):
        module.write(folder / "a.safetensors")
        return folder / "a.safetensors"
    torch.save(module.weights(which), folder / "a.pt")
    return folder / "a.pt"


def test_every_rule_that_a_checkpoint_settles_has_a_fixture():
    mine = {rule.id for rule in RULES if rule.confirm is not None and rule.confirm.probe == "checkpoint"}
    assert set(SETTLED) <= mine


@pytest.mark.parametrize("which", ["confirmed", "refuted"])
@pytest.mark.parametrize("rule", SETTLED)
def test_a_scan_settles_the_rule(pool, rule, which, tmp_path):
    path, module = fixture(rule)
    options = Options(root=FIXTURES, target=("onnx",), checkpoint=str(written(module, which, tmp_path)))
    audit = new_audit(options, f"{path}:{which}").add(pool=pool, rules=RULES)
    result = run_steps(STEPS, audit)
    found = [each for each in result.findings if each.rule == rule and each.where.line is not None]
    assert {each.state.value for each in found} == {which}, [(each.where, each.reason) for each in found]


def test_a_lenient_load_of_other_names_changes_nothing(tmp_path):
    _, module = fixture("DCK-002")
    path = written(module, "confirmed", tmp_path)
    torch.manual_seed(0)
    before = module.Net().state_dict()
    torch.manual_seed(0)
    after = module.load(path).state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    right = module.load(written(module, "refuted", tmp_path)).state_dict()
    assert all(torch.equal(right[name], value) for name, value in torch.load(tmp_path / "a.pt").items())


def test_a_bare_model_refuses_the_names_of_a_wrapped_one(tmp_path):
    _, module = fixture("DCK-003")
    with pytest.raises(RuntimeError, match="Missing key"):
        module.confirmed().load_state_dict(torch.load(written(module, "confirmed", tmp_path)))
    module.refuted().load_state_dict(torch.load(written(module, "refuted", tmp_path)))


def test_only_a_model_that_ties_gets_its_output_layer(tmp_path):
    _, module = fixture("DCK-011")
    path = written(module, "", tmp_path)
    for which in ("confirmed", "refuted"):
        net = getattr(module, which)()
        assert module.load(net, path) == []
        assert torch.equal(net.lm_head.weight, net.embed_tokens.weight) is (which == "refuted")


def test_what_does_not_fit_into_half_precision(tmp_path):
    _, module = fixture("DCK-012")
    for which in ("confirmed", "refuted"):
        weight = module.load(written(module, which, tmp_path)).first.weight
        assert bool(torch.isinf(weight).all()) is (which == "confirmed")
