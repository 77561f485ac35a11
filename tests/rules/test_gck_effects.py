"""What GCK-010 to GCK-018 claim about side effects, transforms, memory and saving, tried on the installed frameworks.

JAX and TensorFlow run in an interpreter of their own: TENSORAUDIT_JAX_PYTHON and TENSORAUDIT_TF_PYTHON name one that
has them, else this interpreter is tried.
"""

import functools
import importlib.util
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.facts import Measurement

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint, checkpoint_sequential  # noqa: E402

from tensoraudit.audit.training import rows_of  # noqa: E402
from tensoraudit.probes.pytorch.training import measure  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

CLAIMS = Path(__file__).with_name("claims")
FIXTURES = Path(__file__).parents[2] / "fixtures" / "rules"


def load_fixture(name):
    spec = importlib.util.spec_from_file_location(name, FIXTURES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(make, inputs):
    return [
        Measurement(metric, subject, value, detail=text)
        for metric, subject, value, text in rows_of(measure(make, inputs))
    ]


# GCK-010: effects run twice


X = torch.linspace(-1, 1, 35).reshape(5, 7).requires_grad_()


def region():
    """Return a function that appends to a list each time it runs, and the list."""
    seen, layer = [], nn.Linear(7, 7)

    def body(x):
        seen.append(1)
        return torch.relu(layer(x))

    return body, seen


@pytest.mark.parametrize("reentrant", [False, True])
def test_the_code_of_a_region_runs_twice_in_a_step(reentrant):
    body, seen = region()
    checkpoint(body, X, use_reentrant=reentrant).sum().backward()
    assert len(seen) == 2


@pytest.mark.parametrize(("early_stop", "post"), [(True, 1), (False, 2)])
def test_the_recomputation_stops_before_the_last_post_hook(early_stop, post):
    calls = {"pre": 0, "post": 0}
    layers = nn.Sequential(nn.Linear(7, 7), nn.ReLU(), nn.Linear(7, 7))
    layers[2].register_forward_pre_hook(lambda *_: calls.update(pre=calls["pre"] + 1))
    layers[2].register_forward_hook(lambda *_: calls.update(post=calls["post"] + 1))
    checkpoint(layers, X, use_reentrant=False, early_stop=early_stop).sum().backward()
    assert calls == {"pre": 2, "post": post}


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend="aot_eager", **options)


@pytest.mark.parametrize(("wrap", "count"), [(lambda f: f, 2), (compiled, 1)])
def test_torch_compile_moves_a_buffer_once(wrap, count):
    layers = nn.Sequential(nn.Linear(7, 7), nn.BatchNorm1d(7), nn.ReLU())
    wrap(lambda x: checkpoint(layers, x, use_reentrant=False))(X).sum().backward()
    assert layers[1].num_batches_tracked == count


def test_torch_compile_refuses_to_change_a_list_with_fullgraph_and_falls_back_without():
    body, seen = region()
    compiled(lambda x: checkpoint(body, x, use_reentrant=False))(X).sum().backward()
    assert len(seen) == 2
    with pytest.raises(torch._dynamo.exc.Unsupported, match="Unsafe side effect"):
        compiled(lambda x: checkpoint(body, x, use_reentrant=False), fullgraph=True)(X)


def test_an_option_of_torch_compile_keeps_the_effects_of_the_first_run():
    option = "skip_fwd_side_effects_in_bwd_under_checkpoint"
    if not hasattr(torch._dynamo.config, option):
        pytest.skip(f"this torch has no {option}")
    body, seen = region()
    with torch._dynamo.config.patch({option: True}):
        compiled(lambda x: checkpoint(body, x, use_reentrant=False), fullgraph=True)(X).sum().backward()
    assert len(seen) == 1


# GCK-011: transforms that refuse saved-tensor hooks


def sine(x, reentrant):
    return checkpoint(torch.sin, x, use_reentrant=reentrant)


ROW = torch.linspace(-1, 1, 7)
TRANSFORMS = {
    "grad": lambda f: torch.func.grad(lambda x: f(x).sum())(ROW),
    "grad_and_value": lambda f: torch.func.grad_and_value(lambda x: f(x).sum())(ROW)[0],
    "vjp": lambda f: torch.func.vjp(f, ROW)[1](torch.ones(7))[0],
    "jacrev": lambda f: torch.func.jacrev(f)(ROW).diagonal(),
    "hessian": lambda f: torch.func.hessian(lambda x: f(x).sum())(ROW),
    "jacfwd": lambda f: torch.func.jacfwd(f)(ROW).diagonal(),
    "jvp": lambda f: torch.func.jvp(f, (ROW,), (torch.ones(7),))[1],
}
REFUSED = {"grad", "grad_and_value", "vjp", "jacrev", "hessian"}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_reverse_mode_of_torch_func_refuses_a_checkpoint_and_forward_mode_does_not(name):
    def call():
        return TRANSFORMS[name](lambda x: sine(x, False))

    if name in REFUSED:
        with pytest.raises(RuntimeError, match="saved tensor hooks"):
            call()
    else:
        np.testing.assert_allclose(call().numpy(), np.cos(ROW.numpy()), rtol=1e-6)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_every_transform_refuses_the_reentrant_variant(name):
    with pytest.raises(RuntimeError, match="setup_context"):
        TRANSFORMS[name](lambda x: sine(x, True))


