"""Pairing of parameters: by map, name, value, order; with the layout that the values show."""

import tracemalloc

import numpy as np
import pytest

from tensoraudit.equivalence.parameter import Parameter, Term, judged, made_of
from tensoraudit.equivalence.parameter_names import path_of
from tensoraudit.equivalence.parameters import close_prints, conventional, fingerprint, pair_parameters
from tensoraudit.equivalence.steps import difference, same


def draw(*shape, seed=3):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def parameter(name, array, kind="other", axes="", **more):
    return Parameter(name, array, name.replace("/", ".").rpartition(".")[0], kind=kind, axes=axes, **more)


CONV, DENSE = draw(3, 3, 5, 7), draw(11, 11)
KERAS = [
    parameter("net/conv/kernel", CONV, "kernel", "hwio"),
    parameter("net/conv/bias", draw(7), "bias", "o"),
    parameter("net/norm/gamma", draw(13), "gamma", "c"),
    parameter("net/norm/moving_mean", draw(13, seed=4), "mean", "c"),
    parameter("net/head/kernel", DENSE, "kernel", "io"),
]


def torch_side(conv=CONV, dense=DENSE.T, prefix="", names=("conv", "norm", "head")):
    conv_name, norm, head = (prefix + name for name in names)
    return [
        parameter(f"{conv_name}.weight", conv.transpose(3, 2, 0, 1), "kernel", "oihw"),
        parameter(f"{conv_name}.bias", draw(7), "bias", "o"),
        parameter(f"{norm}.weight", draw(13), "gamma", "c"),
        parameter(f"{norm}.running_mean", draw(13, seed=4), "mean", "c"),
        parameter(f"{head}.weight", dense, "kernel", "oi"),
        parameter(f"{norm}.num_batches_tracked", np.array(3)),
    ]


def test_names_of_frameworks_are_one_name():
    pairs = pair_parameters(KERAS, torch_side())
    assert {pair.candidate: pair.terms[0].reference for pair in pairs.pairs} == {
        "conv.weight": "net/conv/kernel",
        "conv.bias": "net/conv/bias",
        "norm.weight": "net/norm/gamma",
        "norm.running_mean": "net/norm/moving_mean",
        "head.weight": "net/head/kernel",
    }
    assert all(pair.how == "name" and pair.equal and pair.difference == 0.0 for pair in pairs.pairs)
    assert pairs.of("conv.weight").steps == ({"transpose": [3, 2, 0, 1]},)
    assert (pairs.missing, pairs.extra) == ((), ())


def test_without_names_the_values_pair_and_show_the_layout():
    pairs = pair_parameters(KERAS, torch_side(names=("a", "b", "c"))[::-1])
    assert {pair.how for pair in pairs.pairs} == {"value"}
    assert all(pair.equal for pair in pairs.pairs)
    assert pairs.of("c.weight").steps == ({"transpose": [1, 0]},)


def test_a_square_kernel_that_was_not_transposed_shows_what_the_convention_expects():
    pair = pair_parameters(KERAS, torch_side(dense=DENSE)).of("head.weight")
    assert (pair.equal, pair.steps, pair.expected) == (True, (), ({"transpose": [1, 0]},))
    assert pair_parameters(KERAS, torch_side()).of("head.weight").expected is None


def test_a_changed_weight_is_paired_by_name_and_measured():
    pair = pair_parameters(KERAS, torch_side(conv=CONV * np.float32(1.01))).of("conv.weight")
    assert not pair.equal and pair.difference == pytest.approx(0.01, rel=1e-4)


