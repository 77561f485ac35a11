from __future__ import annotations

import _compat_pickle

import pytest
import torch

from tensoraudit.artifacts import globals as allowed
from tensoraudit.artifacts.globals import is_harmless, is_safe_for_torch


def torch_names() -> set[str]:
    return set(torch._weights_only_unpickler._get_allowed_globals())


def test_all_that_torch_allows_is_known_or_listed() -> None:
    """torch 2.13 also allows the tensor types of old (`torch.FloatTensor`), which no file of torch.save names."""
    unknown = {name for name in torch_names() if not is_safe_for_torch(name)}
    assert all(name.endswith("Tensor") or "DTensor" in name for name in unknown), unknown


def test_nothing_is_called_safe_that_torch_refuses() -> None:
    known = torch_names()
    names = {name for name in _candidates() if is_safe_for_torch(name)}
    assert names and names <= known


def _candidates() -> set[str]:
    torch_attributes = {f"torch.{name}" for name in dir(torch)}
    utils = {f"torch._utils.{name}" for name in dir(torch._utils)}
    storages = {f"torch.{folder}.{name}" for folder in ("storage", "cuda") for name in dir(getattr(torch, folder))}
    return torch_attributes | utils | storages | set(allowed._PYTHON)


def test_the_tables_hold_names_of_python_3() -> None:
    """The reader renames those of Python 2, so that one of them here would never be met."""
    for name in allowed._PYTHON | allowed._PLAIN:
        module, _, attribute = name.rpartition(".")
        assert module not in _compat_pickle.IMPORT_MAPPING, name
        assert (module, attribute) not in _compat_pickle.NAME_MAPPING, name


@pytest.mark.parametrize(
    "name",
    [
        "os.system", "posix.system", "builtins.eval", "builtins.exec", "builtins.getattr", "builtins.open", "?", "",
        "torch.load", "torch.jit.load", "torch.hub.load", "torch._utils._rebuild_tensor_v2.x", "torch.FloatStorage\n",
        "torch.nn.modules.linear.Linear", "numpy.load", "numpy.f2py.diagnose.run", "functools.partial",
        "operator.attrgetter", "collections.OrderedDict.fromkeys", "torch._utils._rebuild_tensor_v2 ", "torch..Size",
        "pickle.loads", "torch.float",
        "torch.storage._load_from_bytes", "torch._C._jit_pass_inline", "builtins.object.__subclasses__",
    ],
)  # fmt: skip
def test_what_can_do_harm_is_not_harmless(name: str) -> None:
    assert not is_harmless(name)


@pytest.mark.parametrize(
    "name",
    ["collections.OrderedDict", "torch.float8_e4m3fn", "torch.cuda.HalfStorage", "numpy._core.multiarray.scalar"],
)
def test_what_only_rebuilds_data_is(name: str) -> None:
    assert is_harmless(name)
