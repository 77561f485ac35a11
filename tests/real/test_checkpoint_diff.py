"""Weights that people use, in the formats in which they are shipped: which of them are the same."""

import importlib.util
from pathlib import Path

import pytest

from tensoraudit.checkpoints.diff import diff_checkpoints
from tensoraudit.checkpoints.read import read_checkpoint


def folder_of(package):
    found = importlib.util.find_spec(package)
    if found is None:
        pytest.skip(f"needs {package} (requirements/real-models.txt)")
    [folder] = found.submodule_search_locations
    return Path(folder)


def compare(one, other, **how):
    return diff_checkpoints(read_checkpoint(one), read_checkpoint(other), values=True, **how)


def test_silero_torchscript_and_onnx_hold_the_same_weights():
    data = folder_of("silero_vad") / "data"
    found = compare(data / "silero_vad.jit", data / "silero_vad_16k_op15.onnx")
    paired = {pair.reference: pair.status for pair in found.pairs if pair.reference and pair.candidate}
    assert len(paired) == 15 and set(paired.values()) == {"equal"}
    alone = [pair.reference for pair in found.pairs if pair.status == "missing"]
    assert sum(name.startswith("_model_8k.") for name in alone) == 15


def test_silero_safetensors_hold_other_weights():
    """Of the same network; torch.equal on both files agrees: only the basis of the transform is the same."""
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    data = folder_of("silero_vad") / "data"
    found = compare(data / "silero_vad_16k.safetensors", data / "silero_vad_16k_op15.onnx", by_value=True)
    status = {pair.reference: pair.status for pair in found.pairs if pair.reference}
    ours = safetensors.load_file(data / "silero_vad_16k.safetensors")
    theirs = torch.jit.load(data / "silero_vad.jit").state_dict()
    equal = {name for name, one in ours.items() for two in theirs.values() if torch.equal(one, two)}
    assert {name for name, each in status.items() if each == "equal"} == equal == {"stft_conv.weight"}
    assert len(status) == len(ours) == 15


def test_basic_pitch_variables_are_initializers_of_its_onnx_file():
    """Four kernels as they are but for their layout, two into which a normalisation was folded."""
    folder = folder_of("basic_pitch") / "saved_models" / "icassp_2022"
    found = compare(folder / "nmp", folder / "nmp.onnx", by_value=True)
    kernels = {
        pair.reference: pair
        for pair in found.pairs
        if pair.reference.endswith("/kernel") and len(pair.shapes[0]) == 4 and pair.candidate
    }
    same = {name for name, pair in kernels.items() if pair.status == "permuted"}
    folded = {name for name, pair in kernels.items() if "times a factor" in pair.note}
    assert same == {f"layer_with_weights-{n}/kernel" for n in (3, 4, 7, 8)}
    assert folded == {f"layer_with_weights-{n}/kernel" for n in (1, 5)}
    assert all(kernels[name].permutation == (3, 2, 0, 1) and kernels[name].verdict == "identical" for name in same)
