"""What each of two gloo processes has of a sharded model, and the files that it saves; printed as JSON.

Arguments: rank, number of processes, folder.
"""

import json
import sys
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel, StateDictType, fully_shard

warnings.simplefilter("ignore")
rank, world, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
torch.set_num_threads(1)
place = {"init_method": f"file://{folder}/group", "rank": rank, "world_size": world}
dist.init_process_group("gloo", timeout=timedelta(seconds=60), **place)
torch.manual_seed(0)
result = {}

model = nn.Linear(5, 3)
fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
weight = model.state_dict()["weight"]
result["dtensor"] = [list(weight.shape), list(weight.to_local().shape)]
torch.save(model.state_dict(), folder / f"rank_{rank}.pt")

for padded in (True, False):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 7))
    wide = FullyShardedDataParallel(net, device_id=torch.device("cpu"), use_orig_params=padded)
    flat = wide._handle.flat_param
    result[f"stored {padded}"] = [flat._unpadded_unsharded_size.numel(), flat.numel() * world]
    if padded:
        result["pieces"] = [
            size
            for size, is_padding in zip(flat._numels_with_padding, flat._is_padding_mask, strict=True)
            if is_padding
        ]
        with FullyShardedDataParallel.state_dict_type(wide, StateDictType.LOCAL_STATE_DICT):
            result["local"] = {name: list(each.shape) for name, each in wide.state_dict().items()}
        config = FullStateDictConfig(rank0_only=True)
        with FullyShardedDataParallel.state_dict_type(wide, StateDictType.FULL_STATE_DICT, config):
            result["rank0_only"] = len(wide.state_dict())
dist.barrier()
print("RESULT " + json.dumps(result))
dist.destroy_process_group()
