"""pytorch.training against what can be computed by hand."""

import copy
import io
import math
import warnings
from types import SimpleNamespace

import checkpointed_models as models
import numpy as np
import pytest
import torch
from torch import nn

from tensoraudit.audit.training import rows_of
from tensoraudit.probes.pytorch import training_compare
from tensoraudit.probes.pytorch.training import measure
from tensoraudit.probes.pytorch.training_compare import distances
from tensoraudit.probes.pytorch.training_step import weighted_sum

X = torch.linspace(-1, 1, 20).reshape(5, 4)
ONES = torch.ones(3, 4096)
PASSES = {"identical", "equivalent", "noise"}


class Rows:
    """The rows of one measurement, by metric and subject."""

    def __init__(self, factory, *inputs, **options):
        self.all = rows_of(measure(factory, inputs, **options))

    def __getitem__(self, metric):
        """The values of a metric, by subject."""
        return {subject: value for name, subject, value, _ in self.all if name == f"training.{metric}"}

    def __call__(self, metric, subject="model"):
        return self[metric].get(subject)

    def detail(self, metric, subject="model"):
        return next(row[3] for row in self.all if row[:2] == (f"training.{metric}", subject))


@pytest.mark.parametrize("way", models.WAYS)
def test_right_checkpointing_changes_nothing(way):
    rows = Rows(models.WAYS[way], X)
    assert (rows("regions"), rows("recomputations"), rows("status")) == (2, 2, "ok")
    assert (rows("gradients_missing"), rows("gradients_nan"), rows("gradient_difference")) == (0, 0, 0.0)
    for metric in ("gradient_verdict", "output_verdict"):
        assert set(rows[metric].values()) == {"identical"}
    assert (rows("rng_differs"), rows("scaler_differs"), rows("warnings"), rows("error")) == (False, False, "", None)
    assert rows("flops_ratio") > 1
    if not way.startswith("hand-written"):
        assert set(rows["autocast_gradient_verdict"].values()) == {"identical"}
        assert set(rows["recompute_dtype_changed"].values()) == {False}


def masks(draw):
    """The masks of forward and of a recomputation that draws anew, and the weights of the loss."""
    torch.manual_seed(0)
    np.random.seed(0)
    first, second = draw(), draw()
    weights = torch.randn(3, 4096, generator=torch.Generator().manual_seed(0))
    return (weights * first).sum(0), (weights * second).sum(0)


@pytest.mark.parametrize(("p", "expected"), [(0.5, 1.0), (0.1, math.sqrt(0.2))])
def test_dropout_without_its_state(p, expected):
    """d loss / d weight is the sum over rows of mask * loss weight. Two independent masks have the cosine 1 - p."""
    rows = Rows(lambda: models.Scale(nn.Dropout(p), preserve_rng_state=False), ONES)
    without, with_ = masks(lambda: nn.functional.dropout(ONES, p))
    exact = float((with_ - without).norm() / without.norm())
    assert rows("gradient_difference") == pytest.approx(exact, rel=1e-5)
    assert exact == pytest.approx(expected, rel=0.05)
    assert rows("gradient_verdict", "weight") == "break"
    assert f"relative L2 difference {exact:.3g}" in rows.detail("gradient_verdict", "weight")
    assert (rows("output_verdict", "output"), rows("rng_differs")) == ("identical", True)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_dropout_in_a_network(use_reentrant):
    """The effect as one meets it: the layers around keep their gradients, so that less than all of it is wrong."""

    def how(block, x):
        return models.alias(block, x, use_reentrant=use_reentrant, preserve_rng_state=False)

    rows = Rows(lambda: models.Stack(how, lambda: models.mlp(4, 64, nn.Dropout(0.5))), torch.randn(64, 4))
    assert 0.5 < rows("gradient_difference") < 1.2
    kept = Rows(lambda: models.Stack(lambda b, x: models.alias(b, x, use_reentrant=use_reentrant)), torch.randn(64, 4))
    assert (kept("gradient_difference"), kept("rng_differs")) == (0.0, False)