def test_the_autograd_functions_take_a_checkpoint():
    found = torch.autograd.functional.hessian(lambda x: sine(x, False).sum(), ROW)
    np.testing.assert_allclose(found.numpy(), np.diag(-np.sin(ROW.numpy())), rtol=1e-6, atol=1e-7)


def test_only_the_hook_variant_minds_disabled_hooks():
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        sine(X, True).sum().backward()
        with pytest.raises(RuntimeError, match="not here"):
            sine(X, False)


# GCK-015: what is saved and what it costs


@pytest.mark.parametrize(("segments", "runs"), [(1, 4), (2, 6), (4, 7)])
def test_the_last_segment_is_never_checkpointed(segments, runs):
    """Four layers run once, and those of all segments but the last run again: 4 - 4 / segments."""
    ran = []

    class Layer(nn.Module):
        def forward(self, x):
            ran.append(1)
            return torch.sin(x)

    layers = nn.Sequential(*[Layer() for _ in range(4)])
    checkpoint_sequential(layers, segments, X, use_reentrant=False).sum().backward()
    assert len(ran) == runs


class PerBlock(nn.Module):
    def __init__(self, make, depth):
        super().__init__()
        self.blocks = nn.ModuleList([make() for _ in range(depth)])

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x


DEPTH = 16


def costs(make):
    measured = rows(make, load_fixture("gck_015").sample_inputs())
    value = {row.metric: row.value for row in measured}
    return value["training.peak_memory_ratio"], value["training.flops_ratio"]


def test_one_region_around_everything_saves_nothing_and_one_per_block_most():
    """A block has two products of equal cost f. A step without checkpoints takes 2 f forward and 4 f backward for each,
    less one f for the gradient of the input that nobody asks for. A region that is recomputed takes its products but
    the last again."""
    fixture = load_fixture("gck_015")
    plain = 6 * DEPTH - 1
    memory, work = costs(lambda: fixture.Net(DEPTH, 0))
    assert work == pytest.approx((plain + 2 * DEPTH - 1) / plain, rel=1e-9)
    assert 0.95 < memory < 1.05
    memory, work = costs(lambda: PerBlock(fixture.Mlp, DEPTH))
    assert work == pytest.approx((plain + DEPTH) / plain, rel=1e-9)
    assert memory < 0.3


# GCK-016, GCK-017: one rank alone


