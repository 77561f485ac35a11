"""The steps of the checkpoint commands: what is seen becomes facts and measurements, and never a finding by itself."""

from pathlib import Path

import numpy as np
import pytest

from tensoraudit.audit.checkpoints import describe_stored, diff_stored, read_stored
from tensoraudit.audit.model_checkpoint import compare_parameters, read_weights
from tensoraudit.audit.state import Audit, Side
from tensoraudit.checkpoint_steps import CHECKPOINT_DIFF, CHECKPOINT_SHOW
from tensoraudit.errors import InputError
from tensoraudit.facts import Checkpoint, Tensor
from tensoraudit.options import make_options
from tensoraudit.pipeline import COMPARE, SCAN, run
from tensoraudit.probes.outcome import Outcome
from tensoraudit.steps import new_audit, run_steps

torch = pytest.importorskip("torch")


def audit_of(spec: Path, against: Path | str = "", **options) -> Audit:
    return new_audit(make_options(options), str(spec), str(against))


def save(path: Path, **arrays) -> Path:
    np.savez(path, **arrays)
    return path


def measured(audit: Audit) -> dict[str, object]:
    return {row.metric: row.value for row in audit.measurements}


def diff(one: Path, other: Path, **options) -> Audit:
    return diff_stored(describe_stored(read_stored(audit_of(one, other, **options))))


def test_show_and_diff_are_one_road_with_the_other_commands():
    assert [step.__name__ for step in CHECKPOINT_SHOW] == [
        "read_stored", "choose_rules", "describe_stored", "match_and_settle", "conclude",
    ]  # fmt: skip
    assert [step for step in CHECKPOINT_DIFF if step not in CHECKPOINT_SHOW] == [diff_stored]
    assert COMPARE is SCAN and SCAN.index(read_weights) < [step.__name__ for step in SCAN].index("start_workers")


def test_what_is_read_are_facts_of_its_side(tmp_path):
    one, other = save(tmp_path / "a.npz", w=np.ones(2)), save(tmp_path / "b.npz", w=np.ones(2), v=np.ones(1))
    audit = describe_stored(read_stored(audit_of(one, other)))
    checkpoints = [fact for fact in audit.facts if isinstance(fact, Checkpoint)]
    assert [(fact.side, fact.at.path) for fact in checkpoints] == [("source", str(one)), ("target", str(other))]
    assert [(fact.side, fact.name) for fact in audit.facts if isinstance(fact, Tensor)] == [
        ("source", "w"), ("target", "w"), ("target", "v"),
    ]  # fmt: skip
    assert audit.options.target == ()


@pytest.mark.parametrize(
    ("other", "kind", "count"),
    [
        ({"w": np.arange(6.0)}, "missing", 1),
        ({"w": np.arange(6.0), "v": np.ones(2), "u": np.ones(1)}, "extra", 1),
        ({"w": np.arange(6.0) + 1, "v": np.ones(2)}, "different", 1),
        ({"w": np.arange(6.0), "v": np.ones(3)}, "other_shape", 1),
        ({"w": np.arange(6.0).astype(np.float32) * 1e-30, "v": np.ones(2)}, "different", 1),
    ],
)
def test_each_difference_is_counted_once(tmp_path, other, kind, count):
    one = save(tmp_path / "a.npz", w=np.arange(6.0), v=np.ones(2))
    audit = diff(one, save(tmp_path / "b.npz", **other), values=True)
    told = {metric: value for metric, value in measured(audit).items() if metric.startswith("checkpoint_diff.")}
    assert told.get(f"checkpoint_diff.{kind}") == count
    assert audit.findings == ()


def test_equal_checkpoints_give_no_measurement(tmp_path):
    one = save(tmp_path / "a.npz", w=np.arange(6.0))
    assert not [metric for metric in measured(diff(one, one, values=True)) if metric.startswith("checkpoint_diff.")]