def test_dropout_that_drops_nothing_is_right():
    rows = Rows(lambda: models.Scale(nn.Dropout(0.0), preserve_rng_state=False), ONES)
    assert set(rows["gradient_verdict"].values()) == {"identical"}


def test_numpy_mask():
    rows = Rows(lambda: models.Scale(models.numpy_mask), ONES)
    without, with_ = masks(lambda: torch.from_numpy((np.random.rand(3, 4096) > 0.5).astype("f4")))
    assert rows("gradient_difference") == pytest.approx(float((with_ - without).norm() / without.norm()), rel=1e-5)
    assert rows("gradient_verdict", "weight") == "break"
    assert (rows("rng_differs"), rows.detail("rng_differs")) == (False, "other states of numpy after the step")


@pytest.mark.parametrize("mask", [models.python_mask, models.own_mask, models.counted_mask])
def test_other_sources_of_values_that_nobody_rewinds(mask):
    """Also where the source is a global of the file: it is put back between the steps, so that outputs agree."""
    calls, state = list(models.CALLS), models.GENERATOR.get_state()
    rows = Rows(lambda: models.Global(mask), ONES)
    assert rows("output_verdict", "output") == "identical"
    assert rows("gradient_verdict", "weight") in {"drift", "break"}
    assert rows("gradient_difference") == pytest.approx(1.0, rel=0.05)  # the counter says 2 instead of 1
    assert calls == models.CALLS and torch.equal(state, models.GENERATOR.get_state())


def test_true_randomness_is_never_judged():
    def noise(t):
        return t * torch.from_numpy(np.random.default_rng().random(t.shape, dtype="f4"))

    rows = Rows(lambda: models.Scale(noise), ONES)
    assert rows("gradient_verdict", "weight") == rows("output_verdict", "output") == "unverified"


def test_batch_norm_counts_twice():
    """From 0 with momentum 0.1: once 0.1 * mean, twice 0.19 * mean."""
    x = torch.linspace(-1, 1, 15).reshape(5, 3)
    rows = Rows(models.Norm, x)
    assert rows("batches_tracked", "block.1.num_batches_tracked") == 2.0
    assert rows.detail("buffer_verdict", "block.1.running_mean").startswith("moved 1.9 times")
    assert rows("buffer_verdict", "block.1.running_mean") in {"drift", "break"}
    assert set(rows["gradient_verdict"].values()) == {"identical"}
    assert rows("side_effects") == 0


def test_batch_norm_that_is_kept_in_eval_mode_stays_there():
    rows = Rows(lambda: models.Norm(frozen=True), torch.linspace(-1, 1, 15).reshape(5, 3))
    assert rows("batches_tracked", "block.1.num_batches_tracked") == 1.0
    assert set(rows["buffer_verdict"].values()) == {"identical"}


def test_a_model_in_eval_mode_is_trained_all_the_same():
    rows = Rows(lambda: models.Norm().eval(), torch.linspace(-1, 1, 15).reshape(5, 3))
    assert rows("batches_tracked", "block.1.num_batches_tracked") == 2.0


def test_frozen_input_and_the_reentrant_variant():
    ids = torch.tensor([[1, 2, 3]])
    rows = Rows(lambda: models.Frozen(True), ids)
    assert rows("gradients_missing") == 4
    assert rows.detail("gradients_missing") == "block.0.weight, block.0.bias, block.2.weight, block.2.bias"
    assert rows("warnings") == "None of the inputs have requires_grad=True. Gradients will be None"
    assert (rows("regions"), rows("recomputations"), rows("error")) == (1, 0, None)
    assert set(rows["gradient_verdict"]) == {"head.weight", "head.bias"}
    right = Rows(lambda: models.Frozen(False), ids)
    assert (right("gradients_missing"), right("warnings"), len(right["gradient_verdict"])) == (0, "", 6)


