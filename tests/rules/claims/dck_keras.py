"""Files of weights as Keras writes them, from arrays of PyTorch that were moved right or not at all, and how far each
layer is off. Run in a process of its own: FOLDER is written into, the last line of stdout is JSON."""

import json
import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

try:
    import keras
    import numpy as np
    import torch
except ImportError as error:
    print(json.dumps({"missing": str(error)}))
    sys.exit(0)

FOLDER = Path(sys.argv[1])
ROWS = {"keras": keras.__version__}


def relative(wanted, found):
    return float(np.linalg.norm(wanted - found) / np.linalg.norm(wanted))


def named(layers, shape):
    inputs = keras.Input(shape)
    outputs = inputs
    for layer in layers:
        outputs = layer(outputs)
    return keras.Model(inputs, outputs)


class Net(torch.nn.Module):
    """A convolution of three channels in and out, a batch normalisation, and a dense layer behind a flatten."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 3, 3)
        self.bn = torch.nn.BatchNorm2d(3)
        self.fc = torch.nn.Linear(3 * 5 * 4, 7)
        self.bn.running_mean.copy_(torch.tensor([3.0, -2.0, 5.0]))
        self.bn.running_var.copy_(torch.tensor([4.0, 0.5, 9.0]))

    def forward(self, x):
        return self.fc(self.bn(self.conv(x)).flatten(1))


def twin():
    layers = [
        keras.layers.Conv2D(3, 3, name="conv"),
        keras.layers.BatchNormalization(epsilon=1e-5, name="bn"),
        keras.layers.Flatten(),
        keras.layers.Dense(7, name="fc"),
    ]
    return named(layers, (7, 6, 3))


def port(net, way):
    """A Keras twin of `net`, right but for `way`."""
    arrays = {name: value.detach().numpy() for name, value in net.state_dict().items()}
    kernel = arrays["conv.weight"] if way == "conv" else arrays["conv.weight"].transpose(2, 3, 1, 0)
    dense = arrays["fc.weight"]
    if way != "flatten":
        dense = dense.reshape(7, 3, 5, 4).transpose(0, 2, 3, 1).reshape(7, -1)
    statistics = [arrays["bn.running_mean"], arrays["bn.running_var"]]
    if way == "default":
        statistics = [np.zeros(3, "f4"), np.ones(3, "f4")]
    if way == "swapped":
        statistics.reverse()
    model = twin()
    model.get_layer("conv").set_weights([kernel, arrays["conv.bias"]])
    model.get_layer("bn").set_weights([arrays["bn.weight"], arrays["bn.bias"], *statistics])
    model.get_layer("fc").set_weights([dense.T, arrays["fc.bias"]])
    return model


def ports():
    torch.manual_seed(0)
    net = Net().eval()
    torch.save(net.state_dict(), FOLDER / "net.pt")
    x = torch.randn(2, 3, 7, 6)
    wanted = net(x).detach().numpy()
    for way in ("right", "conv", "flatten", "default", "swapped"):
        model = port(net, way)
        model.save_weights(FOLDER / f"{way}.weights.h5")
        ROWS[way] = relative(wanted, model.predict(x.numpy().transpose(0, 2, 3, 1), verbose=0))
        ROWS[f"{way}.outputs"] = model.predict(x.numpy().transpose(0, 2, 3, 1), verbose=0).tolist()
    ROWS["outputs"] = wanted.tolist()


def layers():
    """How far single layers are off with arrays that were not moved, on square extents, which all load."""
    torch.manual_seed(1)
    x = torch.randn(4, 3, 9, 9)
    conv, fc = torch.nn.Conv2d(3, 3, 3, bias=False), torch.nn.Linear(16, 16, bias=False)
    bn = torch.nn.BatchNorm2d(3).eval()
    bn.running_mean.fill_(10.0), bn.running_var.fill_(4.0)
    rows = torch.randn(8, 16)
    last = x.numpy().transpose(0, 2, 3, 1)
    weight = conv.weight.detach().numpy()
    for name, order in (("conv_raw", (0, 1, 2, 3)), ("conv_moved", (2, 3, 1, 0))):
        layer = keras.layers.Conv2D(3, 3, use_bias=False)
        layer.build((None, 9, 9, 3))
        layer.set_weights([weight.transpose(order)])
        ROWS[name] = relative(conv(x).detach().numpy(), np.array(layer(last)).transpose(0, 3, 1, 2))
    for name, kernel in (("dense_raw", fc.weight), ("dense_moved", fc.weight.T)):
        layer = keras.layers.Dense(16, use_bias=False)
        layer.build((None, 16))
        layer.set_weights([kernel.detach().numpy()])
        ROWS[name] = relative(fc(rows).detach().numpy(), np.array(layer(rows.numpy())))
    shifted = 2 * x + 10
    for name, statistics in (("bn_default", (0, 1)), ("bn_swapped", (4, 10)), ("bn_moved", (10, 4))):
        layer = keras.layers.BatchNormalization(epsilon=1e-5)
        layer.build((None, 9, 9, 3))
        layer.set_weights([np.ones(3), np.zeros(3), *(np.full(3, number) for number in statistics)])
        found = np.array(layer(shifted.numpy().transpose(0, 2, 3, 1), training=False)).transpose(0, 3, 1, 2)
        ROWS[name] = relative(bn(shifted).detach().numpy(), found)


def ordered(names):
    return named([keras.layers.Dense(4, name=name) for name in names], (4,))


def changed(model, load):
    before = [np.array(each) for each in model.weights]
    try:
        load(model)
    except ValueError as error:
        return f"ValueError: {str(error)[:60]}"
    return [not np.array_equal(a, np.array(b)) for a, b in zip(before, model.weights, strict=True)]


def positions():
    saved, turned = ordered("ab"), ordered("ba")
    saved.save_weights(FOLDER / "ab.weights.h5")
    turned.save_weights(FOLDER / "ba.weights.h5")
    saved.save(FOLDER / "ab.h5")
    turned.load_weights(FOLDER / "ab.weights.h5")
    kernel = {name: np.array(saved.get_layer(name).kernel) for name in "ab"}
    ROWS["position"] = {
        other: next(name for name in "ab" if np.array_equal(kernel[name], np.array(turned.get_layer(other).kernel)))
        for other in "ab"
    }
    ROWS["fewer"] = changed(ordered("a"), lambda m: m.load_weights(FOLDER / "ab.weights.h5"))
    ROWS["more"] = changed(ordered("abc"), lambda m: m.load_weights(FOLDER / "ab.weights.h5"))
    ROWS["by_name"] = changed(ordered("pq"), lambda m: m.load_weights(FOLDER / "ab.h5", by_name=True))
    ROWS["by_name_new"] = changed(ordered("ab"), lambda m: m.load_weights(FOLDER / "ab.weights.h5", by_name=True))
    wide = named([keras.layers.Dense(4, name="a"), keras.layers.Dense(4, name="b")], (5,))
    ROWS["skip_mismatch"] = changed(wide, lambda m: m.load_weights(FOLDER / "ab.weights.h5", skip_mismatch=True))


ports()
layers()
positions()
print(json.dumps(ROWS))
