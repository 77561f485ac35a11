"""Planted faults in ports of small PyTorch models: each must be named, and the right port must be clean.

The candidate's numbers come from PyTorch, never from the emulation that is under test.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tensoraudit.equivalence.between import Way, ways
from tensoraudit.equivalence.diagnosis import diagnose
from tensoraudit.equivalence.hypotheses import OTHER_INPUT, explain
from tensoraudit.equivalence.layer import Layer, make_layer
from tensoraudit.equivalence.parameter import Parameter

AXES = {"Conv2d": {"weight": "oihw", "bias": "o"}, "Linear": {"weight": "oi", "bias": "o"}}
NORM = {"weight": "gamma", "bias": "beta", "running_mean": "mean", "running_var": "variance"}
PARTS = {"ih": "input", "hh": "state"}


def parameters(path, module):
    kind = type(module).__name__
    own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
    for name, tensor in own:
        common = {"module": path, "layer": kind}
        array = tensor.detach().numpy()
        if kind in AXES:
            what = "kernel" if name == "weight" else "bias"
            yield Parameter(f"{path}.{name}", array, kind=what, axes=AXES[kind][name], **common)
        elif kind in {"GRU", "LSTM"}:
            what, part = name.split("_")[:2]
            axes = ("kernel", "oi") if what == "weight" else ("bias", "o")
            gates = "rzn" if kind == "GRU" else "ifgo"
            yield Parameter(name, array, kind=axes[0], axes=axes[1], gates=gates, part=PARTS[part], **common)
        elif name in NORM:
            yield Parameter(f"{path}.{name}", array, kind=NORM[name], axes="c", **common)


SETTINGS = {"eps": "epsilon", "stride": "strides", "padding": "padding", "groups": "groups", "dilation": "dilation"}


def layers(model, x):
    """What a `parameters` job gives: the layers that own parameters, with their tensors."""
    seen = {}

    def hook(path):
        def keep(module, args, output):
            outputs = output if isinstance(output, tuple) else (output,)
            seen[path] = (
                [args[0].detach().numpy()],
                [each.detach().numpy() for each in outputs if torch.is_tensor(each)],
            )

        return keep

    handles = [each.register_forward_hook(hook(path)) for path, each in model.named_modules() if path]
    with torch.no_grad():
        y = model(x).numpy()
    for handle in handles:
        handle.remove()
    found = {}
    for path, module in model.named_modules():
        own = list(parameters(path, module))
        if not own:
            continue
        config = {word: getattr(module, name) for name, word in SETTINGS.items() if hasattr(module, name)}
        config = {word: list(v) if isinstance(v, tuple) else v for word, v in config.items()}
        if type(module).__name__ in {"Conv2d", "BatchNorm2d"}:
            config["data_format"] = "channels_first"
        row = {"path": path, "class": type(module).__name__, "config": {**config, "batch_first": True}}
        found[path] = make_layer(row, own, *seen[path])
    return found, y


class Net(nn.Module):
    """Every choice that a port can get wrong is an argument."""

    def __init__(self, **wrong):
        super().__init__()
        torch.manual_seed(4)
        self.wrong = wrong
        self.conv = nn.Conv2d(3, 5, 3, stride=2, padding=wrong.get("padding", 0))
        self.norm = nn.BatchNorm2d(5, eps=wrong.get("epsilon", 1e-3), momentum=wrong.get("momentum", 0.01))
        self.dense = nn.Linear(5 * 7 * 4, 11 * 13)
        self.rnn = nn.GRU(13, 17, batch_first=True)
        self.scale = nn.LayerNorm(17, eps=wrong.get("layer_epsilon", 1e-3))
        self.head = nn.Linear(17, 17)
        nn.init.uniform_(self.norm.running_var, 0.05, 0.4)
        nn.init.normal_(self.norm.running_mean)

    def forward(self, x):
        act = self.wrong.get("act", functional.gelu)
        x = x if self.wrong.get("padding") else functional.pad(x, (0, 1, 0, 1))
        x = act(self.norm(self.conv(x)))
        x = (x if self.wrong.get("channels_first") else x.permute(0, 2, 3, 1)).flatten(1)
        x = functional.dropout(x, self.wrong.get("dropout", 0.0), training=True)
        _, state = self.rnn(self.dense(x).reshape(-1, 11, 13))
        x = self.head(self.scale(state[0]))
        return functional.softmax(x, self.wrong.get("axis", -1))


X = torch.randn(2, 3, 14, 8, generator=torch.Generator().manual_seed(1))


def diagnosed(candidate):
    reference, y = layers(Net().eval(), X)
    own, out = layers(candidate, X)
    pairs = [(layer, own[path]) for path, layer in reference.items()]
    return {each.reference.path: each.explanation for each in diagnose(pairs, [X.numpy()], [(y, out)])}


def causes(candidate):
    return {path: each.cause or each.state for path, each in diagnosed(candidate).items() if each.state != "agrees"}


def changed(name, change):
    net = Net().eval()
    with torch.no_grad():
        tensor = dict(net.named_parameters())[name]
        tensor.copy_(change(tensor))
    return net


def gates_moved():
    net = Net().eval()
    with torch.no_grad():
        for tensor in net.rnn.parameters():
            r, z, n = tensor.chunk(3)
            tensor.copy_(torch.cat([z, r, n]))
    return net


def test_the_right_port_agrees_in_every_layer():
    found = diagnosed(Net().eval())
    assert {each.state for each in found.values()} == {"agrees"}
    assert list(found) == ["conv", "norm", "dense", "rnn", "scale", "head", "output"]
    assert max(each.gap for each in found.values()) < 1e-6


def test_a_momentum_alone_is_clean():
    assert causes(Net(momentum=0.99).eval()) == {}


FAULTS = {
    "padding": (lambda: Net(padding=1).eval(), {"conv": "padding-shift"}),
    "epsilon": (lambda: Net(epsilon=1e-5).eval(), {"norm": "batchnorm-epsilon"}),
    "layer-epsilon": (lambda: Net(layer_epsilon=1e-6).eval(), {"scale": "layernorm-epsilon"}),
    "gelu": (lambda: Net(act=lambda x: functional.gelu(x, approximate="tanh")).eval(), {"dense": "gelu-variant"}),
    "no-activation": (lambda: Net(act=lambda x: x).eval(), {"dense": "missing-activation"}),
    "relu": (lambda: Net(act=functional.relu).eval(), {"dense": "other-activation"}),
    "flatten": (lambda: Net(channels_first=True).eval(), {"dense": "flatten-order"}),
    "dropout": (lambda: Net(dropout=0.3).eval(), {"dense": "dropout-active"}),
    "gates": (gates_moved, {"rnn": "gate-order"}),
    "transposed": (lambda: changed("head.weight", lambda w: w.T.clone()), {"head": "kernel-not-transposed"}),
    "bias": (lambda: changed("dense.bias", torch.zeros_like), {"dense": "missing-bias"}),
    "weight": (lambda: changed("conv.weight", lambda w: 1.01 * w), {"conv": "weight-difference"}),
    "flipped": (lambda: changed("conv.weight", lambda w: w.flip(2, 3)), {"conv": "kernel-flipped"}),
    "height-width": (lambda: changed("conv.weight", lambda w: w.transpose(2, 3).clone()), {"conv": "kernel-axes"}),
    "axis": (lambda: Net(axis=0).eval(), {"output": "softmax-axis"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named_at_its_layer_and_nowhere_else(fault):
    make, expected = FAULTS[fault]
    found = diagnosed(make())
    assert {path: each.cause for path, each in found.items() if each.state == "explained"} == expected
    assert {each.state for each in found.values()} <= {"agrees", "explained"}
    explained = next(each for each in found.values() if each.state == "explained")
    assert explained.left < 1e-5 < explained.gap and explained.does and explained.fix


def test_statistics_of_the_batch_are_named():
    assert causes(Net().train()) == {"norm": "batch-statistics"}


def test_two_faults_are_both_found():
    net = Net(epsilon=1e-5, act=lambda x: functional.gelu(x, approximate="tanh")).eval()
    assert causes(net) == {"norm": "batchnorm-epsilon", "dense": "gelu-variant"}


def test_what_no_hypothesis_explains_is_unexplained():
    found = diagnosed(Net(act=lambda x: x.sin()).eval())
    assert found["dense"].state == "unexplained" and "off by" in found["dense"].reason


def test_a_layer_of_an_unknown_kind_is_unknown_and_never_agrees():
    x = np.ones((2, 3))
    mine = Layer("a", "Mine", "", {}, inputs=(x,), outputs=(2 * x,))
    assert explain(mine, mine, [(x, x)]).state == "unknown"
    assert explain(Layer("a", "Mine", "", {}), mine, []).state == "unknown"


def test_a_layer_whose_emulation_does_not_give_the_references_own_numbers_is_unknown():
    reference, _ = layers(Net().eval(), X)
    dense = reference["head"]
    shifted = Layer(dense.path, dense.cls, dense.kind, {}, dense.weights, {}, dense.inputs, (dense.outputs[0] + 1,))
    assert explain(shifted, shifted, [(dense.inputs[0], dense.inputs[0])]).state == "unknown"


@pytest.mark.parametrize(
    ("own", "theirs", "cause"),
    [
        ({"mode": "bilinear", "align_corners": False}, {"mode": "bilinear", "align_corners": True}, "resize-mode"),
        ({"mode": "nearest"}, {"mode": "nearest-exact"}, "resize-mode"),
    ],
)
def test_coordinates_of_a_resize(own, theirs, cause):
    class Resizer(nn.Module):
        def __init__(self, options):
            super().__init__()
            torch.manual_seed(2)
            self.first, self.second, self.options = nn.Conv2d(3, 5, 3), nn.Conv2d(5, 7, 3), options

        def forward(self, x):
            return self.second(functional.interpolate(self.first(x), size=(17, 11), **self.options))

    (ours, y), (other, out) = (layers(Resizer(options).eval(), X) for options in (own, theirs))
    pairs = [(layer, other[path]) for path, layer in ours.items()]
    found = {each.reference.path: each.explanation for each in diagnose(pairs, [X.numpy()], [(y, out)])}
    assert found["first"].state == "agrees"
    assert (found["second"].state, found["second"].cause) == ("explained", cause)


def test_pooling_of_another_kind():
    x = np.random.default_rng(0).standard_normal((2, 6, 4, 3))
    aim = functional.max_pool2d(torch.from_numpy(np.moveaxis(x, -1, 1)), 2).numpy()
    found = [way for way, made in ways(x, (2, 3, 2, 3)) if np.array_equal(made, np.moveaxis(aim, 1, -1))]
    assert found == [Way("no activation", "pooled, the largest of 2")]


def test_a_layer_that_takes_too_long_to_compute_again_is_unknown(monkeypatch):
    monkeypatch.setattr("tensoraudit.equivalence.hypotheses.MOST_WORK", 1000)
    found = diagnosed(Net(padding=1).eval())["conv"]
    assert (found.state, found.reason) == ("unknown", "it is too large to be computed again here")


def test_a_layer_that_is_called_more_than_once_is_unknown():
    layer = replace(layers(Net().eval(), X)[0]["head"], calls=2)
    found = explain(layer, layer, [(layer.inputs[0], layer.inputs[0])])
    assert found.state == "unknown" and "called 2 times" in found.reason


def test_a_layer_that_another_tensor_goes_into_is_not_said_to_compute_otherwise():
    head = layers(Net().eval(), X)[0]["head"]
    other = 2.0 * head.inputs[0] - 1.0
    theirs = replace(head, inputs=(other,), outputs=(other @ head.weights["kernel"] + head.weights["bias"],))
    found = explain(head, theirs, [(head.inputs[0], head.inputs[0])])
    assert found.state == "unexplained" and found.reason.endswith(OTHER_INPUT)


def dense(inside, x, weight, other=1.0):
    """Two layers with a tanh between them that is inside the first one, or outside."""
    first, second = x @ weight, np.tanh(x @ weight) @ weight.T * other
    rows = ({"activation": "tanh"} if inside else {}, np.tanh(first) if inside else first), ({}, second)
    inputs = x, np.tanh(first)
    kernels = weight, weight.T * other
    return [
        Layer(f"l{n}", "Dense", "dense", config, {"kernel": kernel}, inputs=(into,), outputs=(out,))
        for n, ((config, out), into, kernel) in enumerate(zip(rows, inputs, kernels, strict=True))
    ]


@pytest.mark.parametrize("inside", [True, False])
def test_an_activation_inside_one_sides_layer_alone_is_no_difference(inside):
    draws = np.random.default_rng(1)
    x, weight = draws.standard_normal((3, 5)), draws.standard_normal((5, 7))
    ours, theirs = dense(inside, x, weight), dense(not inside, x, weight, 1.05)
    found = list(diagnose(list(zip(ours, theirs, strict=True)), [x], []))
    assert [each.explanation.cause or each.explanation.state for each in found] == ["agrees", "weight-difference"]


def test_what_half_precision_rounds_is_no_difference():
    head = layers(Net().eval(), X)[0]["head"]
    rounded = head.outputs[0].astype(np.float16)
    sources = [(head.inputs[0], head.inputs[0])]
    assert explain(head, replace(head, outputs=(rounded,)), sources).state != "agrees"
    assert explain(head, replace(head, outputs=(rounded,), dtypes=frozenset({"float16"})), sources).state == "agrees"
