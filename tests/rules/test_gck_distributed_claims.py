"""What the rules on checkpointing claim about several processes, tried with gloo on the CPU: DistributedDataParallel in
a group of one, FullyShardedDataParallel in a group of two."""

import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

START = """
import json, sys, warnings
from datetime import timedelta
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint
warnings.simplefilter("ignore")
rank, world = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
place = {"init_method": "file://" + sys.argv[3], "rank": rank, "world_size": world}
dist.init_process_group("gloo", timeout=timedelta(seconds=60), **place)
torch.manual_seed(0)
"""
END = """
print("RESULT " + json.dumps(result))
dist.destroy_process_group()
"""


def ranks(code, world, folder):
    """Run `code` in a group of `world` processes; return what each left in `result`."""
    script = folder / "ranks.py"
    script.write_text(START + code + END, encoding="utf-8")
    command = [sys.executable, str(script)]
    started = [
        subprocess.Popen(
            [*command, str(rank), str(world), str(folder / "group")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    try:
        ended = [process.communicate(timeout=240) for process in started]
    finally:
        for process in started:
            process.kill()
    lines = [next((line for line in out.splitlines() if line.startswith("RESULT ")), None) for out, _ in ended]
    assert all(lines), [err[-2000:] for _, err in ended]
    return [json.loads(line.removeprefix("RESULT ")) for line in lines]


# GCK-008

COMBINATIONS = """
from torch.nn.parallel import DistributedDataParallel

class Net(nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.first, self.shared, self.calls = nn.Linear(5, 5), nn.Linear(5, 5), calls

    def forward(self, x):
        x = self.first(x)
        for variant in self.calls:
            x = self.shared(x) if variant is None else checkpoint(self.shared, x, use_reentrant=variant)
        return x

def outcome(calls, unused, static):
    net = DistributedDataParallel(Net(calls), find_unused_parameters=unused, static_graph=static)
    try:
        for _ in range(2):
            net(torch.ones(3, 5)).sum().backward()
    except RuntimeError as error:
        return "twice" if "mark a variable ready only once" in str(error) else str(error)
    return "ok"

result = [
    [calls, unused, static, outcome(calls, unused, static)]
    for calls in ([True], [True, True], [True, None], [False], [False, False])
    for unused in (False, True)
    for static in (False, True)
]
"""


def test_ddp_refuses_reentrant_checkpoints_with_unused_parameters_or_used_twice(tmp_path):
    (found,) = ranks(COMBINATIONS, 1, tmp_path)
    for calls, unused, static, outcome in found:
        refused = calls[0] and not static and (unused or len(calls) == 2)
        assert outcome == ("twice" if refused else "ok"), (calls, unused, static)


# GCK-009

GATHERS = """
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from torch.distributed.fsdp import FullyShardedDataParallel

calls = {"n": 0}

def counted(gather):
    def call(*args, **kwargs):
        calls["n"] += 1
        return gather(*args, **kwargs)

    return call

dist.all_gather = counted(dist.all_gather)  # what FSDP calls on the CPU; the other one on devices
dist.all_gather_into_tensor = counted(dist.all_gather_into_tensor)
OLD, NEW = CheckpointImpl.REENTRANT, CheckpointImpl.NO_REENTRANT
WRAPS = {
    "none": lambda b: sharded(b),
    "outside, reentrant": lambda b: checkpoint_wrapper(sharded(b), checkpoint_impl=OLD),
    "outside": lambda b: checkpoint_wrapper(sharded(b), checkpoint_impl=NEW),
    "inside, reentrant": lambda b: sharded(checkpoint_wrapper(b, checkpoint_impl=OLD)),
    "inside": lambda b: sharded(checkpoint_wrapper(b, checkpoint_impl=NEW)),
}

def sharded(module):
    return FullyShardedDataParallel(module, device_id=torch.device("cpu"))

def step(wrap):
    torch.manual_seed(0)
    net = sharded(nn.Sequential(*[wrap(nn.Linear(6, 6)) for _ in range(3)]))
    x = torch.ones(2, 6, requires_grad=True)
    calls["n"] = 0
    net(x).square().sum().backward()
    return calls["n"], x.grad.sum().item()

result = {name: step(wrap) for name, wrap in WRAPS.items()}
"""


def test_a_reentrant_checkpoint_outside_gathers_three_times(tmp_path):
    for found in ranks(GATHERS, 2, tmp_path):
        counts = {name: count for name, (count, _) in found.items()}
        assert counts == {"none": 6, "outside, reentrant": 9, "outside": 6, "inside, reentrant": 6, "inside": 6}
        assert len({gradient for _, gradient in found.values()}) == 1


# GCK-007

SCALERS = """
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.tensor import DTensor

def step(make, scaler):
    net = nn.Linear(6, 6, bias=False)
    net = make(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    def local(p):
        p = p.grad if p.grad is not None else p
        return p.to_local() if isinstance(p, DTensor) else p
    scaler.scale(net(torch.ones(2, 6)).square().sum()).backward()
    (p,) = net.parameters()
    if rank == 1:
        local(p).view(-1)[0] = float("inf")
    before = (p.to_local() if isinstance(p, DTensor) else p).detach().clone()
    scaler.step(optimizer)
    scaler.update()
    after = (p.to_local() if isinstance(p, DTensor) else p).detach()
    return not torch.equal(before, after), scaler.get_scale()

def fsdp1(net):
    return FullyShardedDataParallel(net, device_id=torch.device("cpu"), use_orig_params=False)

def fsdp2(net):
    fully_shard(net, mesh=dist.device_mesh.init_device_mesh("cpu", (world,)))
    return net

plain = lambda: torch.amp.GradScaler("cpu", init_scale=1024)
result = {
    "fsdp1": step(fsdp1, plain()),
    "sharded": step(fsdp1, ShardedGradScaler("cpu", init_scale=1024)),
    "fsdp2": step(fsdp2, plain()),
}
"""


def test_a_plain_scaler_lets_the_ranks_of_fsdp1_part(tmp_path):
    first, second = ranks(SCALERS, 2, tmp_path)
    assert (first["fsdp1"], second["fsdp1"]) == ([True, 1024.0], [False, 512.0])
    for name in ("sharded", "fsdp2"):
        assert first[name] == second[name] == [False, 512.0]
