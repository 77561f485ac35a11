"""What orbax brings back without a target and on fewer devices, and how far a Flax layer is off whose arrays were not
moved. Run with FOLDER and the number of devices: the first run (4) writes, later ones restore. The last line of stdout
is JSON."""

import json
import os
import sys
from pathlib import Path

FOLDER, DEVICES = Path(sys.argv[1]).absolute(), int(sys.argv[2])
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
os.environ["JAX_PLATFORMS"] = "cpu"

try:
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax
    import orbax.checkpoint as ocp
    import torch
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
except ImportError as error:
    print(json.dumps({"missing": str(error)}))
    sys.exit(0)

ROWS = {"orbax": ocp.__version__}
MESH = Mesh(np.array(jax.devices()), ("x",))
TX = optax.adam(1e-3)


def state():
    rows = NamedSharding(MESH, PartitionSpec("x"))
    params = {"dense": {"kernel": jax.device_put(jnp.arange(32.0).reshape(8, 4), rows)}}
    return {"params": params, "opt": TX.init(params), "pair": (jnp.zeros(2), jnp.ones(3)), "step": 3}


def attempt(work):
    try:
        return work()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:80]}"


def save():
    with ocp.StandardCheckpointer() as saver:
        saver.save(FOLDER / "standard", state())
    moments = {0: {"exp_avg": torch.zeros(2), "step": torch.tensor(1.0)}, 1: {"exp_avg": torch.ones(2)}}
    tree = {"optimizer": {"state": moments, "pair": (1, 2)}, "step": 3}
    with ocp.StandardCheckpointer() as saver:
        saver.save(FOLDER / "torch", tree)
    ROWS["tensors_in_a_pytree"] = attempt(lambda: ocp.PyTreeCheckpointer().save(FOLDER / "pytree", tree))
    with ocp.CheckpointManager(FOLDER / "steps") as manager:
        saved = [manager.save(step, args=ocp.args.StandardSave({"step": step})) for step in (8, 10, 4, 10)]
        manager.wait_until_finished()
    ROWS["saved"] = saved


def restore():
    saver = ocp.StandardCheckpointer()
    found = attempt(lambda: saver.restore(FOLDER / "standard"))
    if isinstance(found, str):
        ROWS["plain"] = found
    else:
        ROWS["plain"] = {key: type(found[key]).__name__ for key in ("opt", "pair")}
        ROWS["plain"]["moments"] = type(found["opt"][0]).__name__
        gradients = jax.tree.map(jnp.ones_like, found["params"])
        ROWS["update"] = attempt(lambda: bool(TX.update(gradients, found["opt"], found["params"])))
    target = jax.tree.map(ocp.utils.to_shape_dtype_struct, state())
    found = attempt(lambda: saver.restore(FOLDER / "standard", target))
    ROWS["target"] = found if isinstance(found, str) else type(found["opt"][0]).__name__
    halves = jax.tree.map(lambda each: each.astype(jnp.bfloat16) if hasattr(each, "astype") else each, state())
    target = jax.tree.map(ocp.utils.to_shape_dtype_struct, halves)
    found = attempt(lambda: saver.restore(FOLDER / "standard", target))
    ROWS["halves"] = found if isinstance(found, str) else str(found["params"]["dense"]["kernel"].dtype)
    back = saver.restore(FOLDER / "torch")["optimizer"]
    ROWS["keys"], ROWS["tuple"] = sorted(back["state"]), type(back["pair"]).__name__
    ROWS["tensor"] = type(back["state"]["0"]["exp_avg"]).__module__.partition(".")[0]
    ROWS["loaded"] = loaded(back["state"])
    ROWS["process"] = [jax.process_index(), jax.process_count()]


def loaded(moments):
    """The number of parameters that a torch optimiser has state for, after it loaded the moments."""
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(2))])
    tree = {"state": moments, "param_groups": optimizer.state_dict()["param_groups"]}
    ended = attempt(lambda: optimizer.load_state_dict(tree))
    parameters = optimizer.param_groups[0]["params"]
    return ended or sum(bool(optimizer.state.get(each)) for each in parameters)


def relative(wanted, found):
    return float(np.linalg.norm(wanted - found) / np.linalg.norm(wanted))


def flax():
    torch.manual_seed(0)
    x = torch.randn(4, 3, 9, 9)
    conv = torch.nn.Conv2d(3, 3, 3, bias=False)
    wanted = conv(x).detach().numpy()
    layer = nn.Conv(3, (3, 3), padding="VALID", use_bias=False)
    weight = conv.weight.detach().numpy()
    for name, order in (("conv_raw", (0, 1, 2, 3)), ("conv_moved", (2, 3, 1, 0))):
        found = layer.apply({"params": {"kernel": weight.transpose(order)}}, x.numpy().transpose(0, 2, 3, 1))
        ROWS[name] = relative(wanted, np.array(found).transpose(0, 3, 1, 2))
    norm = nn.BatchNorm(use_running_average=True)
    variables = norm.init(jax.random.key(0), jnp.zeros((1, 3)))
    ROWS["statistics"] = {name: np.array(each).tolist() for name, each in variables["batch_stats"].items()}
    ROWS["epsilon"] = norm.epsilon


if DEVICES == 4:
    save()
restore()
flax()
print(json.dumps(ROWS))