def test_a_cast_that_loses_nothing_is_no_difference(tmp_path):
    exact, rounded = np.arange(8.0), np.full(8, 0.1)
    one = save(tmp_path / "a.npz", w=exact)
    other = save(tmp_path / "b.npz", w=exact.astype(np.float32))
    assert measured(diff(one, other)).get("checkpoint_diff.cast") == 1  # headers cannot know
    assert "checkpoint_diff.cast" not in measured(diff(one, other, values=True))
    one, other = save(tmp_path / "c.npz", w=rounded), save(tmp_path / "d.npz", w=rounded.astype(np.float16))
    assert measured(diff(one, other, values=True)).get("checkpoint_diff.cast") == 1
    assert "checkpoint_diff.cast" not in measured(diff(other, one))  # wider loses nothing
    told = measured(diff(other, one, values=True))  # that the values differ is the reference's rounding
    assert not [metric for metric in told if metric.startswith("checkpoint_diff.")]
    one = save(tmp_path / "e.npz", w=rounded * 1j)
    other = save(tmp_path / "f.npz", w=(rounded * 1j).astype(np.complex64))
    assert [measured(diff(one, other, values=values)).get("checkpoint_diff.cast") for values in (False, True)] == [1, 1]
    assert "checkpoint_diff.cast" not in measured(diff(other, one, values=True))


def test_what_only_one_framework_stores_is_not_missing_in_another(tmp_path):
    state = torch.nn.BatchNorm1d(2).state_dict()
    torch.save(state, tmp_path / "bn.pt")
    arrays = {name: value.numpy() for name, value in state.items() if name != "num_batches_tracked"}
    told = measured(diff(tmp_path / "bn.pt", save(tmp_path / "bn.npz", **arrays), values=True))
    assert "checkpoint_diff.missing" not in told
    torch.save({name: state[name] for name in arrays}, tmp_path / "less.pt")
    assert measured(diff(tmp_path / "bn.pt", tmp_path / "less.pt", values=True))["checkpoint_diff.missing"] == 1


def test_another_shape_across_frameworks_is_settled_by_values(tmp_path):
    torch.save({"w": torch.arange(6.0).reshape(2, 3)}, tmp_path / "a.pt")
    other = save(tmp_path / "b.npz", w=np.arange(6.0, dtype=np.float32))
    assert measured(diff(tmp_path / "a.pt", other))["checkpoint_diff.reshaped"] == 1
    assert "checkpoint_diff.reshaped" not in measured(diff(tmp_path / "a.pt", other, values=True))


@pytest.mark.parametrize("shape", [(3, 3), (2, 3)])
def test_axes_in_another_order_are_a_fault_within_one_framework(tmp_path, shape):
    """A square weight that was turned loads and computes x W for x W^T; between frameworks it may be right."""
    weight = torch.arange(1.0, shape[0] * shape[1] + 1).reshape(shape)
    torch.save({"fc.weight": weight}, tmp_path / "a.pt")
    torch.save({"fc.weight": weight.T.contiguous()}, tmp_path / "b.pt")
    assert measured(diff(tmp_path / "a.pt", tmp_path / "b.pt", values=True))["checkpoint_diff.turned"] == 1
    arrays = save(tmp_path / "b.npz", **{"fc.weight": weight.numpy().T})
    told = measured(diff(tmp_path / "a.pt", arrays, values=True))
    assert "checkpoint_diff.turned" not in told and told["checkpoint_diff.permuted"] == 1
    assert "checkpoint_diff.turned" not in measured(diff(arrays, save(tmp_path / "a.npz", **{"fc.weight": weight})))


def test_a_tied_weight_has_arrived_under_any_of_its_names(tmp_path):
    shared = torch.arange(6.0).reshape(2, 3)
    tied = {"emb.weight": shared, "head.weight": shared, "bias": torch.zeros(2)}
    torch.save(tied, tmp_path / "tied.pt")
    for kept in ("emb.weight", "head.weight"):
        torch.save({kept: shared.clone(), "bias": torch.zeros(2)}, tmp_path / "one.pt")
        for sides in (("tied.pt", "one.pt"), ("one.pt", "tied.pt")):
            told = measured(diff(*(tmp_path / side for side in sides), values=True))
            assert told["checkpoint_diff.tied"] == 1
            assert told.keys().isdisjoint({"checkpoint_diff.missing", "checkpoint_diff.extra"})
    torch.save({"bias": torch.zeros(2)}, tmp_path / "none.pt")
    told = measured(diff(tmp_path / "tied.pt", tmp_path / "none.pt", values=True))
    assert told["checkpoint_diff.missing"] == 2 and "checkpoint_diff.tied" not in told


