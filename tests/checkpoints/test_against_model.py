"""Names, shapes and dtypes of a checkpoint beside those of its model, checked against what torch itself says."""

from pathlib import Path

import pytest

from tensoraudit.checkpoints.against_model import ModelTensor, against_model
from tensoraudit.checkpoints.schema import Entry, Part, StoredCheckpoint

torch = pytest.importorskip("torch")


SHARES = {"keys_matched", "dtypes_kept"}


def stored(*entries: Entry, framework: str = "pytorch") -> StoredCheckpoint:
    return StoredCheckpoint(Path("w.pt"), Path(), "torch_zip", framework, ("w.pt",), entries)


def entry(name: str, shape: tuple[int, ...] = (2,), dtype: str = "float32", **more: object) -> Entry:
    return Entry(name, dtype, shape, (Part("w.pt", 0, 8),), **more)  # type: ignore[arg-type]


def seen(*observed: object) -> dict[str, list[str]]:
    """Subjects by kind, but for the shares, which stand for the whole."""
    found: dict[str, list[str]] = {}
    for each in observed:
        if each.kind not in SHARES:  # type: ignore[attr-defined]
            found.setdefault(each.kind, []).append(each.subject)  # type: ignore[attr-defined]
    return found


def entries_of(state: dict[str, torch.Tensor]) -> list[Entry]:
    return [entry(name, tuple(value.shape), str(value.dtype).removeprefix("torch.")) for name, value in state.items()]


def model_of(module: torch.nn.Module) -> list[ModelTensor]:
    return [
        ModelTensor(name, str(value.dtype).removeprefix("torch."), tuple(value.shape))
        for name, value in module.state_dict().items()
    ]


def net() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))


def test_a_models_own_state_fits_and_says_so_once():
    module = net()
    names, dtypes = against_model(stored(*entries_of(module.state_dict())), model_of(module))
    assert (names.kind, names.value, dtypes.kind, dtypes.value) == ("keys_matched", 1.0, "dtypes_kept", 1.0)
    assert names.message == "9 of the model's 9 names are in the checkpoint."


def test_missing_and_extra_are_those_that_torch_names():
    module, other = net(), torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3))
    told = other.load_state_dict(module.state_dict(), strict=False)
    found = seen(*against_model(stored(*entries_of(module.state_dict())), model_of(other)))
    assert found.get("key_missing", []) == told.missing_keys
    assert sorted(found["key_extra"]) == sorted(told.unexpected_keys)


def test_a_prefix_matches_nothing_and_is_named():
    module = net()
    state = {f"module.{name}": value for name, value in module.state_dict().items()}
    assert not set(state) & set(module.state_dict())  # so that strict=False loads nothing
    observed = list(against_model(stored(*entries_of(state)), model_of(module)))
    (share,) = [each for each in observed if each.kind in SHARES]  # no dtype to speak of where no name matched
    assert (share.kind, share.value) == ("keys_matched", 0.0)
    assert "without 'module.' on the checkpoint's names, 9 more would be" in share.message
    (back,) = [
        each
        for each in against_model(stored(*entries_of(module.state_dict())), model_of(torch.nn.Sequential(net())))
        if each.kind in SHARES
    ]
    assert "without '0.' on the model's names, 9 more would be" in back.message


@pytest.mark.parametrize(
    ("held", "wanted", "kind"),
    [
        (entry("w", (2, 3)), ModelTensor("w", "float32", (3, 2)), "shape_mismatch"),
        (entry("w", (2, 3)), ModelTensor("w", "float32", (2, 4)), "shape_mismatch"),
        (entry("w", dtype="bfloat16"), ModelTensor("w", "float32", (2,)), "dtype_narrowed"),
        (entry("w", dtype="int32"), ModelTensor("w", "int64", (2,)), "dtype_narrowed"),
        (entry("w", dtype="float32"), ModelTensor("w", "float16", (2,)), "dtype_lost"),
        (entry("w", dtype="int8"), ModelTensor("w", "float32", (2,)), "codes_as_weights"),
        (entry("w", dtype="float8_e4m3fn"), ModelTensor("w", "bfloat16", (2,)), "codes_as_weights"),
        (entry("w"), ModelTensor("w", "float32", (2,), saved=False), "buffer_unexpected"),
    ],
)
def test_one_tensor_that_does_not_fit(held, wanted, kind):
    observed = [each for each in against_model(stored(held), [wanted]) if each.kind not in SHARES]
    assert [(each.kind, each.subject) for each in observed] == [(kind, "w")]


def test_codes_are_meant_where_the_model_has_a_scale():
    held = stored(entry("a.weight", dtype="int8"), entry("a.weight_scale", ()))
    codes, scale = ModelTensor("a.weight", "float32", (2,)), ModelTensor("a.weight_scale", "float32", ())
    assert seen(*against_model(held, [codes, scale])) == {}
    found = seen(*against_model(held, [codes]))  # the file's own scale has no place in this model
    assert found == {"codes_as_weights": ["a.weight"], "key_extra": ["a.weight_scale"]}
    (kept,) = [each for each in against_model(held, [codes, scale]) if each.kind == "dtypes_kept"]
    assert kept.value == 0.5


def test_a_buffer_that_old_versions_saved_is_no_foreign_tensor():
    found = seen(*against_model(stored(entry("a.inv_freq"), entry("b.other")), []))
    assert found == {"buffer_unexpected": ["a.inv_freq"], "key_extra": ["b.other"]}


def test_a_tied_weight_fits_under_either_name():
    tied = ModelTensor("emb.weight", "float32", (2,), also=("head.weight",))
    for held in ([entry("emb.weight")], [entry("head.weight")], [entry("emb.weight"), entry("head.weight")]):
        assert seen(*against_model(stored(*held), [tied])) == {}


def test_states_of_optimisers_are_no_weights_of_the_model():
    held = stored(entry("w"), entry("0.exp_avg", group="optimizer", path=("optimizer", "state")))
    assert seen(*against_model(held, [ModelTensor("w", "float32", (2,))])) == {}


def test_partners_stand_in_for_names_of_another_framework():
    held = stored(entry("dense.kernel", (3, 2)), framework="jax")
    model = [ModelTensor("dense.weight", "float32", (2, 3)), ModelTensor("dense.bias", "float32", (2,))]
    found = seen(*against_model(held, model, {"dense.weight": "dense.kernel"}))
    assert found == {"key_missing": ["dense.bias"]}


def test_axes_of_one_element_are_a_layout_only_between_frameworks():
    """Keras' PReLU with shared axes holds [1, 1, 2] where PyTorch's holds [2]; a zero is no such axis."""
    held = stored(entry("arr_2", (1, 1, 2)), entry("arr_3", (0, 2)), framework="numpy")
    model = [ModelTensor("prelu.weight", "float32", (2,)), ModelTensor("empty", "float32", (2,))]
    found = seen(*against_model(held, model, {"prelu.weight": "arr_2", "empty": "arr_3"}))
    assert found == {"shape_mismatch": ["arr_3"]}
    found = seen(*against_model(held, [ModelTensor("arr_2", "float32", (2,))]))
    assert found == {"shape_mismatch": ["arr_2"], "key_extra": ["arr_3"]}


def test_a_model_without_parameters_misses_nothing():
    (only,) = against_model(stored(), [])
    assert only.value == 1.0
