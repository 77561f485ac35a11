"""What torch.load refuses: every file is put to torch itself."""

import argparse
import collections
import datetime
import pathlib
import types

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tensoraudit.checkpoints import torch_file  # noqa: E402
from tensoraudit.checkpoints.observations import imports  # noqa: E402

WEIGHTS = {"weight": torch.arange(6.0).reshape(2, 3)}
LINEAR = torch.nn.Linear(3, 2)
OPTIMIZER = torch.optim.AdamW(LINEAR.parameters())
BESIDE = {
    "nothing": None,
    "namespace": argparse.Namespace(lr=1),
    "simple namespace": types.SimpleNamespace(lr=1),
    "defaultdict": collections.defaultdict(int),
    "numpy scalar": np.float64(1),
    "numpy array": np.zeros(2),
    "path": pathlib.PurePosixPath("a"),
    "datetime": datetime.datetime(2026, 1, 1),
    "function": torch.nn.functional.relu,
    "module": LINEAR,
    "ordered": collections.OrderedDict(a=1),
    "counter": collections.Counter("ab"),
    "set": {1},
    "parameter": torch.nn.Parameter(torch.zeros(1)),
    "size": torch.Size([2]),
    "device": torch.device("cpu"),
    "dtype": torch.bfloat16,
    "random state": torch.get_rng_state(),
    "optimizer": OPTIMIZER.state_dict(),
    "schedule": torch.optim.lr_scheduler.StepLR(OPTIMIZER, 3).state_dict(),
}


def loads(path):
    try:
        torch.load(path)
    except Exception as error:
        assert "Weights only load failed" in str(error)
        return False
    return True


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
@pytest.mark.parametrize("beside", BESIDE)
def test_as_torch_decides(tmp_path, beside, legacy):
    path = tmp_path / "a.pt"
    torch.save({"model": WEIGHTS, "more": BESIDE[beside]}, path, _use_new_zipfile_serialization=not legacy)
    found = list(imports.observe(torch_file.read(path)))
    assert (found == []) is loads(path)
    for each in found:
        assert (each.kind, each.subject) == ("refused_imports", "checkpoint")
        assert each.value[0] in each.message
        assert ("a pickled module" in each.message) is (beside == "module")


def test_more_than_a_sentence_holds(tmp_path):
    path = tmp_path / "a.pt"
    torch.save({"model": WEIGHTS, "more": list(BESIDE.values())}, path)
    (found,) = imports.observe(torch_file.read(path))
    assert set(found.value) == set(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    assert found.message.count(", ") == 3
    assert f"and {len(found.value) - 3} more" in found.message
