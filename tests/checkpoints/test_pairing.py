"""Which tensor is which: names, prefixes, conventions, shapes, and that wrong pairs are not made."""

import sys
from pathlib import Path

import pytest

from tensoraudit.checkpoints.naming import convention_key, unwrapped, wrapping
from tensoraudit.checkpoints.pairing import pair_by_names
from tensoraudit.checkpoints.schema import Entry, OptimizerState, Part, StoredCheckpoint, TrainingState
from tensoraudit.checkpoints.shape_pairing import pair_by_shapes


def stored(shapes, *, group="model", path=(), metadata=None):
    """A checkpoint of headers alone: names, or names to shapes."""
    table = shapes if isinstance(shapes, dict) else dict.fromkeys(shapes, (3,))
    entries = tuple(Entry(name, "float32", shape, (Part("f", 0, 4),), group, path) for name, shape in table.items())
    return StoredCheckpoint(Path("f"), Path(), "raw", "numpy", ("f",), entries, metadata=metadata or {})


def paired(ours, theirs, mapping=None, shapes=False):
    pairing = pair_by_names(ours, theirs, mapping)
    if shapes:
        pair_by_shapes(pairing)
    names = pairing.reference.names, pairing.candidate.names
    return {names[0][m.reference]: (names[1][m.candidate], m.by) for m in pairing.matches}, list(pairing.prefixes)


NAMES = ["encoder.0.weight", "encoder.0.bias", "encoder.1.weight", "encoder.1.bias", "head.weight"]