def test_a_changed_weight_without_a_name_goes_to_the_nearest_of_its_size():
    other = draw(3, 3, 5, 7, seed=9)
    ours = [parameter("x/kernel", other, "kernel", "hwio"), KERAS[0]]
    theirs = [
        parameter("p", CONV.transpose(3, 2, 0, 1) * np.float32(1.01), "kernel", "oihw"),
        parameter("q", other.transpose(3, 2, 0, 1) * np.float32(1.1), "kernel", "oihw"),
    ]
    pairs = pair_parameters(ours, theirs)
    assert {pair.candidate: (pair.terms[0].reference, pair.how) for pair in pairs.pairs} == {
        "p": ("net/conv/kernel", "value"),
        "q": ("x/kernel", "value"),
    }
    assert pairs.of("q").difference == pytest.approx(0.1, rel=1e-4) and not pairs.of("q").equal


def test_a_normalisation_that_was_merged_into_a_kernel_is_told_from_a_changed_weight():
    factors = np.float32([0.2, 3, 1, 0.5, 2, 7, 0.1])
    folded = [parameter("p", CONV.transpose(3, 2, 0, 1) * factors[:, None, None, None], "kernel", "oihw")]
    pair = pair_parameters([KERAS[0]], folded).of("p")
    assert (pair.folded, pair.equal, pair.how) == (True, False, "value")
    evenly = [parameter("p", CONV.transpose(3, 2, 0, 1) * np.float32(1.01), "kernel", "oihw")]
    assert not pair_parameters([KERAS[0]], evenly).of("p").folded


def test_untrained_sides_without_common_names_are_paired_in_order():
    other = [
        parameter("0.weight", draw(7, 5, 3, 3, seed=8), "kernel", "oihw"),
        parameter("3.weight", draw(11, 11, seed=8), "kernel", "oi"),
    ]
    pairs = pair_parameters([KERAS[0], KERAS[4]], other)
    assert [(pair.candidate, pair.how, pair.equal) for pair in pairs.pairs] == [
        ("0.weight", "order", False),
        ("3.weight", "order", False),
    ]
    assert pairs.of("3.weight").steps == ({"transpose": [1, 0]},)


def test_a_square_matrix_of_an_unknown_layer_has_no_partner():
    pairs = pair_parameters([parameter("a/w", draw(5, 5), "kernel")], [parameter("b.w", draw(5, 5, seed=9), "kernel")])
    assert (pairs.pairs, pairs.missing, pairs.extra) == ((), ("a/w",), ("b.w",))


def test_a_bias_of_zeros_is_no_mean_of_zeros():
    ours = [parameter("n/beta", np.zeros(5), "beta"), parameter("n/mean", np.zeros(5), "mean")]
    theirs = [parameter("x.mean", np.zeros(5), "mean"), parameter("x.bias", np.zeros(5), "beta")]
    pairs = pair_parameters(ours, theirs)
    assert {pair.candidate: pair.terms[0].reference for pair in pairs.pairs} == {"x.mean": "n/mean", "x.bias": "n/beta"}


def test_the_map_comes_first():
    terms = {"conv.bias": (Term("net/norm/gamma", ({"gates": {"axis": 0, "of": 13, "order": [*range(7)]}},)),)}
    pair = pair_parameters(KERAS, torch_side(), terms).of("conv.bias")
    assert (pair.how, pair.equal) == ("map", False)


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"conv.bias": (Term("net/none"),)}, "the reference has no parameter 'net/none'"),
        ({"none": (Term("net/conv/bias"),)}, "the candidate has no parameter 'none'"),
        ({"conv.bias": (Term("net/norm/gamma"),)}, r"gives \[13\] for conv.bias, which is \[7\]"),
        ({"conv.bias": (Term("net/conv/bias", ({"transpose": [1, 0]},)),)}, "transpose"),
    ],
)
def test_a_map_that_does_not_fit_is_refused(terms, words):
    with pytest.raises(ValueError, match=words):
        pair_parameters(KERAS, torch_side(), terms)


UNITS, INPUTS = 5, 3
Z, R, N = (draw(INPUTS, UNITS, seed=seed) for seed in (1, 2, 3))
ZS, RS, NS = (draw(UNITS, UNITS, seed=seed) for seed in (1, 2, 3))
BIAS = draw(2, 3 * UNITS)


