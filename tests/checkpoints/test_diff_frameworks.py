"""One model's weights as the frameworks themselves store them: every tensor must find its partner and be equal."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.checkpoints.diff import diff_checkpoints
from tensoraudit.checkpoints.read import read_checkpoint

torch = pytest.importorskip("torch")

COUNTER = "bn1.num_batches_tracked"


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 5, 7)
        self.bn1 = torch.nn.BatchNorm2d(5)
        self.conv2 = torch.nn.Conv2d(5, 5, 5)
        self.fc1 = torch.nn.Linear(13 * 13 * 5, 11)
        self.fc2 = torch.nn.Linear(11, 11)
        self.head = torch.nn.Linear(11, 13)

    def forward(self, x):
        return self.head(self.fc2(self.fc1(self.conv2(self.bn1(self.conv1(x))).flatten(1))))


@pytest.fixture(scope="module")
def state():
    torch.manual_seed(0)
    model = Model()
    for tensor in (model.bn1.weight, model.bn1.bias, model.bn1.running_mean, model.bn1.running_var):
        tensor.data.uniform_(0.5, 2)
    return model.state_dict()


@pytest.fixture
def reference(state, tmp_path):
    torch.save(state, tmp_path / "reference.pt")
    return read_checkpoint(tmp_path / "reference.pt")


def write_safetensors(state, path):
    from safetensors.torch import save_file

    save_file(state, path)


def write_distributed(state, path):
    import torch.distributed.checkpoint as dcp

    dcp.save({"model": state}, checkpoint_id=path, no_dist=True)


def write_npz(state, path):
    np.savez_compressed(path, **{name: tensor.numpy() for name, tensor in state.items()})


def write_onnx(state, path):
    import onnx
    from onnx import numpy_helper

    tensors = [numpy_helper.from_array(tensor.numpy(), name) for name, tensor in state.items()]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], tensors)), path)


FORMATS = {
    "zip.pt": torch.save,
    "legacy.pt": lambda state, path: torch.save(state, path, _use_new_zipfile_serialization=False),
    "wrapped.pt": lambda state, path: torch.save({"model": {f"module.{k}": v for k, v in state.items()}}, path),
    "compiled.pt": lambda state, path: torch.save({f"_orig_mod.{k}": v for k, v in state.items()}, path),
    "w.safetensors": write_safetensors,
    "dcp": write_distributed,
    "w.npz": write_npz,
    "w.onnx": write_onnx,
}


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
@pytest.mark.parametrize("name", FORMATS)
def test_formats_that_keep_names_and_layouts(reference, state, tmp_path, name):
    FORMATS[name](state, tmp_path / name)
    found = diff_checkpoints(reference, read_checkpoint(tmp_path / name), values=True)
    assert {pair.reference: (pair.status, pair.verdict) for pair in found.pairs} == dict.fromkeys(
        state, ("equal", "identical")
    )


@pytest.fixture(scope="module")
def others(state, tmp_path_factory):
    python = os.environ.get("TENSORAUDIT_TF_PYTHON")
    if not python:
        pytest.skip("TENSORAUDIT_TF_PYTHON names no interpreter that has TensorFlow and Flax")
    folder = tmp_path_factory.mktemp("frameworks")
    np.savez(folder / "weights.npz", **{name: tensor.numpy() for name, tensor in state.items()})
    script = Path(__file__).with_name("diff_files.py")
    done = subprocess.run([python, str(script), str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    return folder


def expected_of(state):
    orders = {4: ("permuted", (2, 3, 1, 0)), 2: ("permuted", (1, 0)), 1: ("equal", ())}
    return {name: orders[tensor.ndim] for name, tensor in state.items() if name != COUNTER}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["named.weights.h5", "named.keras", "named.msgpack"])
def test_layers_of_one_name(reference, others, state, name):
    found = diff_checkpoints(reference, read_checkpoint(others / name), values=True)
    assert {p.reference: (p.status, p.permutation) for p in found.pairs if p.reference != COUNTER} == expected_of(state)
    assert {pair.by for pair in found.pairs} <= {"name", "prefix", "convention", ""}


@pytest.mark.slow
def test_a_bundle_is_paired_by_the_shapes_of_layers_or_by_names(reference, others, state):
    found = diff_checkpoints(reference, read_checkpoint(others / "named_bundle"), values=True)
    assert {p.reference: (p.status, p.permutation) for p in found.pairs if p.reference != COUNTER} == expected_of(state)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["auto.keras", "auto.weights.h5", "auto.msgpack", "auto_bundle", "saved_model"])
def test_layers_of_other_names_are_paired_by_value(reference, others, state, name):
    found = diff_checkpoints(reference, read_checkpoint(others / name), values=True, by_value=True)
    pairs = [pair for pair in found.pairs if pair.reference and pair.reference != COUNTER]
    assert {pair.reference: (pair.status, pair.permutation) for pair in pairs} == expected_of(state)


@pytest.mark.slow
def test_one_wrong_element_in_another_framework(reference, others, state):
    """The kernel of the square convolution, changed by a hundredth in one place of the stored file."""
    path = others / "changed.msgpack"
    content = bytearray((others / "named.msgpack").read_bytes())
    kernel = np.ascontiguousarray(state["conv2.weight"].numpy().transpose(2, 3, 1, 0))
    at = content.find(kernel.tobytes()) + 4 * 77
    changed = kernel.reshape(-1)[77] + np.float32(0.01)
    content[at : at + 4] = np.float32(changed).tobytes()
    path.write_bytes(content)
    found = diff_checkpoints(reference, read_checkpoint(path), values=True)
    assert [pair.reference for pair in found.pairs if pair.status == "different"] == ["conv2.weight"]


def test_the_main_process_imports_no_framework(state, tmp_path):
    torch.save(state, tmp_path / "a.pt")
    code = (
        "import sys; from pathlib import Path\n"
        "from tensoraudit.checkpoints.diff import diff_checkpoints\n"
        "from tensoraudit.checkpoints.read import read_checkpoint\n"
        f"one = read_checkpoint(Path({str(tmp_path / 'a.pt')!r}))\n"
        "assert {p.status for p in diff_checkpoints(one, one, values=True, by_value=True).pairs} == {'equal'}\n"
        "print(sorted({'torch', 'onnx', 'tensorflow', 'jax', 'h5py', 'safetensors'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
