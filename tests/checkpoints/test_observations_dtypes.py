"""Dtypes that lose what a tensor is for: what a dtype can hold is tried with torch."""

import pytest

torch = pytest.importorskip("torch")

from tensoraudit.checkpoints import torch_file  # noqa: E402
from tensoraudit.checkpoints.observations import dtypes  # noqa: E402


def observed(folder, state):
    path = folder / "a.pt"
    torch.save(state, path)
    return [(each.kind, each.subject, each.value) for each in dtypes.observe(torch_file.read(path))]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int64])
def test_counters(tmp_path, dtype):
    name = str(dtype).removeprefix("torch.")
    top = {"float16": 2048, "bfloat16": 256}.get(name)
    if top is not None:
        assert torch.tensor(top, dtype=dtype) + 1 == top
        assert torch.tensor(top - 1, dtype=dtype) + 1 == top
    state = {"bn.num_batches_tracked": torch.tensor(3, dtype=dtype), "bn.steps": torch.zeros(2, dtype=dtype)}
    expected = [("half_counter", "bn.num_batches_tracked", name)] if top else []
    assert observed(tmp_path, state) == expected
    if top:
        (found,) = dtypes.observe(torch_file.read(tmp_path / "a.pt"))
        assert f"beyond {top}" in found.message


@pytest.mark.parametrize(("dtype", "found"), [(torch.float16, True), (torch.bfloat16, False), (torch.float32, False)])
def test_second_moments(tmp_path, dtype, found):
    model = torch.nn.Linear(3, 2)
    made = torch.optim.AdamW(model.parameters())
    model.weight.grad, model.bias.grad = torch.full((2, 3), 2e-4), torch.full((2,), 1e-5)
    made.step()
    state = made.state_dict()
    for each in state["state"].values():
        each["exp_avg_sq"] = each["exp_avg_sq"].to(dtype)
    if found:
        assert not state["state"][0]["exp_avg_sq"].any()
    kinds = observed(tmp_path, {"model": model.state_dict(), "optimizer": state})
    names = ["optimizer.state.0.exp_avg_sq", "optimizer.state.1.exp_avg_sq"] if found else []
    assert kinds == [("half_moment", name, "float16") for name in names]


def test_one_layer_of_many_in_another_dtype(tmp_path):
    half, full = torch.zeros(2, dtype=torch.bfloat16), torch.zeros(2)
    layers = {f"layers.{n}.mlp.weight": full if n == 2 else half for n in range(4)}
    norms = {f"layers.{n}.norm.weight": full for n in range(4)}
    assert observed(tmp_path, {**layers, **norms}) == [
        ("uneven_dtypes", "layers.2.mlp.weight", ["float32", "bfloat16"])
    ]


@pytest.mark.parametrize(
    "state",
    [
        {f"layers.{n}.weight": torch.zeros(2) for n in range(4)},
        {f"layers.{n}.weight": torch.zeros(2, dtype=torch.bfloat16 if n % 2 else torch.float32) for n in range(4)},
        {"a.weight": torch.zeros(2), "b.weight": torch.zeros(2).half()},
        {f"layers.{n}.codes": torch.zeros(2, dtype=torch.uint8 if n else torch.float32) for n in range(4)},
    ],
    ids=["equal", "half and half", "different roles", "codes"],
)
def test_dtypes_that_differ_for_a_reason(tmp_path, state):
    assert observed(tmp_path, state) == []