@pytest.mark.parametrize(
    "prefix",
    [
        "module.",
        "_orig_mod.",
        "_forward_module.",
        "module._orig_mod.",
        "base_model.model.",
        "model.",
        "_fsdp_wrapped_module.",
        "my.own.wrapper.",
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_a_prefix_is_taken_off(prefix, turned):
    sides = stored(NAMES), stored([prefix + name for name in NAMES])
    found, prefixes = paired(*(reversed(sides) if turned else sides))
    expected = {prefix + name: (name, "prefix") for name in NAMES}
    assert found == (expected if turned else {b: (a, by) for a, (b, by) in expected.items()})
    assert len(prefixes) == 1
    one, other = prefixes[0] if not turned else reversed(prefixes[0])
    assert other.removesuffix(one) == prefix or (one, other) == ("", prefix)


def test_wrappers_inside_a_name():
    name = "layers.0._checkpoint_wrapped_module.fc._orig_mod.weight"
    assert unwrapped(name) == "layers.0.fc.weight"
    assert wrapping(name) == "_checkpoint_wrapped_module._orig_mod."
    assert unwrapped("submodule.weight") == "submodule.weight"


@pytest.mark.parametrize(
    ("full", "saved"),
    [
        ("q_proj.base_layer.weight", "q_proj.weight"),
        ("q_proj.lora_A.default.weight", "q_proj.lora_A.weight"),
        ("q_proj.lora_B.my_task.bias", "q_proj.lora_B.bias"),
        ("embed.lora_embedding_A.default", "embed.lora_embedding_A"),
        ("q_proj.lora_magnitude_vector.default.weight", "q_proj.lora_magnitude_vector"),
        ("score.modules_to_save.default.weight", "score.weight"),
        ("base_layer.bias", "bias"),
    ],
)
def test_names_of_adapters_as_peft_keeps_and_saves_them(full, saved):
    assert unwrapped(f"model.{full}") == f"model.{saved}" == unwrapped(f"model.{saved}")
    assert unwrapped("lora_A.weight") == "lora_A.weight" and unwrapped("my_base_layer.weight") == "my_base_layer.weight"


def test_what_peft_leaves_out_is_told():
    assert wrapping("m.q.lora_A.default.weight") == "default."
    assert wrapping("m.q.base_layer.weight") == "base_layer."


def test_a_model_with_adapters_against_its_adapters_and_against_its_base():
    front = "base_model.model."
    adapters = [f"layers.{n}.q.lora_{side}" for n in range(2) for side in "AB"]
    base = [f"layers.{n}.{layer}.weight" for n in range(2) for layer in "qk"]
    kept = [name.replace(".q.", ".q.base_layer.") for name in base]
    full = stored([front + name for name in (*kept, *(f"{name}.default.weight" for name in adapters))])
    found, prefixes = paired(full, stored([f"{front}{name}.weight" for name in adapters]))
    assert found == {f"{front}{name}.default.weight": (f"{front}{name}.weight", "prefix") for name in adapters}
    assert ("default.", "") in prefixes
    found, _ = paired(stored(base), full)
    assert {ours: theirs for ours, (theirs, _) in found.items()} == {
        ours: front + theirs for ours, theirs in zip(base, kept, strict=True)
    }


def test_two_adapters_of_one_layer_are_not_guessed_at():
    full = stored([f"q.lora_A.{name}.weight" for name in ("one", "two")])
    assert paired(full, stored(["q.lora_A.weight"]))[0] == {}


def test_both_sides_have_a_prefix_of_their_own():
    found, prefixes = paired(stored([f"net.{n}" for n in NAMES]), stored([f"module.model.{n}" for n in NAMES]))
    assert found == {f"net.{n}": (f"module.model.{n}", "prefix") for n in NAMES}
    assert prefixes == [("net.", "model.")]


def test_two_prefixes_in_one_checkpoint():
    ours = [f"text.{n}" for n in ("a.w", "b.w", "c.w")] + [f"image.{n}" for n in ("d.w", "e.w", "f.w")]
    theirs = ["a.w", "b.w", "c.w", "d.w", "e.w", "f.w"]
    found, prefixes = paired(stored(ours), stored(theirs))
    assert found == dict(zip(ours, [(name, "prefix") for name in theirs], strict=True))
    assert sorted(prefixes) == [("image.", ""), ("text.", "")]


def test_one_equal_ending_is_a_coincidence():
    found, _ = paired(stored(["a.w", "b.x", "c.y"]), stored(["other.w", "q.z", "r.v"]))
    assert found == {}


def test_the_path_to_a_state_dict_is_no_part_of_the_name():
    found, prefixes = paired(stored(NAMES), stored(NAMES, path=("model",)))
    assert found == {name: (f"model.{name}", "name") for name in NAMES}
    assert prefixes == []


def test_names_that_stand_twice_pair_nothing():
    twice = StoredCheckpoint(
        Path("f"),
        Path(),
        "raw",
        "numpy",
        ("f",),
        (*stored(["w.v"], path=("a",)).entries, *stored(["w.v"], path=("b",)).entries),
    )
    assert paired(stored(["w.v"]), twice)[0] == {}
    assert paired(twice, twice)[0] == {"a.w.v": ("a.w.v", "name"), "b.w.v": ("b.w.v", "name")}


def test_groups_are_paired_among_themselves():
    assert paired(stored(["w"]), stored(["w"], group="ema"))[0] == {}


def test_unknown_groups_are_weights_where_nothing_else_is():
    assert paired(stored(["w"]), stored(["w"], group="other"))[0] == {"w": ("w", "name")}


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("block1.conv.weight", "block_1/conv/kernel:0"),
        ("layers.3.norm.weight", "layer_3/norm/gamma"),
        ("layers.3.norm.bias", "layers_3/norm/beta/.ATTRIBUTES/VARIABLE_VALUE"),
        ("bn1.running_mean", "params/bn1/mean"),
        ("bn1.running_var", "bn_1/moving_variance"),
        ("emb.weight", "emb/embeddings"),
        ("bn.weight", "bn/scale"),
        ("rnn.weight_ih_l0", "rnn/cell/kernel"),
        ("rnn.weight_hh_l0", "rnn/lstm_cell/recurrent_kernel".replace("lstm_cell", "cell")),
        ("conv2d_1.weight", "conv2d_1/_kernel"),
    ],
)
def test_one_key_by_convention(a, b):
    key = convention_key(a)
    assert [word for word in key if word] == [word for word in convention_key(b) if word]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("conv1.weight", "conv2.weight"),
        ("conv.weight", "conv.bias"),
        ("bn.running_mean", "bn.running_var"),
        ("a.w", "b.w"),
    ],
)
def test_other_tensors_have_other_keys(a, b):
    assert convention_key(a) != convention_key(b)


def test_hostile_names_have_keys():
    assert convention_key("") == ()
    assert convention_key("....///:0") == ()
    assert convention_key("a" + "9" * 10_000 + ".weight")[-1] == "weight"


def test_convention_pairs_frameworks():
    ours = stored(["conv1.weight", "conv1.bias", "bn1.weight", "bn1.running_mean"])
    theirs = stored(["conv1/kernel", "conv1/bias", "bn1/gamma", "bn1/moving_mean"])
    assert paired(ours, theirs)[0] == {
        "conv1.weight": ("conv1/kernel", "convention"),
        "conv1.bias": ("conv1/bias", "prefix"),
        "bn1.weight": ("bn1/gamma", "convention"),
        "bn1.running_mean": ("bn1/moving_mean", "convention"),
    }


def test_the_scale_of_a_quantised_layer_is_no_weight():
    ours, theirs = stored({"0.weight": (4, 4), "1.weight": (4,)}), stored({"0.scale": (), "1.scale": (4,)})
    assert paired(ours, theirs) == ({"1.weight": ("1.scale", "convention")}, [])


def test_counting_from_zero_is_not_taken_for_counting_from_one():
    ours = stored(["conv1.weight", "conv2.weight", "conv3.weight"])
    assert paired(ours, stored(["Conv_0.kernel", "Conv_1.kernel", "Conv_2.kernel"]))[0] == {}
    same = stored(["Conv_1.kernel", "Conv_2.kernel", "Conv_3.kernel"])
    assert len(paired(ours, same)[0]) == 3