def test_a_loss_without_graph():
    rows = Rows(models.Whole, X)
    assert rows("error").startswith("RuntimeError: element 0 of tensors does not require grad")
    assert (rows("status"), rows("gradients_missing")) == ("ok", 4)


def test_keywords_and_the_reentrant_variant():
    rows = Rows(models.Keyword, X)
    assert rows("error") == "ValueError: Unexpected keyword arguments: mask"
    assert rows("status") == "ok" and not rows["gradient_verdict"] and rows("gradients_missing") is None


def test_hand_written_function_without_autocast():
    rows = Rows(models.HandWrittenFirst, X)
    changed = rows["recompute_dtype_changed"]
    assert changed == {"block": True, "block.0": True, "block.1": True, "block.2": True}
    assert rows.detail("recompute_dtype_changed", "block") == "bfloat16 in forward, float32 in recomputation"
    wrong = [name for name, verdict in rows["autocast_gradient_verdict"].items() if verdict not in PASSES]
    assert set(wrong) >= {"block.0.weight", "block.2.weight"}
    later = Rows(models.WAYS["hand-written"], X)  # the second region gets bfloat16, and meets weights in float32
    assert "must have the same dtype" in later("autocast_error")
    assert rows.detail("regions") == "hand-written: HandWritten"


def test_a_hand_written_function_that_cannot_be_removed_is_said_so():
    rows = Rows(lambda: models.Stack(models.Opaque.of), X)
    assert rows("status") == "unsupported"
    assert "Opaque cannot be made transparent" in rows.detail("status")
    assert {row[0] for row in rows.all} == {"training.regions", "training.recomputations", "training.status"}


def test_selective_regions_that_share_a_weight_fail_under_autocast():
    rows = Rows(models.Shared, X)
    assert "RuntimeError" in rows("autocast_error")
    assert rows("error") is None and set(rows["gradient_verdict"].values()) == {"identical"}


def test_a_failed_export_before_changes_nothing():
    """torch's exporter turns the autocast cache off, and on again only where it succeeds."""
    with pytest.raises(TypeError, match="forward"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(nn.Linear(4, 4), (X, X), io.BytesIO(), dynamo=False)
    assert not torch.is_autocast_cache_enabled()
    assert "encountered during backward" in Rows(models.Shared, X)("autocast_error")


def test_side_effects_run_twice():
    rows = Rows(models.SideEffects, X)
    assert (rows("side_effects"), rows.detail("side_effects")) == (3, "log.1, log.length, seen")
    assert rows("forward_calls", "block") == 2.0


def test_the_scaler_backs_off_once():
    rows = Rows(models.right, X)
    course = "scales 2048, 1024, 2048, steps 1, 3 taken"
    assert rows.detail("scaler_differs") == f"{course} with checkpointing; {course} without"


@pytest.mark.parametrize(
    ("how", "again", "memory"), [("block", 16, 0.25), ("segments", 21, 0.35), ("second", 8, 0.65), ("whole", 31, 1.0)]
)
def test_memory_and_operations_of_sixteen_blocks(how, again, memory):
    """A block is two products of n. Forward takes 32 n, backward 63 n (the first input needs no gradient).

    Recomputation stops before the last product of a region, whose result nobody needs: 1 n a block, 31 n for all
    sixteen, 7 n for each of three segments (the fourth is not checkpointed), 8 n for every second block.
    """
    rows = Rows(lambda: models.Blocks(how), torch.randn(1024, 32))
    assert rows("flops_ratio") == pytest.approx(1 + again / 95, abs=1e-3)
    assert rows("peak_memory_ratio") == pytest.approx(memory, abs=0.08)
    assert rows("time_ratio") > 0.5


def test_live_bytes_and_operations_of_a_chain_by_hand():
    """Two tensors of 4 kB are alive at once: a sum and its successor."""
    from tensoraudit.probes.pytorch.training_cost import Meter

    x = torch.ones(1000)
    with Meter([x]) as live:
        y = x.view(10, 100)  # the same storage, which was there before
        y = y + 1
        for _ in range(5):
            y = y + 1
        z = torch.mm(y, y.t())
    assert live.peak == 8000
    assert live.operations == 2 * 10 * 100 * 10
    del y, z
    assert live.live == 0


def test_inputs_that_are_changed_in_place_and_outputs_in_a_dict():
    x = X.clone()
    rows = Rows(models.InPlace, x)
    assert torch.equal(x, X)
    assert (rows("status"), set(rows["output_verdict"])) == ("ok", {"output.y"})


def test_without_parameters_the_inputs_take_the_gradients():
    rows = Rows(models.NoParameters, torch.linspace(-1, 1, 500))
    assert rows("gradient_verdict", "input:x") == "break"


def test_the_code_of_a_model_that_holds_on_to_itself():
    rows = Rows(models.Holding, X)
    assert rows("status") == "ok"
    assert set(rows["gradient_verdict"]) == {name for name, _ in models.Holding().named_parameters()}
    alone = Rows(models.Holding(), X)
    assert (alone("status"), "name a function" in alone.detail("status")) == ("unsupported", True)


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        (models.Labels, "ValueError: in training mode labels are required"),
        (models.Integers, "no output of the model is floating, so there is no loss to differentiate"),
        (lambda: models.right().requires_grad_(False), None),
    ],
)
def test_models_that_cannot_be_trained(factory, reason):
    rows = Rows(factory, X)
    if reason is None:  # nothing is frozen for good: the input takes the gradient
        assert set(rows["gradient_verdict"]) == {"input:x"}
    else:
        assert rows("status") == "unsupported" and reason in rows.detail("status")
        assert not rows["gradient_verdict"] and rows("gradients_missing") is None


