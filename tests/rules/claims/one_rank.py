"""What happens to two processes when one of them saves alone. Prints JSON: `ok` or error and seconds, by case and rank.

Each case forks two processes after one import of torch, joined by gloo with a time-out of `TIMEOUT` seconds.
"""

import json
import os
import socket
import sys
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

TIMEOUT = 3.0
PATIENCE = timedelta(seconds=120)
"""For processes to find each other, however busy the machine is."""


def sharded(module):
    return FullyShardedDataParallel(module, device_id=torch.device("cpu"))


def fully_sharded(module):
    fully_shard(module)
    return module


def full_state(module):
    return get_model_state_dict(module, options=StateDictOptions(full_state_dict=True))


def full_tensors(module):
    return [each.full_tensor() for each in module.parameters()]


def save_parts(module):
    dcp.save(module.state_dict(), checkpoint_id=tempfile.mkdtemp())


def write(seconds):
    return lambda module: time.sleep(seconds)


CASES = {
    "short write": (DistributedDataParallel, write(0.5)),
    "long write": (DistributedDataParallel, write(TIMEOUT + 2)),
    "FSDP state_dict": (sharded, lambda module: module.state_dict()),
    "fully_shard state_dict": (fully_sharded, lambda module: module.state_dict()),
    "fully_shard full_tensor": (fully_sharded, full_tensors),
    "fully_shard full state dict": (fully_sharded, full_state),
    "DDP state_dict": (DistributedDataParallel, lambda module: module.state_dict()),
    "DDP checkpoint.save": (DistributedDataParallel, save_parts),
}
"""Name to what wraps the module, and to what rank 0 alone does before both meet in a barrier."""


def work(rank, port, case, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2, timeout=PATIENCE)
    wrap, alone = CASES[case]
    module = wrap(torch.nn.Linear(8, 8))
    dist.barrier()
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=TIMEOUT))
    start = time.monotonic()
    try:
        if rank == 0:
            alone(module)
        dist.barrier()
        found = "ok"
    except BaseException as error:  # CheckpointException is no Exception
        found = [type(error).__name__, time.monotonic() - start]
    results.put((rank, found))
    results.close()
    results.join_thread()
    os._exit(0)  # a group that failed cannot be taken down in order


def begin(case):
    """Start both processes of a case: they wait more than they work, so all cases run at once."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = mp.get_context("fork")
    results = context.Queue()
    processes = [context.Process(target=work, args=(rank, port, case, results)) for rank in range(2)]
    for each in processes:
        each.start()
    return processes, results


def end(processes, results):
    found = dict(results.get(timeout=150) for _ in processes)
    for each in processes:
        each.join()
    return [found[0], found[1]]


if __name__ == "__main__":
    begun = {case: begin(case) for case in sys.argv[1:] or CASES}
    print(json.dumps({case: end(*started) for case, started in begun.items()}))
