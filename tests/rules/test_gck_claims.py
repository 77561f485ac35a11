"""What the rules on activation checkpointing claim, tried on the installed torch, with values worked out by hand.

The claims about several processes are in `test_gck_distributed_claims.py`, the scans that settle rules in
`test_gck_scans.py`.
"""

import importlib.util
import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import (  # noqa: E402
    CheckpointError,
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

FIXTURES = Path(__file__).parents[2] / "fixtures" / "rules"
REENTRANT = [{"use_reentrant": True}, {}]
BOTH = [{"use_reentrant": True}, {"use_reentrant": False}]


def load_fixture(name):
    spec = importlib.util.spec_from_file_location(name, FIXTURES / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Help


def relative(found, wanted):
    """Relative L2 difference over lists of tensors."""
    off = sum(float((a - b).square().sum()) for a, b in zip(found, wanted, strict=True))
    return math.sqrt(off / sum(float(b.square().sum()) for b in wanted))


def gradients(module, loss):
    module.zero_grad()
    loss.backward()
    return [None if p.grad is None else p.grad.clone() for p in module.parameters()]


def block():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(7, 13), torch.nn.Tanh(), torch.nn.Linear(13, 5))


X = torch.linspace(-1, 1, 77).reshape(11, 7)


# GCK-001


@pytest.mark.parametrize("options", REENTRANT)
def test_a_reentrant_block_behind_the_batch_gets_no_gradient_and_a_warning(options):
    net = torch.nn.ModuleList([block(), torch.nn.Linear(5, 3)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = gradients(net, net[1](checkpoint(net[0], X, **options)).sum())
    assert [each is None for each in found] == [True] * 4 + [False] * 2
    assert any("None of the inputs have requires_grad=True" in str(each.message) for each in caught)


def test_the_other_variant_gives_every_gradient_exactly():
    net = block()
    wanted = gradients(net, net(X).square().sum())
    found = gradients(net, checkpoint(net, X, use_reentrant=False).square().sum())
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_an_input_that_needs_a_gradient_is_enough_for_the_reentrant_one():
    net = block()
    wanted = gradients(net, net(X).square().sum())
    found = gradients(net, checkpoint(net, X.clone().requires_grad_(), use_reentrant=True).square().sum())
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("hide", [lambda t: {"x": t}, lambda t: [t], lambda t: (t,)])
def test_tensors_in_containers_do_not_count_for_the_reentrant_one(hide):
    net, x = block(), X.clone().requires_grad_()

    def opened(held):
        return net(held["x"] if isinstance(held, dict) else held[0])

    assert not checkpoint(opened, hide(x), use_reentrant=True).requires_grad
    assert checkpoint(opened, hide(x), use_reentrant=False).requires_grad


def test_all_segments_but_the_last_are_cut():
    net = torch.nn.Sequential(torch.nn.Linear(7, 13), torch.nn.Linear(13, 5), torch.nn.Linear(5, 3))
    found = gradients(net, checkpoint_sequential(net, 3, X).sum())
    assert [each is None for each in found] == [True] * 4 + [False] * 2


def test_transformers_changed_its_default_with_version_5():
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=31, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
    )
    model = transformers.LlamaForCausalLM(config).train()
    model.model.embed_tokens.requires_grad_(False)
    model.gradient_checkpointing_enable()
    ids = torch.arange(14).reshape(2, 7)
    missing = [
        name
        for (name, p), g in zip(
            model.named_parameters(), gradients(model, model(input_ids=ids, labels=ids).loss), strict=True
        )
        if p.requires_grad and g is None
    ]
    new = int(transformers.__version__.split(".")[0]) >= 5
    assert (missing == []) == new


# GCK-002

KEYWORDS = [{"scale": torch.tensor(2.0)}, {"debug": True}, {"context_fn": lambda: (torch.no_grad(), torch.no_grad())}]


def scaled(x, scale=1.0):
    return x.sin() * scale


@pytest.mark.parametrize("extra", KEYWORDS)
@pytest.mark.parametrize("options", REENTRANT)
def test_a_reentrant_checkpoint_takes_no_keywords(options, extra):
    with pytest.raises(ValueError, match=r"Unexpected keyword arguments|only supported when use_reentrant=False"):
        checkpoint(scaled, X.clone().requires_grad_(), **options, **extra)


@pytest.mark.parametrize("extra", [{"determinism_check": "none"}, {"early_stop": False}, {"preserve_rng_state": False}])
def test_these_keywords_it_takes(extra):
    assert checkpoint(scaled, X.clone().requires_grad_(), use_reentrant=True, **extra).requires_grad


def by_grad(f, x):
    return torch.autograd.grad(f(x).sum(), [x])[0]


def by_inputs(f, x):
    f(x).sum().backward(inputs=[x])
    return x.grad


def by_jacobian(f, x):
    return torch.autograd.functional.jacobian(lambda t: f(t).sum(), x)


@pytest.mark.parametrize("way", [by_grad, by_inputs, by_jacobian])
def test_a_reentrant_checkpoint_allows_a_plain_backward_only(way):
    for options in REENTRANT:
        with pytest.raises(RuntimeError, match=r"incompatible with \.grad\(\)"):
            way(lambda t, o=options: checkpoint(scaled, t, **o), X.clone().requires_grad_())
    found = way(lambda t: checkpoint(scaled, t, use_reentrant=False), X.clone().requires_grad_())
    torch.testing.assert_close(found, X.cos())


@pytest.mark.parametrize(("options", "wanted"), [({"use_reentrant": True}, 0.0), ({"use_reentrant": False}, 1.0)])
def test_a_penalty_on_the_gradient_adds_nothing(options, wanted):
    """loss = sum(sin x) + sum(g^2), g = cos x: its slope is cos x - 2 cos x sin x, or cos x when g has no graph."""
    x = X.clone().requires_grad_()
    y = checkpoint(scaled, x, **options).sum()
    y.backward(create_graph=True)
    g, x.grad = x.grad, None
    (scaled(x).sum() + (g**2).sum()).backward()
    torch.testing.assert_close(x.grad, X.cos() - wanted * 2 * X.cos() * X.sin())


def test_no_variant_works_under_torch_func_grad():
    for options in BOTH:
        with pytest.raises(RuntimeError):
            torch.func.grad(lambda t, o=options: checkpoint(scaled, t, **o).sum())(X)


# GCK-003


class Dropped(torch.nn.Module):
    """y = dropout(w * x): the gradient of w is x * mask / (1 - p), with the mask that backward sees."""

    def __init__(self, p):
        super().__init__()
        self.w, self.p = torch.nn.Parameter(torch.ones(20_000)), p

    def forward(self, x):
        return torch.nn.functional.dropout(self.w.expand(20_000) * x, self.p)


def dropped(p, run, **options):
    net, x = Dropped(p), torch.ones(20_000, requires_grad=True)
    torch.manual_seed(1)
    y = run(net, x, **options)
    y.sum().backward()
    return y.detach(), net.w.grad


def direct(net, x):
    return net(x)


@pytest.mark.parametrize("options", BOTH)
@pytest.mark.parametrize("p", [0.1, 0.5])
def test_another_mask_is_off_by_the_root_of_twice_p(p, options):
    """Masks m, n of ones with probability 1-p: E(m-n)^2 / E m^2 = 2p(1-p) / (1-p)."""
    (output, wanted), (same, found) = (
        dropped(p, direct),
        dropped(p, checkpoint, preserve_rng_state=False, **options),
    )
    assert torch.equal(output, same)
    assert relative([found], [wanted]) == pytest.approx(math.sqrt(2 * p), rel=0.05)


@pytest.mark.parametrize("options", [*BOTH, {"use_reentrant": False, "determinism_check": "default"}])
def test_a_kept_state_gives_the_same_mask(options):
    assert torch.equal(dropped(0.5, direct)[1], dropped(0.5, checkpoint, **options)[1])
    assert torch.equal(
        dropped(0.0, direct)[1], dropped(0.0, checkpoint, preserve_rng_state=False, use_reentrant=False)[1]
    )


def test_compiled_code_keeps_the_state_whatever_the_flag():
    """Under a compiler the mask may be another one than eager code draws, so output and gradient are compared."""
    x = torch.ones(20_000, requires_grad=True)
    net = Dropped(0.5)

    @torch.compile(backend="aot_eager")
    def run(x):
        return checkpoint(net, x, use_reentrant=False, preserve_rng_state=False)

    y = run(x)
    y.sum().backward()
    assert torch.equal(net.w.grad, y.detach())


# GCK-004


class Stateful(torch.nn.Module):
    """y = w * value(), where value() says another thing at each call."""

    def __init__(self, value):
        super().__init__()
        self.w, self.value = torch.nn.Parameter(torch.ones(7)), value

    def forward(self, x):
        return self.w * x * self.value()


def numpy_mask():
    return torch.from_numpy(np.random.rand(7)).float()


def own_generator():
    generator = torch.Generator().manual_seed(0)
    return lambda: torch.rand(7, generator=generator)


def counter():
    calls = iter([1.0, 2.0])
    return lambda: torch.full((7,), next(calls))


@pytest.mark.parametrize("options", BOTH)
@pytest.mark.parametrize(
    ("make", "second"),
    [
        (lambda: numpy_mask, lambda: torch.from_numpy(np.random.RandomState(3).rand(2, 7)[1]).float()),
        (own_generator, lambda: torch.rand(2, 7, generator=torch.Generator().manual_seed(0))[1]),
        (counter, lambda: torch.full((7,), 2.0)),
    ],
)
def test_the_gradient_belongs_to_the_second_draw(make, second, options):
    np.random.seed(3)
    net = Stateful(make())
    checkpoint(net, torch.ones(7, requires_grad=True), **options).sum().backward()
    torch.testing.assert_close(net.w.grad, second())


@pytest.mark.parametrize(("options", "wanted"), [(BOTH[0], 2.0), (BOTH[1], 1.0)])
def test_a_plain_number_is_taken_again_by_the_reentrant_variant_only(options, wanted):
    """The other one keeps the graph of the forward pass, which holds the number, and replaces saved tensors."""
    calls = iter([1.0, 2.0])
    net = Stateful(lambda: next(calls))
    checkpoint(net, torch.ones(7, requires_grad=True), **options).sum().backward()
    torch.testing.assert_close(net.w.grad, torch.full((7,), wanted))


def test_a_changed_structure_is_seen_by_one_variant_only():
    rows = iter([11, 5, 11, 5])
    net = torch.nn.Linear(7, 3)

    def cut(x):
        return net(x[: next(rows)]).sin().sum()

    with pytest.raises(CheckpointError, match="have different metadata"):
        checkpoint(cut, X, use_reentrant=False).backward()
    checkpoint(cut, X.clone().requires_grad_(), use_reentrant=True).backward()
    torch.testing.assert_close(net.bias.grad, net(X[:5]).cos().sum(0))


def test_a_value_that_is_passed_in_is_kept():
    net = Stateful(lambda: 1.0)
    value = numpy_mask()
    checkpoint(lambda x, m: net(x) * m, torch.ones(7, requires_grad=True), value, use_reentrant=False).sum().backward()
    torch.testing.assert_close(net.w.grad, value)


# GCK-005


def normed(run, **options):
    norm = torch.nn.BatchNorm1d(7, **options)
    run(norm, (X + 2).requires_grad_()).square().sum().backward()
    return norm


def checkpointed(net, x):
    return checkpoint(net, x, use_reentrant=False)


def reentrant(net, x):
    return checkpoint(net, x, use_reentrant=True)


@pytest.mark.parametrize("run", [checkpointed, reentrant])
def test_a_batch_counts_twice(run):
    mean, norm = (X + 2).mean(0), normed(run)
    torch.testing.assert_close(norm.running_mean, (1 - 0.9**2) * mean)
    torch.testing.assert_close(normed(direct).running_mean, 0.1 * mean)
    assert norm.num_batches_tracked == 2


def test_a_plain_average_is_not_moved():
    torch.testing.assert_close(normed(checkpointed, momentum=None).running_mean, (X + 2).mean(0))


def test_the_square_root_makes_up_for_it_but_for_the_counter():
    norm, wanted = normed(checkpointed, momentum=1 - math.sqrt(0.9)), normed(direct)
    torch.testing.assert_close(norm.running_mean, wanted.running_mean)
    torch.testing.assert_close(norm.running_var, wanted.running_var)
    assert norm.num_batches_tracked == 2


# GCK-006


class Seen(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.dtypes = block(), []

    def forward(self, x):
        y = self.inner(x)
        self.dtypes.append(y.dtype)
        return y


def under_autocast(run, cast=True, **options):
    net = Seen()
    with torch.autocast("cpu", torch.bfloat16, **options):
        y = run(net, X.clone().requires_grad_())
    return net.dtypes, gradients(net, y.float().square().sum())


def test_a_function_of_ones_own_recomputes_in_float32():
    fixture = load_fixture("gck_006")
    dtypes, found = under_autocast(lambda net, x: fixture.Dropping.apply(net, x, *net.parameters()))
    assert dtypes == [torch.bfloat16, torch.float32]
    wanted = under_autocast(direct)[1]
    assert 1e-3 < relative(found, wanted) < 1e-1
    for run in (checkpointed, reentrant):
        dtypes, found = under_autocast(run)
        assert dtypes[0] == dtypes[-1] == torch.bfloat16
        assert relative(found, wanted) == 0


def test_the_decorators_restore_autocast():
    base = load_fixture("gck_006").Dropping

    class Decorated(torch.autograd.Function):
        forward = staticmethod(torch.amp.custom_fwd(base.forward, device_type="cpu"))
        backward = staticmethod(torch.amp.custom_bwd(base.backward, device_type="cpu"))

    dtypes, found = under_autocast(lambda net, x: Decorated.apply(net, x, *net.parameters()))
    assert dtypes == [torch.bfloat16, torch.bfloat16]
    assert relative(found, under_autocast(direct)[1]) == 0


def contexts():
    policy = CheckpointPolicy.MUST_SAVE
    return create_selective_checkpoint_contexts(lambda ctx, op, *a, **k: policy)


def twice(net, x):
    for _ in range(2):
        x = checkpoint(net, x, use_reentrant=False, context_fn=contexts)
    return x


def square_under_autocast(**options):
    net = torch.nn.Linear(7, 7)
    with torch.autocast("cpu", torch.bfloat16, **options):
        y = twice(net, X.clone().requires_grad_())
    y.float().sum().backward()
    return net.weight.grad


def test_a_weight_shared_by_two_selective_regions_trips_over_the_cache():
    with pytest.raises(RuntimeError, match="encountered during backward"):
        square_under_autocast()
    assert square_under_autocast(cache_enabled=False) is not None


# GCK-007


def trained(step, steps=6, run=direct, poison=False):
    """Train y = net(x) towards 1 by SGD; returns losses, scales and the weights after each step."""
    net = block()
    optimizer, scaler = torch.optim.SGD(net.parameters(), 0.1), torch.amp.GradScaler("cpu")
    losses, scales, weights = [], [], [net[2].bias.detach().clone()]
    for turn in range(steps):
        optimizer.zero_grad()
        loss = (run(net, X.clone().requires_grad_()) - 1).square().mean()
        if poison and turn == 1:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        step(net, optimizer, scaler)
        losses.append(float(loss))
        scales.append(scaler.get_scale())
        weights.append(net[2].bias.detach().clone())
    return losses, scales, weights


def raw(net, optimizer, scaler):
    optimizer.step()
    scaler.update()


def raw_without_update(net, optimizer, scaler):
    optimizer.step()


def right(net, optimizer, scaler):
    scaler.step(optimizer)
    scaler.update()


def test_a_plain_step_moves_65536_times_too_far():
    _, _, wanted = trained(right, 1)
    losses, _, found = trained(raw_without_update)
    torch.testing.assert_close(found[1] - found[0], 65536 * (wanted[1] - wanted[0]), rtol=1e-3, atol=0)
    assert losses[1] > 1e6 * losses[0]
    assert not math.isfinite(losses[-1])


def test_the_scale_moves_the_same_with_and_without_checkpoint():
    plain, checked = trained(right, run=direct, poison=True), trained(right, run=checkpointed, poison=True)
    assert plain[1] == checked[1] == [65536.0, *[32768.0] * 5]
    assert all(torch.equal(a, b) for a, b in zip(plain[2], checked[2], strict=True))
    assert torch.equal(plain[2][1], plain[2][2])  # the poisoned step is skipped


def test_a_step_without_update_raises_at_the_second():
    with pytest.raises(RuntimeError, match="since the last update"):
        trained(lambda net, optimizer, scaler: scaler.step(optimizer), 2)


@pytest.mark.parametrize(("unscale", "left"), [(True, 1.0), (False, 1 / 65536)])
def test_clipping_scaled_gradients_leaves_next_to_nothing(unscale, left):
    """Clipped to norm 1e-3, which is below the true norm, SGD moves all weights by lr * 1e-3 together."""
    net = block()
    before = [p.detach().clone() for p in net.parameters()]
    optimizer, scaler = torch.optim.SGD(net.parameters(), 1.0), torch.amp.GradScaler("cpu")
    scaler.scale((net(X) - 1).square().mean()).backward()
    if unscale:
        scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1e-3)
    scaler.step(optimizer)
    moved = math.sqrt(
        sum(float((p - b).double().square().sum()) for p, b in zip(net.parameters(), before, strict=True))
    )
    if unscale:
        assert moved == pytest.approx(1e-3, rel=1e-2)
    else:
        assert moved < 1e-3 / 1000  # 1.5e-8 in exact arithmetic, below the rounding of most weights