def test_a_model_without_regions_has_nothing_to_compare():
    rows = Rows(lambda: nn.Linear(4, 4), X)
    assert {row[0]: row[2] for row in rows.all} == {
        "training.regions": 0,
        "training.recomputations": 0,
        "training.status": "ok",
    }


def test_the_module_is_left_as_it_was():
    module = models.Norm()
    before = copy.deepcopy(module.state_dict())
    Rows(module, torch.linspace(-1, 1, 15).reshape(5, 3))
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())


def test_many_identical_gradients_share_a_row():
    rows = Rows(lambda: nn.Sequential(*[models.WAYS["wrapper"]() for _ in range(7)]), X)
    assert rows["gradient_verdict"] == {"*": "identical"}
    assert rows.detail("gradient_verdict", "*") == "every bit is equal in 70 of 70 tensors"


def test_of_many_differing_gradients_the_worst_are_judged_and_the_rest_is_no_pass():
    def how(block, x):
        return models.alias(block, x, use_reentrant=False, preserve_rng_state=False)

    def two():
        return nn.Sequential(models.Stack(how, dropping), nn.Linear(3, 4), models.Stack(how, dropping))

    rows = Rows(two, X)
    verdicts = rows["gradient_verdict"]
    assert sum(verdict in {"drift", "break"} for verdict in verdicts.values()) == 16
    assert verdicts["*"] == "unverified"
    assert "more tensors differ" in rows.detail("gradient_verdict", "*")


def dropping():
    return models.mlp(4, 16, nn.Dropout(0.5))


def test_a_large_tensor_is_judged_by_some_of_its_elements(monkeypatch):
    monkeypatch.setattr(training_compare, "WHOLE", 1000)
    monkeypatch.setattr(training_compare, "SOME", 100)
    rows = Rows(lambda: models.Scale(nn.Dropout(0.5), preserve_rng_state=False), ONES)
    assert rows("gradient_verdict", "weight") == "break"
    assert "of 4096 elements" in rows.detail("gradient_verdict", "weight")
    left, right = torch.zeros(4096), torch.zeros(4096)
    left[4001] = 1
    chosen = training_compare._elements(left, right)
    assert 4001 in chosen and 100 < len(chosen) <= 203