def keras_gru():
    cell = {"gates": "zrn"}
    return [
        Parameter("gru/kernel", np.hstack([Z, R, N]), "gru", "GRU", "kernel", "io", part="input", **cell),
        Parameter("gru/recurrent_kernel", np.hstack([ZS, RS, NS]), "gru", "GRU", "kernel", "io", part="state", **cell),
        Parameter("gru/bias", BIAS, "gru", "GRU", "bias", "po", **cell),
    ]


def torch_gru(order=(1, 0, 2)):
    def stacked(array):
        blocks = np.split(array, 3, axis=-1)
        return np.concatenate([blocks[index] for index in order], axis=-1)

    cell = {"module": "rnn", "layer": "GRU", "gates": "rzn"}
    kernels = {"ih": stacked(np.hstack([Z, R, N])).T, "hh": stacked(np.hstack([ZS, RS, NS])).T}
    parts = {"ih": "input", "hh": "state"}
    return [
        *(Parameter(f"rnn.weight_{k}", v, kind="kernel", axes="oi", part=parts[k], **cell) for k, v in kernels.items()),
        *(
            Parameter(f"rnn.bias_{k}", stacked(BIAS[row]), kind="bias", axes="o", part=parts[k], **cell)
            for row, k in enumerate(parts)
        ),
    ]


def flax_gru():
    z, r, n = np.split(BIAS, 3, axis=1)
    rows = {
        "iz": (Z, z.sum(0)),
        "ir": (R, r.sum(0)),
        "in": (N, n[0]),
        "hz": (ZS, None),
        "hr": (RS, None),
        "hn": (NS, n[1]),
    }
    parts = {"i": "input", "h": "state"}
    found = []
    for name, (kernel, bias) in rows.items():
        cell = {"module": "gru", "layer": "GRUCell", "gates": name[1]}
        found.append(Parameter(f"gru/{name}/kernel", kernel, kind="kernel", axes="io", part=parts[name[0]], **cell))
        if bias is not None:
            part = parts[name[0]] if name[1] == "n" else "both"
            found.append(Parameter(f"gru/{name}/bias", bias, kind="bias", axes="o", part=part, **cell))
    return found


def arrays(side):
    return {each.name: each.array for each in side}


@pytest.mark.parametrize(("ours", "theirs"), [(keras_gru, torch_gru), (torch_gru, keras_gru), (keras_gru, flax_gru)])
def test_a_cell_is_found_in_the_other_stacking(ours, theirs):
    reference, candidate = ours(), theirs()
    pairs = pair_parameters(reference, candidate)
    assert (pairs.missing, pairs.extra) == ((), ())
    for pair in pairs.pairs:
        assert pair.equal
        made = made_of(pair, arrays(reference))
        np.testing.assert_allclose(made, arrays(candidate)[pair.candidate], rtol=1e-6, atol=1e-6)


def test_two_biases_that_are_always_added_may_share_their_sum_in_any_way():
    pairs = pair_parameters(flax_gru(), torch_gru())
    assert all(pair.equal for pair in pairs.pairs)
    made = {pair.candidate: made_of(pair, arrays(flax_gru())) for pair in pairs.pairs}
    total = made["rnn.bias_ih"] + made["rnn.bias_hh"]
    np.testing.assert_allclose(
        total[: 2 * UNITS], (BIAS[0] + BIAS[1])[[*range(5, 10), *range(5)]], rtol=1e-6, atol=1e-6
    )


def test_gates_in_a_wrong_order_are_a_difference():
    pairs = pair_parameters(keras_gru(), torch_gru(order=(0, 1, 2)))
    assert not any(pair.equal for pair in pairs.pairs)
    assert pairs.of("rnn.weight_ih").steps[0] == {"gates": {"axis": 1, "of": 3, "order": [1, 0, 2]}}