def test_keras_variables_go_by_the_names_of_their_layers():
    ours = stored({"fc.weight": (3, 5), "fc.bias": (3,), "bn.weight": (3,), "bn.running_var": (3,)})
    theirs = {f"layers/dense/vars/{n}": shape for n, shape in enumerate([(5, 3), (3,)])}
    theirs |= {f"layers/batch_normalization/vars/{n}": (3,) for n in range(4)}
    names = {"layers/dense": "fc", "layers/batch_normalization": "bn"}
    assert paired(ours, stored(theirs, metadata={"layer_names": names}))[0] == {
        "fc.weight": ("layers/dense/vars/0", "convention"),
        "fc.bias": ("layers/dense/vars/1", "convention"),
        "bn.weight": ("layers/batch_normalization/vars/0", "convention"),
        "bn.running_var": ("layers/batch_normalization/vars/3", "convention"),
    }


def test_the_map_goes_before_all():
    found, _ = paired(stored(["a", "b"]), stored(["a", "b"]), {"a": "b", "nothing": "b", "b": "gone"})
    assert found["a"] == ("b", "map")
    assert "b" not in found


def test_shapes_pair_layers_that_are_alone_with_them():
    ours = stored({"q.weight": (3, 5), "q.bias": (3,), "r.weight": (3, 7), "r.bias": (3,)})
    theirs = stored({"1/kernel": (5, 3), "1/bias": (3,), "2/kernel": (7, 3), "2/bias": (3,)})
    assert paired(ours, theirs, shapes=True)[0] == {
        "q.weight": ("1/kernel", "shape"),
        "q.bias": ("1/bias", "shape"),
        "r.weight": ("2/kernel", "shape"),
        "r.bias": ("2/bias", "shape"),
    }


def test_shapes_that_several_have_pair_nothing():
    ours = stored({"q.w": (3, 3), "r.w": (3, 3), "s.w": (5,)})
    theirs = stored({"x1": (5,), "x2": (3, 3), "x3": (3, 3)})
    assert paired(ours, theirs, shapes=True)[0] == {"s.w": ("x1", "shape")}


def adam(path, names, ids=None, keyed="position"):
    group = {"lr": 1e-3, "params": list(range(len(names))) if ids is None else ids}
    state = OptimizerState(path, "adam", keyed, ("exp_avg",), len(names), (group,))
    return TrainingState((state,))


def test_positions_of_an_optimizer_are_names_of_weights():
    weights = stored({"a.weight": (3, 5), "a.running_mean": (3,), "b.weight": (7, 3)}).entries
    by_position = stored({"state.0.exp_avg": (3, 5), "state.1.exp_avg": (7, 3)}, group="optimizer", path=("optimizer",))
    by_name = stored(
        {"state.b.weight.exp_avg": (7, 3), "state.a.weight.exp_avg": (3, 5)}, group="optimizer", path=("optim",)
    )
    sides = []
    for one, keyed in ((by_position, "position"), (by_name, "name")):
        path = one.entries[0].path
        training = adam(path, ["a.weight", "b.weight"], keyed=keyed)
        sides.append(StoredCheckpoint(Path("f"), Path(), "raw", "numpy", ("f",), (*weights, *one.entries), training))
    found, _ = paired(*sides)
    assert found["optimizer.state.0.exp_avg"] == ("optim.state.a.weight.exp_avg", "convention")
    assert found["optimizer.state.1.exp_avg"] == ("optim.state.b.weight.exp_avg", "convention")


@pytest.mark.slow
@pytest.mark.parametrize("theirs", ["same", "module", "flax", "nothing"])
def test_work_is_proportional_to_the_number_of_tensors(theirs):
    """Work is counted in calls, of Python's functions and of built-in ones: seconds depend on the machine."""
    forms = {
        "same": "model.layers.{}.fc{}.weight",
        "module": "module.model.layers.{}.fc{}.weight",
        "flax": "layers_{}/fc_{}/kernel",
        "nothing": "q{}r.s{}t",
    }

    def calls(count):
        sides = [stored([form.format(n // 2, n % 2) for n in range(count)]) for form in (forms["same"], forms[theirs])]
        counted = 0

        def note(frame, event, argument):
            nonlocal counted
            counted += event in ("call", "c_call")

        sys.setprofile(note)
        try:
            found = pair_by_names(*sides)
        finally:
            sys.setprofile(None)
        assert len(found.matches) == (0 if theirs == "nothing" else count)
        return counted

    few, many = calls(2_000), calls(20_000)
    assert many < 11 * few, f"{few:,} calls for 2,000 tensors and {many:,} for 20,000"