def test_what_differs_like_equal_steps_is_noise():
    noise = SimpleNamespace(steps=lambda: [SimpleNamespace(t={"w": torch.tensor([1.0, 1.01])})])
    right = {"w": torch.tensor([1.0, 1.0])}
    rest = lambda far: training_compare._rest("m", {"w": far}, lambda step: step.t, right, noise)  # noqa: E731
    spread = 0.01 / math.sqrt(2)
    assert rest(7.9 * spread)[1:3] == ("*", "noise")
    assert rest(8.1 * spread)[1:3] == ("*", "unverified")
    assert rest(math.inf)[2] == "unverified"


def test_distances():
    left, right = [torch.tensor([3.0]), torch.tensor([0.0, 4.0])], [torch.tensor([0.0]), torch.tensor([3.0, 4.0])]
    assert distances(left, right) == pytest.approx((math.sqrt(18) / 5, 16 / 25))
    assert distances([torch.zeros(2)], [torch.zeros(2)]) == (0.0, 1.0)
    assert distances([torch.ones(2)], [torch.zeros(2)])[0] == math.inf


def test_the_loss_is_fixed_and_weighs_every_output():
    outputs = {"a": torch.ones(3), "n": torch.tensor(7), "b": torch.ones(2, dtype=torch.float16)}
    draws = torch.Generator().manual_seed(0)
    expected = torch.randn(3, generator=draws).sum() + torch.randn(2, generator=draws).sum()
    assert weighted_sum(outputs).item() == pytest.approx(expected.item(), rel=1e-6)


def test_the_job_leaves_the_loaded_model_alone(job, spec, sample):
    model, inputs = spec("right", "checkpointed_models.py"), sample(x=X.numpy())
    options = {"model": model, "inputs": [inputs], "perturbations": 0}
    first = job("run", **options)
    result = job("training", model=model, inputs=inputs)
    assert ["training.status", "model", "ok", ""] in [list(row) for row in result["rows"]]
    second = job("run", **options)
    same(job, first, second)


def test_the_job_leaves_a_model_alone_that_holds_on_to_itself(job, spec, sample):
    model, inputs = spec("Holding", "checkpointed_models.py"), sample(x=X.numpy())
    first = job("run", model=model, inputs=[inputs], perturbations=0)
    job("training", model=model, inputs=inputs)
    same(job, first, job("run", model=model, inputs=[inputs], perturbations=0))


def same(job, first, second):
    assert first["state_changed"] == second["state_changed"]
    assert [run["error"] for run in second["runs"]] == [None]


def test_pairs_of_the_job_are_references(job, spec, sample, session):
    result = job("training", model=spec("scaled_by_dropout", "checkpointed_models.py"), inputs=sample(x=ONES.numpy()))
    (pair,) = [pair for pair in result["pairs"] if pair["metric"] == "training.gradient_verdict"]
    assert pair["subject"] == "weight"
    arrays = [session.get(pair[key]) for key in ("reference", "candidate", "repeat")]
    assert [array.shape for array in arrays] == [(4096,)] * 3
    assert np.array_equal(arrays[0], arrays[2]) and not np.array_equal(arrays[0], arrays[1])
    assert len(pair["perturbed"]) == 3


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_cuda():
    rows = Rows(models.right, X, device="cuda")
    assert (rows("regions"), rows("recomputations"), rows("gradients_missing")) == (2, 2, 0)
    assert set(rows["gradient_verdict"].values()) <= PASSES
    wrong = Rows(models.scaled_by_dropout, ONES, device="cuda")
    assert (wrong("gradient_verdict", "weight"), wrong("rng_differs")) == ("break", True)
    assert rows("peak_memory_ratio") > 0