def test_a_cell_written_by_hand_is_paired_by_value_row_by_row():
    hand = [Parameter(each.name, each.array, "cell", "Mine", each.kind) for each in torch_gru()]
    pairs = pair_parameters(keras_gru(), hand)
    assert {(pair.how, pair.equal) for pair in pairs.pairs} == {("value", True)}
    assert pairs.of("rnn.bias_hh").steps[0] == {"take": 1}


def test_an_untrained_cell_written_by_hand_has_no_partner_for_nothing_tells_the_order_of_its_gates():
    hand = [Parameter(each.name, 0 * each.array, "cell", "Mine", each.kind) for each in torch_gru()]
    pairs = pair_parameters(keras_gru(), hand)
    assert (pairs.pairs, len(pairs.missing), len(pairs.extra)) == ((), 3, 4)


def test_an_upper_case_axis_is_flipped():
    a, b = parameter("a", CONV, "kernel", "hwio"), parameter("b", CONV, "kernel", "HWio")
    assert conventional(a, b) == ({"reverse": [0, 1]},)
    assert conventional(a, parameter("c", CONV, "kernel")) is None


def test_a_fingerprint_does_not_see_order_and_sees_values():
    x = draw(1000)
    shuffled = np.random.default_rng(1).permutation(x)
    assert close_prints(fingerprint(x), fingerprint(shuffled), x.size)
    assert not close_prints(fingerprint(x), fingerprint(x * np.float32(1.001)), x.size)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("params/block_1/conv", ("block1", "conv")),
        ("model.block1.Conv", ("block1", "conv")),
        ("gru/gru_cell", ("gru",)),
        ("dense:0", ("dense",)),
    ],
)
def test_words_of_a_path(name, words):
    assert path_of(name) == words


def test_a_name_that_only_ends_alike_must_be_the_only_one_on_both_sides():
    first, second = draw(5, 7, seed=1), draw(5, 7, seed=2)
    ours = [parameter("enc/proj/k", first, "kernel", "io"), parameter("dec/proj/k", second, "kernel", "io")]
    theirs = [
        parameter("proj.w", second.T, "kernel", "oi"),
        parameter("encoder_projection.w", first.T, "kernel", "oi"),
    ]
    pairs = pair_parameters(ours, theirs)
    assert {pair.candidate: pair.terms[0].reference for pair in pairs.pairs} == {
        "proj.w": "dec/proj/k",
        "encoder_projection.w": "enc/proj/k",
    }


def test_numbers_are_no_other_numbers_times_a_factor():
    ours = [parameter("a/k", draw(1, 7), "kernel", "io")]
    (pair,) = pair_parameters(ours, [parameter("a.w", draw(1, 7, seed=8).T, "kernel", "oi")]).pairs
    assert not pair.folded


def test_many_parameters_of_one_shape_cost_no_look_at_every_pair(monkeypatch):
    looks = []
    monkeypatch.setattr("tensoraudit.equivalence.parameters.judged", lambda *args: looks.append(1) or judged(*args))
    kernels = [draw(6, 5, seed=seed) for seed in range(200)]
    ours = [parameter(f"a{n}/k", each, "kernel", "io") for n, each in enumerate(kernels)]
    theirs = [parameter(f"b{n}.w", kernels[n].T * np.float32(1.01), "kernel", "oi") for n in reversed(range(200))]
    pairs = pair_parameters(ours, theirs).pairs
    assert all(pair.terms[0].reference[1:-2] == pair.candidate[1:-2] for pair in pairs) and len(pairs) == 200
    assert len(looks) < 4 * 200


def test_a_fingerprint_takes_little_memory():
    array = np.broadcast_to(np.float32(2), (1 << 22,)).copy()
    tracemalloc.start()
    assert fingerprint(array) == (2.0 * (1 << 22), 4.0 * (1 << 22), 2.0, 2.0)
    assert difference(array, array) == 0.0 and same(array, array)
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()
