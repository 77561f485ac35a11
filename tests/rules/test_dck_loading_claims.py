"""What DCK-001 to DCK-012 claim about torch, safetensors, flax and the layouts of shards, tried."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.checkpoints import torch_distributed, torch_file
from tensoraudit.checkpoints.observations import observe_all

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

SCRIPTS = Path(__file__).parent / "claims"
JAX = os.environ.get("TENSORAUDIT_JAX_PYTHON")


def kinds(stored):
    return {each.kind for each in (*stored.observations, *observe_all(stored))}


def result_of(text):
    (line,) = [line for line in text.splitlines() if line.startswith("RESULT ")]
    return json.loads(line.removeprefix("RESULT "))


# DCK-001: the path of the class


def test_a_pickled_module_needs_its_class_where_it_was(tmp_path, monkeypatch):
    (tmp_path / "dck_moved.py").write_text("from torch import nn\nclass Net(nn.Linear): pass\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import dck_moved

    torch.save(dck_moved.Net(2, 2), tmp_path / "a.pt")
    monkeypatch.delitem(sys.modules, "dck_moved")
    (tmp_path / "dck_moved.py").unlink()
    with pytest.raises(ModuleNotFoundError):
        torch.load(tmp_path / "a.pt", weights_only=False)
    assert "refused_imports" in kinds(torch_file.read(tmp_path / "a.pt"))


# DCK-002: strict


def test_what_a_lenient_load_raises_and_what_not():
    net = nn.Linear(3, 2)
    found = net.load_state_dict({"module.weight": torch.zeros(2, 3)}, strict=False)
    assert (len(found.missing_keys), len(found.unexpected_keys)) == (2, 1)
    with pytest.raises(RuntimeError, match="Missing key"):
        net.load_state_dict({"module.weight": torch.zeros(2, 3)})
    with pytest.raises(RuntimeError, match="size mismatch"):
        net.load_state_dict({"weight": torch.zeros(3, 2)}, strict=False)


# DCK-003: names of flax


@pytest.mark.slow
@pytest.mark.skipif(not JAX, reason="TENSORAUDIT_JAX_PYTHON names no interpreter")
def test_the_names_of_lifted_classes():
    run = subprocess.run(
        [JAX, str(SCRIPTS / "dck_flax_names.py")],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    assert run.returncode == 0, run.stderr[-2000:]
    result = result_of(run.stdout)
    assert result == {
        "plain": ["Block_0"],
        "remat": ["CheckpointBlock_0"],
        "checkpoint": ["CheckpointBlock_0"],
        "jit": ["JitBlock_0"],
        "named": ["Block_0"],
        "setup": ["block"],
        "error": "ScopeCollectionNotFound",
        "equal": True,
    }


# DCK-004, DCK-008: what a rank has


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, str(SCRIPTS / "dck_ranks.py")]
    started = [
        subprocess.Popen(
            [*command, str(rank), "2", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    try:
        ended = [process.communicate(timeout=240) for process in started]
    finally:
        for process in started:
            process.kill()
    assert all("RESULT" in out for out, _ in ended), [err[-2000:] for _, err in ended]
    return [result_of(out) for out, _ in ended], folder


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_dtensor_tells_the_shape_of_the_whole_and_holds_a_part(two_ranks):
    (first, second), folder = two_ranks
    assert first["dtensor"] == [[3, 5], [2, 5]]
    assert second["dtensor"] == [[3, 5], [1, 5]]
    stored = torch_file.read(folder / "rank_0.pt")
    assert {entry.name: entry.shape for entry in stored.entries}["weight"] == (3, 5)
    assert "slice_alone" in kinds(stored)
    rows = torch.load(folder / "rank_0.pt", weights_only=False)["weight"]
    assert (tuple(rows.shape), tuple(rows.to_local().shape)) == ((3, 5), (2, 5))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_local_states_and_states_of_rank_0(two_ranks):
    first, second = two_ranks[0]
    assert [first["local"][name] for name in ("0.weight", "0.bias", "1.weight", "1.bias")] == [[15], [3], [6], [0]]
    assert (first["rank0_only"], second["rank0_only"]) == (4, 0)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_flat_parameter_holds_padding(two_ranks):
    first = two_ranks[0][0]
    parameters = sum(each.numel() for each in nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 7)).parameters())
    assert (parameters, first["stored True"]) == (46, [52, 52])
    assert sum(first["pieces"]) == 6
    assert first["stored False"] == [46, 46]


# DCK-005: torch.distributed.checkpoint

SINGLE = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


@pytest.fixture
def distributed(tmp_path):
    import torch.distributed.checkpoint as dcp

    state = {"model": {"weight": torch.full((3, 5), 70000.0), "bias": torch.ones(3)}}
    dcp.save(state, checkpoint_id=tmp_path / "step", no_dist=True)

    def load(state, **options):
        dcp.load(state, checkpoint_id=tmp_path / "step", no_dist=True, **options)
        return state

    return load, tmp_path / "step"


@SINGLE
def test_a_distributed_load_fills_what_it_is_given(distributed):
    load, _ = distributed
    assert load({}) == {}
    assert load({"model": {"weight": torch.zeros(3, 5)}})["model"]["weight"].eq(70000).all()
    half = load({"model": {"weight": torch.zeros(3, 5, dtype=torch.float16)}})["model"]["weight"]
    assert torch.isinf(half).all()


@SINGLE
def test_a_distributed_load_raises_what_except_exception_does_not_catch(distributed):
    from torch.distributed.checkpoint import DefaultLoadPlanner
    from torch.distributed.checkpoint.api import CheckpointException

    load, folder = distributed
    assert not issubclass(CheckpointException, Exception)
    more = {"model": {"weight": torch.zeros(3, 5), "head": torch.zeros(2)}}
    with pytest.raises(CheckpointException):
        load(more)
    with pytest.raises(CheckpointException):
        load({"model": {"weight": torch.zeros(5, 3)}})
    assert not load(more, planner=DefaultLoadPlanner(allow_partial_load=True))["model"]["head"].any()
    assert kinds(torch_distributed.read(folder)) == set()
    next(folder.glob("*.distcp")).unlink()
    assert "file_missing" in kinds(torch_distributed.read(folder))
    with pytest.raises(CheckpointException):
        load({"model": {"weight": torch.zeros(3, 5)}})


@SINGLE
def test_a_distributed_checkpoint_without_its_index(distributed):
    from torch.distributed.checkpoint.api import CheckpointException

    load, folder = distributed
    (folder / ".metadata").unlink()
    assert "unfinished" in kinds(torch_distributed.read(folder))
    with pytest.raises(CheckpointException):
        load({"model": {"weight": torch.zeros(3, 5)}})


# DCK-006: the layouts of ZeRO


def cut(parameters, ranks):
    """The shards of ZeRO-3: each parameter in as many padded pieces as there are ranks."""
    shards = [[] for _ in range(ranks)]
    for flat in (each.ravel() for each in parameters):
        size = -(-flat.size // ranks)
        pieces = np.pad(flat, (0, size * ranks - flat.size)).reshape(ranks, size)
        for shard, piece in zip(shards, pieces, strict=True):
            shard.append(piece)
    return [np.concatenate(shard) for shard in shards]


def merged(shards, shapes):
    found, at = [], 0
    for shape in shapes:
        count = int(np.prod(shape))
        size = -(-count // len(shards))
        found.append(np.concatenate([shard[at : at + size] for shard in shards])[:count].reshape(shape))
        at += size
    return found


def merged_as_one_vector(shards, shapes):
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    flat = np.concatenate(shards)
    return [flat[start:end].reshape(shape) for start, end, shape in zip(ends, ends[1:], shapes, strict=False)]


def test_a_merge_by_another_map_has_the_right_shapes_and_other_numbers():
    generator = np.random.default_rng(0)
    right = [generator.standard_normal((4, 4)), generator.standard_normal((8, 4))]
    shapes = [each.shape for each in right]

    def errors(found):
        assert [each.shape for each in found] == shapes
        return [
            np.linalg.norm(ours - theirs) / np.linalg.norm(theirs) for ours, theirs in zip(found, right, strict=True)
        ]

    two, twelve = cut(right, 2), cut(right, 12)
    assert len({shard.size for shard in twelve}) == 1
    assert errors(merged(two, shapes)) == errors(merged(twelve, shapes)) == [0, 0]
    assert min(errors(merged_as_one_vector(two, shapes))) > 0.8
    by_name = sorted(range(12), key=lambda rank: f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    assert by_name[:4] == [0, 10, 11, 1]
    assert min(errors(merged([twelve[rank] for rank in by_name], shapes))) > 1


# DCK-009, DCK-010: optimizers


def stepped(make, **options):
    net = nn.Linear(3, 2)
    made = make(net.parameters(), **options)
    net.weight.grad, net.bias.grad = torch.ones(2, 3), torch.ones(2)
    made.step()
    return made.state_dict()


def adam():
    net = nn.Linear(3, 2)
    net.weight.grad, net.bias.grad = torch.ones(2, 3), torch.ones(2)
    return net, torch.optim.AdamW(net.parameters(), lr=1e-4)


def test_a_state_in_the_shape_of_lamb_brings_its_learning_rate():
    state = stepped(torch.optim.AdamW)
    for each in state["state"].values():
        each |= {"weight_norm": torch.tensor(1.0), "trust_ratio": torch.tensor(1.0)}
    state["param_groups"][0] |= {"lr": 0.1, "weight_decay": 0}
    net, made = adam()
    before = net.weight.clone()
    made.load_state_dict(state)
    made.step()
    assert made.param_groups[0]["lr"] == 0.1
    net_plain, plain = adam()
    start = net_plain.weight.clone()
    plain.step()
    assert (net.weight - before).norm() > 500 * (net_plain.weight - start).norm()


@pytest.mark.parametrize(
    ("state", "at_load", "at_step"),
    [
        (stepped(torch.optim.SGD, lr=0.1, momentum=0.9), "step", None),
        (stepped(torch.optim.SGD, lr=0.1), None, "betas"),
        (stepped(torch.optim.RMSprop), None, "betas"),
    ],
    ids=["momentum", "plain", "rmsprop"],
)
def test_another_optimizers_state_in_adam(state, at_load, at_step):
    _, made = adam()
    if at_load:
        with pytest.raises(KeyError, match=at_load):
            made.load_state_dict(state)
        return
    made.load_state_dict(state)
    with pytest.raises(KeyError, match=at_step):
        made.step()


def test_adams_state_in_another_optimizer():
    net, _ = adam()
    sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    sgd.load_state_dict(stepped(torch.optim.AdamW))
    with pytest.raises(KeyError, match="momentum"):
        sgd.step()
    fits = torch.optim.Adam(net.parameters())
    fits.load_state_dict(stepped(torch.optim.AdamW))
    fits.step()


def test_a_state_goes_to_the_parameter_at_its_position():
    q, k = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    saved = torch.optim.AdamW([("q", q.weight), ("k", k.weight)])
    q.weight.grad, k.weight.grad = torch.ones(2, 2), torch.full((2, 2), 2.0)
    saved.step()
    moment = saved.state[q.weight]["exp_avg"].clone()
    fresh = torch.optim.AdamW([("k", k.weight), ("q", q.weight)])
    fresh.load_state_dict(saved.state_dict())
    assert torch.equal(fresh.state[k.weight]["exp_avg"], moment)
    assert json.loads(json.dumps({0: 1})) == {"0": 1}


# DCK-011: tied weights


class Tied(nn.Module):
    def __init__(self, tied=True):
        super().__init__()
        self.embed, self.lm_head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        if tied:
            self.lm_head.weight = self.embed.weight


def test_what_the_ways_to_save_make_of_a_tied_weight(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    path = str(tmp_path / "a.safetensors")
    with pytest.raises(RuntimeError, match="share memory"):
        safetensors.save_file(Tied().state_dict(), path)
    safetensors.save_model(Tied(), path)
    with pytest.raises(RuntimeError, match="Missing key"):
        safetensors.load_model(Tied(tied=False), path)
    missing, unexpected = safetensors.load_model(Tied(), path)
    assert (set(missing), unexpected) == (set(), [])
    torch.save(Tied().state_dict(), tmp_path / "a.pt")
    loaded = torch.load(tmp_path / "a.pt")
    assert loaded["embed.weight"].data_ptr() == loaded["lm_head.weight"].data_ptr()


# DCK-012: dtypes


@pytest.mark.parametrize(("assign", "dtype"), [(False, torch.float16), (True, torch.float32)])
def test_a_load_casts_unless_it_assigns(assign, dtype):
    net = nn.Linear(2, 2).half()
    weight = torch.tensor([[1e5, 1.0], [1e-9, 2.0]])
    net.load_state_dict({"weight": weight, "bias": torch.zeros(2)}, assign=assign)
    assert net.weight.dtype == dtype
    expected = [[torch.inf, 1], [0, 2]] if dtype is torch.float16 else weight.tolist()
    assert net.weight.tolist() == expected


def test_moments_follow_the_dtype_of_their_parameter():
    net = nn.Linear(3, 2).bfloat16()
    made = torch.optim.AdamW(net.parameters())
    made.load_state_dict(stepped(torch.optim.AdamW))
    assert made.state[net.weight]["exp_avg_sq"].dtype == torch.bfloat16
    assert made.state[net.weight]["step"].dtype == torch.float32
