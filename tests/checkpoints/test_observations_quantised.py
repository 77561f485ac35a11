"""Codes that only a scale makes weights of, in files of torch and with the names that quantisers write."""

import pytest

torch = pytest.importorskip("torch")

from tensoraudit.checkpoints.observations import quantised  # noqa: E402
from tensoraudit.checkpoints.torch_file import read  # noqa: E402

INT8 = torch.zeros(4, 3, dtype=torch.int8)
FLOAT8 = torch.zeros(4, 3, dtype=torch.float8_e4m3fn)
SCALE = torch.ones(4)


def seen(folder, tensors):
    torch.save(tensors, folder / "a.pt")
    return [(each.kind, each.subject, each.value) for each in quantised.observe(read(folder / "a.pt"))]


@pytest.mark.parametrize(
    "scale",
    ["fc.SCB", "fc.weight_scale", "fc.weight_scale_inv", "fc.scale_weight", "fc.weight.absmax", "fc.scales"],
)
def test_a_scale_beside_the_codes(scale, tmp_path):
    assert seen(tmp_path, {"fc.weight": INT8, scale: SCALE}) == [("codes_with_scale", "fc.weight", [scale])]


@pytest.mark.parametrize(("codes", "dtype"), [(INT8, "int8"), (FLOAT8, "float8_e4m3fn")])
def test_codes_without_a_scale(codes, dtype, tmp_path):
    assert seen(tmp_path, {"fc.weight": codes}) == [("codes_without_scale", "fc.weight", dtype)]
    assert seen(tmp_path, {"weight": codes, "weight_scale": SCALE})[0][0] == "codes_with_scale"


def test_one_layer_without_the_scale_that_another_has(tmp_path):
    tensors = {"a.weight": FLOAT8, "a.weight_scale": SCALE, "b.weight": FLOAT8}
    assert seen(tmp_path, tensors) == [
        ("codes_with_scale", "a.weight", ["a.weight_scale"]),
        ("scale_missing", "b.weight", "float8_e4m3fn"),
    ]


@pytest.mark.parametrize(
    "tensors",
    [
        {"fc.weight": torch.zeros(4, 3)},
        {"table.weight": torch.zeros(4, dtype=torch.int8)},
        {"ids": INT8},
        {"fc.qweight": torch.zeros(4, 3, dtype=torch.int32), "fc.scales": SCALE},
        {"mask.weight": torch.zeros(4, 3, dtype=torch.int64)},
    ],
)
def test_what_is_no_code(tensors, tmp_path):
    assert seen(tmp_path, tensors) == []
