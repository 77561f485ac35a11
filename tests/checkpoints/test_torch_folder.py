"""Folders with one file of torch.save, whatever its name, and with several."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensoraudit.checkpoints.read import read_checkpoint
from tensoraudit.errors import InputError

torch = pytest.importorskip("torch")

WEIGHTS = {"a.weight": torch.arange(6.0).reshape(2, 3), "a.bias": torch.ones(2)}


@pytest.mark.parametrize(
    "name",
    [
        "diffusion_pytorch_model.bin", "adapter_model.bin", "pytorch_model.fp16.bin", "open_clip_pytorch_model.bin",
        "last.ckpt", "epoch=3-step=8.ckpt", "model.pth", "best.pt", "model_best.pth.tar",
    ],
)  # fmt: skip
@pytest.mark.parametrize("legacy", [False, True])
def test_one_file_under_any_name(tmp_path: Path, name: str, legacy: bool) -> None:
    torch.save(WEIGHTS, tmp_path / name, _use_new_zipfile_serialization=not legacy)
    (tmp_path / "config.json").write_text('{"hidden_size": 3}')
    (tmp_path / "README.md").write_text("words")
    stored = read_checkpoint(tmp_path)
    assert {entry.name: entry.shape for entry in stored.entries} == {"a.weight": (2, 3), "a.bias": (2,)}
    assert (stored.format, stored.files) == ("torch_legacy" if legacy else "torch_zip", (name,))
    assert stored.metadata["config"] == {"hidden_size": 3}
    weight = next(entry for entry in stored.entries if entry.name == "a.weight")
    [part] = weight.parts
    there = (stored.root / part.file).read_bytes()[part.offset : part.offset + part.bytes]
    assert there == WEIGHTS["a.weight"].numpy().tobytes()


def test_state_of_training_beside_it(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    torch.save(model.state_dict(), tmp_path / "adapter.bin")
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    torch.save({"x": 1}, tmp_path / "training_args.bin")
    torch.save({"last_epoch": 1, "_step_count": 2}, tmp_path / "scheduler.pt")
    stored = read_checkpoint(tmp_path)
    assert [entry.group for entry in stored.entries] == ["model"] * 2 + ["optimizer"] * 2
    assert stored.training.optimizers[0].kind == "sgd" and stored.training.scheduler is not None


@pytest.mark.parametrize(
    "name", ["optimizer.pt", "scheduler.pt", "rng_state_0.pth", "scaler.pt", "training_args.bin", "random_states_0.pkl"]
)
def test_state_of_training_alone_is_no_checkpoint(tmp_path: Path, name: str) -> None:
    torch.save({"x": torch.ones(2)}, tmp_path / name)
    with pytest.raises(InputError, match="is no checkpoint"):
        read_checkpoint(tmp_path)


def test_of_several_the_user_has_to_choose(tmp_path: Path) -> None:
    for name in ("last.ckpt", "best.pt"):
        torch.save(WEIGHTS, tmp_path / name)
    with pytest.raises(InputError) as refused:
        read_checkpoint(tmp_path)
    assert refused.value.message == (
        "holds 2 files of torch.save that are no shards of one checkpoint: best.pt, last.ckpt"
    )
    assert refused.value.remedy == "Name one of them."
    for number in range(20):
        torch.save(WEIGHTS, tmp_path / f"more_{number}x.pt")
    with pytest.raises(InputError, match=r"holds 22 files .*, more_16x.pt and 12 more\. Name one"):
        read_checkpoint(tmp_path)


def test_a_file_that_is_none_by_content_does_not_count(tmp_path: Path) -> None:
    torch.save(WEIGHTS, tmp_path / "last.ckpt")
    (tmp_path / "vocab.bin").write_bytes(b"no tensors")
    (tmp_path / "more.pt").mkdir()
    assert read_checkpoint(tmp_path).files == ("last.ckpt",)


def test_weights_under_a_usual_name_come_first(tmp_path: Path) -> None:
    torch.save(WEIGHTS, tmp_path / "adapter_model.bin")
    torch.save({"x": torch.ones(2)}, tmp_path / "extra.pt")
    assert read_checkpoint(tmp_path).files == ("adapter_model.bin",)


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    torch.save(WEIGHTS, tmp_path / "elsewhere.pt")
    (folder / "last.ckpt").symlink_to(tmp_path / "elsewhere.pt")
    with pytest.raises(InputError, match="leads out of"):
        read_checkpoint(folder)