def test_states_of_an_optimiser_are_not_missing_weights(tmp_path):
    net = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "train.pt")
    torch.save({"model": net.state_dict()}, tmp_path / "weights.pt")
    told = measured(diff(tmp_path / "train.pt", tmp_path / "weights.pt", values=True))
    assert "checkpoint_diff.missing" not in told and "checkpoint_diff.optimizer_missing" in told


def test_headers_need_no_probe_and_values_are_one(tmp_path):
    one = save(tmp_path / "a.npz", w=np.ones(2))
    assert diff(one, one).probes == ()
    (row,) = diff(one, one, values=True).probes
    assert (row.name, row.status, row.required) == ("checkpoint_diff.values", "ok", True)


def test_a_result_holds_what_was_read_and_no_target(tmp_path):
    one = save(tmp_path / "a.npz", w=np.ones(2))
    result = run_steps(CHECKPOINT_SHOW, audit_of(one))
    assert result.checkpoint is not None and result.checkpoint.format == "npz"
    assert (result.targets, result.grade, result.exit_code, result.checkpoint_diff) == ((), {}, 0, None)


def test_a_checkpoint_that_is_not_there_stops_a_scan_before_it_begins(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_weights(audit_of(tmp_path / "x.py", checkpoint=str(tmp_path / "nothing.pt")))
    audit = audit_of(tmp_path / "x.py")
    assert read_weights(audit) is audit


MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.c.weight = self.a.weight
        self.register_buffer("scratch", torch.zeros(3), persistent=False)

    def forward(self, x):
        return self.c(self.b(self.a(x)))

def make():
    torch.manual_seed(0)
    return Net().eval()
"""


@pytest.mark.slow
def test_scan_holds_a_checkpoint_against_the_model(tmp_path):
    (tmp_path / "net.py").write_text(MODEL)
    space: dict[str, object] = {}
    exec(MODEL, space)
    state = space["make"]().state_dict()  # type: ignore[operator]
    torch.save(state, tmp_path / "fits.pt")
    del state["b.bias"]
    torch.save({**state, "foreign": torch.zeros(1)}, tmp_path / "other.pt")
    options = {"input": ("x:float32[2,4]",), "target": "onnx"}
    fits, other = (
        run(SCAN, audit_of(f"{tmp_path / 'net.py'}:make", checkpoint=str(tmp_path / name), **options))  # type: ignore[arg-type]
        for name in ("fits.pt", "other.pt")
    )
    assert not [each for each in fits.findings if each.rule.startswith(("CKP", "DCK"))]
    assert any(row.name == "checkpoint.parameters" and row.status == "ok" for row in fits.probes)
    found = {each.rule: each for each in other.findings}
    assert "b.bias" in found["CKP-017"].message and found["CKP-017"].state.value == "confirmed"
    assert "foreign" in found["CKP-018"].message
    assert other.checkpoint is not None and other.targets == ("onnx",)


def test_a_model_without_parameters_is_no_match(tmp_path):
    """All of nothing would be a share of 1, which refutes rules about names."""

    class Workers:
        def run(self, role, job, params):
            return Outcome("ok", {"parameters": [], "modules": []})

    torch.save({"w": torch.ones(2)}, tmp_path / "w.pt")
    audit = read_weights(new_audit(make_options({"checkpoint": str(tmp_path / "w.pt"), "target": "onnx"}), "m.py:f"))
    before = audit.add(pool=Workers(), reference=Side("pytorch", "pytorch.run", {}, "pytorch/cpu"))
    after = compare_parameters(before)
    assert not [row for row in after.measurements if row.metric == "checkpoint.keys_matched"]
    (row,) = [probe for probe in after.probes if probe.name == "checkpoint.names"]
    assert (row.status, row.required) == ("unsupported", True)