@functools.cache
def claim(script, interpreter, *arguments):
    """Run a script of `claims`; return what it prints."""
    command = [interpreter, str(CLAIMS / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_groups_other_than_nccl_wait_half_an_hour():
    assert torch.distributed.constants.default_pg_timeout == timedelta(minutes=30)


TIMEOUT = 3.0
"""Seconds; the same as in one_rank.py."""
FAILS = ["FSDP state_dict", "fully_shard full_tensor", "fully_shard full state dict", "DDP checkpoint.save"]
WORKS = ["short write", "fully_shard state_dict", "DDP state_dict"]


@pytest.fixture(scope="module")
def ranks():
    if not torch.distributed.is_available() or sys.platform != "linux":
        pytest.skip("needs torch.distributed with gloo on Linux")
    return claim("one_rank.py", sys.executable)


def test_ranks_that_wait_longer_than_the_timeout_fail_while_the_other_writes(ranks):
    saver, waiting = ranks["long write"]
    assert 0.9 * TIMEOUT < waiting[1] < saver[1]
    assert saver[1] >= TIMEOUT + 2  # it finishes, and finds the others gone


@pytest.mark.parametrize("case", FAILS)
def test_gathering_on_one_rank_ends_in_the_timeout_on_both(ranks, case):
    assert [each == "ok" for each in ranks[case]] == [False, False]
    assert 0.9 * TIMEOUT < min(seconds for _, seconds in ranks[case]) < 10 * TIMEOUT


@pytest.mark.parametrize("case", WORKS)
def test_what_gathers_nothing_may_stay_on_one_rank(ranks, case):
    assert ranks[case] == ["ok", "ok"]


# GCK-018: the interpreter lock


def longest_stall(work):
    """Return the longest time that this thread could not run while `work` ran in another, as a part of the whole."""
    worker = threading.Thread(target=work)
    start = last = time.perf_counter()
    longest, alive = 0.0, True
    worker.start()
    while alive:  # looked at once more after its end, which may come before this thread runs at all
        alive = worker.is_alive()
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
        time.sleep(0.001 * alive)
    return longest / (last - start)


STATE = [{"i": i, "v": [i, i + 1], "n": str(i)} for i in range(150_000)]


def dump(path):
    with path.open("wb") as file:
        pickle.dump(STATE, file)


def test_pickling_to_bytes_stops_all_other_threads():
    assert min(longest_stall(lambda: pickle.dumps(STATE)) for _ in range(3)) > 0.8


def test_saving_to_a_file_lets_other_threads_in(tmp_path):
    assert min(longest_stall(lambda: torch.save(STATE, tmp_path / "state.pt")) for _ in range(3)) < 0.4
    assert min(longest_stall(lambda: dump(tmp_path / "state.pkl")) for _ in range(3)) < 0.4


# GCK-012, GCK-013, GCK-015 in JAX; GCK-014 in TensorFlow


def interpreter(variable, module):
    """Return the interpreter that has `module`."""
    named = os.environ.get(variable)
    if named:
        return named
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed here and {variable} names no interpreter that has it")
    return sys.executable


@pytest.fixture(scope="module")
def jax_found():
    return claim("jax_checkpoint_effects.py", interpreter("TENSORAUDIT_JAX_PYTHON", "jax"))


@pytest.fixture(scope="module")
def tf_found():
    return claim("tf_recompute_grad.py", interpreter("TENSORAUDIT_TF_PYTHON", "tensorflow"))


@pytest.mark.parametrize("callback", ["debug.callback", "debug.callback, ordered"])
def test_jax_runs_a_callback_twice_unless_everything_is_saved(jax_found, callback):
    found = {wrap: list(runs.values()) for wrap, runs in jax_found["effects"][callback].items()}
    twice = [2, 2]
    assert found == {"plain": [1, 1], "checkpoint": twice, "dots_saveable": twice, "everything_saveable": [1, 1]}


def test_a_rematerialised_module_of_flax_makes_its_callback_twice(jax_found):
    if jax_found["modules"] is None:
        pytest.skip("the interpreter with JAX has no Flax")
    assert jax_found["modules"] == {"flax.linen": 2, "flax.nnx": 2}


def test_a_pure_callback_runs_as_often_as_the_compiler_likes(jax_found):
    assert jax_found["effects"]["pure_callback"]["checkpoint"] == {"eager": 2, "jit": 1}


@pytest.mark.parametrize("callback", ["io_callback", "io_callback, ordered"])
def test_jax_refuses_io_callback_in_a_checkpoint_under_every_policy(jax_found, callback):
    effects = dict(jax_found["effects"][callback])
    assert effects.pop("plain") == {"eager": 1, "jit": 1}
    errors = [error for runs in effects.values() for error in runs.values()]
    assert len(errors) == 6
    assert all(name == "NotImplementedError" and "partial-eval" in text for name, text in errors)


def test_a_checkpoint_without_differentiation_keeps_its_io_callback(jax_found):
    assert jax_found["undifferentiated"] == 1


def test_prevent_cse_puts_one_barrier_per_call_and_false_none(jax_found):
    assert jax_found["cse"]["default"] == {"loop": 3, "scan": 1}
    assert jax_found["cse"]["false"] == {"loop": 0, "scan": 0}


def test_a_name_that_nobody_attached_saves_nothing(jax_found):
    saved = jax_found["names"]
    assert {case for case, count in saved.items() if count} == {"right name", "any but another name"}
    assert saved["right name"] == 1


def test_the_body_of_a_scan_is_what_to_checkpoint_in_jax(jax_found):
    """Eight layers of one product forward and two backward: the body costs one more of three, the whole loss saves
    nothing."""
    trade = jax_found["trade"]
    assert trade["loss"]["temp"] == trade["nothing"]["temp"]
    assert trade["body"]["temp"] < 0.7 * trade["nothing"]["temp"]
    assert trade["body"]["flops"] / trade["nothing"]["flops"] == pytest.approx(4 / 3, rel=0.02)


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("case", ["dropout", "keras dropout"])
def test_recompute_grad_draws_another_mask(tf_found, case, mode):
    """Two independent masks at rate 0.5 over 61 units disagree in half of them; 0.064 is one standard deviation."""
    assert tf_found["mismatch"][case][mode] == pytest.approx(0.5, abs=0.25)


def test_a_seed_helps_in_a_graph_only(tf_found):
    found = tf_found["mismatch"]["dropout with a seed"]
    assert found["graph"] == 0
    assert found["eager"] == pytest.approx(0.5, abs=0.25)


@pytest.mark.parametrize("case", ["stateless dropout", "dropout, not wrapped"])
def test_a_stateless_mask_is_the_same_in_both_passes(tf_found, case):
    assert tf_found["mismatch"][case] == {"eager": 0, "graph": 0}


def test_recompute_grad_differentiates_positional_tensors_only(tf_found):
    found = {case: each["recompute_grad"] for case, each in tf_found["gradient"].items()}
    assert found == {"closed over": False, "by keyword": False, "by position": True}
    assert all(each["plain"] for each in tf_found["gradient"].values())


def test_recompute_grad_has_no_second_derivative(tf_found):
    assert tf_found["second order"]["plain"] == [12.0]  # 6 x at x = 2
    assert tf_found["second order"]["recompute_grad"][0] == "NotImplementedError"
