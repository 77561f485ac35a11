"""Names with the attribute of a wrapper: the files are saved from real wrappers."""

import pytest

torch = pytest.importorskip("torch")

from dataclasses import replace  # noqa: E402

from torch import nn  # noqa: E402

from tensoraudit.checkpoints import torch_file  # noqa: E402
from tensoraudit.checkpoints.observations import prefixes  # noqa: E402


def net():
    return nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 7))


def observed(folder, state):
    path = folder / "a.pt"
    torch.save(state, path)
    return [(each.kind, each.subject, each.value) for each in prefixes.observe(torch_file.read(path))]


def half_compiled():
    model = net()
    model[1] = torch.compile(model[1])
    return model


def in_place():
    model = net()
    model.compile()
    return model


def wrapped_in_checkpoint():
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    return nn.Sequential(checkpoint_wrapper(nn.Linear(5, 3)), nn.Linear(3, 7))


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.module, self.head = net(), nn.Linear(7, 2)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (net, []),
        (in_place, []),
        (wrapped_in_checkpoint, []),
        (Holder, []),
        (lambda: torch.compile(net()), [("wrapper_prefix", "_orig_mod", 4)]),
        (half_compiled, [("wrapper_prefix", "_orig_mod", 2)]),
        (lambda: nn.DataParallel(net()), [("module_prefix", "checkpoint", 4)]),
        (lambda: torch.optim.swa_utils.AveragedModel(net()), []),
        (
            lambda: nn.DataParallel(torch.compile(net())),
            [("wrapper_prefix", "_orig_mod", 4), ("module_prefix", "checkpoint", 4)],
        ),
    ],
)
def test_names_of_wrappers(tmp_path, make, expected):
    model = make()
    assert observed(tmp_path, model.state_dict()) == expected
    bare = Holder() if isinstance(model, Holder) else net()
    assert (set(bare.state_dict()) == set(model.state_dict())) is (
        expected == [] and "AveragedModel" not in str(type(model))
    )


def test_each_set_of_weights_is_looked_at(tmp_path):
    found = observed(tmp_path, {"model": nn.DataParallel(net()).state_dict(), "other": net().state_dict()})
    assert found == [("module_prefix", "model", 4)]


def test_names_of_lifted_classes(tmp_path):
    """The names are those that flax 0.12.8 gives, which tests/rules measures."""
    path = tmp_path / "a.pt"
    names = ["CheckpointBlock_0.Dense_0.kernel", "JitBlock_12/Dense_0/kernel", "Block_0.kernel", "Jitter_0.kernel"]
    torch.save({name: torch.zeros(2) for name in [*names, "CheckpointBlock_0.Dense_0.bias", "CheckpointBlock.b"]}, path)
    stored = torch_file.read(path)
    assert list(prefixes.observe(stored)) == []
    found = list(prefixes.observe(replace(stored, framework="jax")))
    assert [(each.subject, each.value) for each in found] == [("CheckpointBlock_0", 2), ("JitBlock_12", 1)]
    assert {each.kind for each in found} == {"lifted_names"}
    assert "2 names hold" in found[0].message
    assert "1 name holds" in found[1].message
