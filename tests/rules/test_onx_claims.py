"""What the rules about versions, kernels and hand-made nodes claim, tried on torch, onnx and ONNX Runtime as installed.

Claims about TensorFlow are in test_onx_tensorflow_claims.py, those that a probe settles in test_claims.py.
"""

import warnings
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.extract.onnx import read_onnx
from tensoraudit.extract.python_source import read_python_text
from tensoraudit.facts import Measurement, Model, Package
from tensoraudit.facts.store import FactStore
from tensoraudit.language.confirm import settle_confirm
from tensoraudit.language.engine import match_rules
from tensoraudit.language.load import load_rules, rules_folder

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from onnx import helper, numpy_helper, version_converter  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

RULES = load_rules([rules_folder()])
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def states(rule, *facts):
    matches = match_rules(RULES, FactStore(list(facts)), source="", target="onnxruntime")
    return [match.state for match in matches if match.rule.id == rule]


def graph_model(nodes, inputs, outputs, initializers=(), opset=17):
    """A model whose values are (name, element type, shape)."""
    ends = [[helper.make_tensor_value_info(*each) for each in side] for side in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *ends, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 9
    return model


def saved(model, path):
    onnx.save(model, path)
    return path


def run(path, *arrays):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {each.name: array for each, array in zip(session.get_inputs(), arrays, strict=True)})


def exported(model, args, path, **options):
    if options.setdefault("dynamo", True):
        options = {"verbose": False, "external_data": False, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model.eval(), args, str(path), **options)
    return path


def operators(path):
    return [node.op_type for node in onnx.load(path).graph.node]


# ONX-003


def test_an_export_without_its_optimiser_keeps_castlike(tmp_path):
    layer, x = nn.TransformerEncoderLayer(8, 2, 16), torch.zeros(5, 2, 8)
    tensorrt = Package("tensorrt", "8.6.1", "target")
    for optimize in (True, False):
        path = exported(layer, (x,), tmp_path / f"{optimize}.onnx", optimize=optimize)
        count = operators(path).count("CastLike")
        assert (count == 0) is optimize
        nodes = [fact for fact in read_onnx(path) if not isinstance(fact, Model)]  # opset 18 is one too many as well
        assert states("ONX-003", *nodes, tensorrt) == ["likely"] * count


def pad(mode):
    pads = numpy_helper.from_array(np.array([0, 1, 0, 1]), "p")
    node = helper.make_node("Pad", ["x", "p"], ["y"], mode=mode)
    return graph_model([node], [("x", FLOAT, [2, 3])], [("y", FLOAT, None)], [pads], 19)


def simple(op, opset, outputs=(("y", FLOAT, [2, 3]),)):
    node = helper.make_node(op, ["x"], [each[0] for each in outputs])
    return graph_model([node], [("x", FLOAT, [2, 3])], outputs, opset=opset)


UINT8 = onnx.TensorProto.UINT8
DYNAMIC = (("y", UINT8, [2, 3]), ("s", FLOAT, []), ("z", UINT8, []))


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        (pad("wrap"), False),
        (simple("Bernoulli", 19), False),
        (pad("reflect"), True),
        (simple("DynamicQuantizeLinear", 19, DYNAMIC), True),
        (simple("Relu", 28), True),
    ],
    ids=["wrap", "bernoulli", "reflect", "dynamic", "opset28"],
)
def test_what_openvino_takes(model, takes, tmp_path):
    openvino = pytest.importorskip("openvino", reason="openvino is not installed")
    path, core = saved(model, tmp_path / "m.onnx"), openvino.Core()
    package = Package("openvino", openvino.__version__.partition("-")[0].rpartition(".")[0], "target")
    if takes:
        core.compile_model(core.read_model(path), "CPU")
    else:
        with pytest.raises(RuntimeError, match=r"Unsupported padding mode|No conversion rule"):
            core.compile_model(core.read_model(path), "CPU")
    assert states("ONX-003", *read_onnx(path), package) == ["likely"] * (not takes)


# ONX-004


def resized(op, opset, mode, scale):
    scales = numpy_helper.from_array(np.array([1, 1, scale, scale], np.float32), "s")
    node = helper.make_node(op, ["x", "s"], ["y"], mode=mode)
    return graph_model([node], [("x", FLOAT, [1, 1, 4, 4])], [("y", FLOAT, None)], [scales], opset)


@pytest.mark.parametrize(("op", "opset"), [("Resize", 10), ("Upsample", 9)])
@pytest.mark.parametrize(
    ("mode", "scale", "moved"),
    [("linear", 2, 1.25), ("linear", 1.5, 0.8333), ("nearest", 2, 0), ("nearest", 1.5, 0), ("nearest", 1.25, 5)],
)
def test_the_version_converter_moves_an_image(op, opset, mode, scale, moved, tmp_path):
    image = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    old = resized(op, opset, mode, scale)
    before = saved(old, tmp_path / "old.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new = version_converter.convert_version(old, 18)
    after = saved(new, tmp_path / "new.onnx")
    assert np.abs(run(before, image)[0] - run(after, image)[0]).max() == pytest.approx(moved, abs=1e-3)
    assert states("ONX-004", *read_onnx(after)) == ["likely"] * (moved > 0)
    call = read_python_text("import onnx\nonnx.version_converter.convert_version(m, 18)\n", path="a.py").facts
    assert states("ONX-004", *read_onnx(before), *call) == ["likely"] * (mode == "linear")
    node = next(each for each in new.graph.node if each.op_type == "Resize")
    node.attribute.extend(
        [
            helper.make_attribute("coordinate_transformation_mode", "asymmetric"),
            helper.make_attribute("nearest_mode", "floor"),
        ]
    )
    mended = saved(new, tmp_path / "mended.onnx")
    np.testing.assert_allclose(run(before, image)[0], run(mended, image)[0], atol=1e-6)
    assert states("ONX-004", *read_onnx(mended)) == []


# ONX-006


class Attention(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


class ByHand(nn.Module):
    def forward(self, q, k, v):
        return ((q @ k.transpose(-1, -2)) * 0.3).softmax(-1) @ v


QKV = tuple(torch.randn(1, 2, 5, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(3))
ROWS = (torch.linspace(-2, 2, 35).reshape(5, 7),)
RUNTIME = Package("onnxruntime", "1.31.1", "target")


@pytest.mark.parametrize(
    ("model", "args", "low", "high", "whole"),
    [
        (Attention(), QKV, 20, 23, "Attention"),
        (nn.RMSNorm(7), ROWS, 20, 23, "RMSNormalization"),
        (nn.GELU(), ROWS, 18, 20, "Gelu"),
    ],
    ids=["attention", "rmsnorm", "gelu"],
)
def test_a_composite_operator_needs_its_opset(model, args, low, high, whole, tmp_path):
    pieces = exported(model, args, tmp_path / "low.onnx", opset_version=low)
    one = exported(model, args, tmp_path / "high.onnx", opset_version=high)
    assert whole not in operators(pieces)
    assert len(operators(pieces)) > 3
    assert operators(one) == [whole]
    arrays = [arg.numpy() for arg in args]
    np.testing.assert_allclose(run(pieces, *arrays)[0], run(one, *arrays)[0], atol=2e-6)
    assert states("ONX-006", *read_onnx(pieces), RUNTIME) == ["advice"]
    assert states("ONX-006", *read_onnx(one), RUNTIME) == []


def test_attention_by_hand_was_never_one_operator(tmp_path):
    path = exported(ByHand(), QKV, tmp_path / "m.onnx", opset_version=20)
    assert states("ONX-006", *read_onnx(path), RUNTIME) == []


# ONX-013


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Rounded(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(7, 3)

    def forward(self, x):
        return Straight.apply(self.linear(x))


@pytest.mark.parametrize("dynamo", [True, False])
def test_a_straight_through_estimator_is_a_plain_round(dynamo, tmp_path):
    path = exported(Rounded(), ROWS, tmp_path / "m.onnx", dynamo=dynamo)
    assert "Round" in operators(path)
    assert not any("grad" in attribute.name for node in onnx.load(path).graph.node for attribute in node.attribute)


def test_training_a_file_that_was_read_back_gets_no_gradient(tmp_path):
    onnx2torch = pytest.importorskip("onnx2torch", reason="onnx2torch is not installed")
    net, x = Rounded(), ROWS[0].clone().requires_grad_()
    path = exported(net, ROWS, tmp_path / "m.onnx", dynamo=False, opset_version=13)
    read_back = onnx2torch.convert(str(path))
    gradients = []
    for each in (net, read_back):
        x.grad = None
        each(x).sum().backward()
        gradients.append(x.grad.clone())
    torch.testing.assert_close(read_back(x), net(x))
    assert gradients[0].abs().max() > 0.1
    assert gradients[1].abs().max() == 0


def test_the_checker_option_is_gone(tmp_path):
    with pytest.raises(TypeError, match="enable_onnx_checker"):
        torch.onnx.export(nn.Linear(7, 3), ROWS, str(tmp_path / "m.onnx"), enable_onnx_checker=True)


# ONX-026

HIDDEN, GATES = 4, {"GRU": (3, (1, 0, 2)), "LSTM": (4, (0, 3, 1, 2))}


def recurrent_file(op, layer, path, order, name="W", **attributes):
    """A node of ONNX with the weights of a torch layer, whose row blocks are taken in this order."""
    count = GATES[op][0]

    def rows(weight):
        return np.concatenate([np.split(weight.detach().numpy(), count)[k] for k in order])

    bias = np.concatenate([rows(layer.bias_ih_l0), rows(layer.bias_hh_l0)])
    arrays = {name: rows(layer.weight_ih_l0), "R": rows(layer.weight_hh_l0), "B": bias}
    node = helper.make_node(op, ["x", *arrays], ["y"], hidden_size=HIDDEN, **attributes)
    tensors = [numpy_helper.from_array(np.ascontiguousarray(array[None]), key) for key, array in arrays.items()]
    return saved(graph_model([node], [("x", FLOAT, [5, 2, 3])], [("y", FLOAT, None)], tensors), path)


def recurrent_error(op, tmp_path, order, **attributes):
    torch.manual_seed(0)
    layer, x = getattr(nn, op)(3, HIDDEN), torch.randn(5, 2, 3)
    path = recurrent_file(op, layer, tmp_path / "m.onnx", order, **attributes)
    return np.abs(run(path, x.numpy())[0][:, 0] - layer(x)[0].detach().numpy()).max()


def test_gates_in_the_order_of_torch_are_wrong(tmp_path):
    assert recurrent_error("LSTM", tmp_path, GATES["LSTM"][1]) < 1e-6
    assert recurrent_error("LSTM", tmp_path, (0, 1, 2, 3)) > 0.1
    assert recurrent_error("GRU", tmp_path, GATES["GRU"][1], linear_before_reset=1) < 1e-6
    assert recurrent_error("GRU", tmp_path, (0, 1, 2), linear_before_reset=1) > 0.1
    assert recurrent_error("GRU", tmp_path, GATES["GRU"][1]) > 0.01


@pytest.mark.parametrize("op", ["GRU", "LSTM"])
def test_only_a_weight_with_its_old_name_is_suspected(op, tmp_path):
    layer = getattr(nn, op)(3, HIDDEN)
    order = range(GATES[op][0])
    by_hand = recurrent_file(op, layer, tmp_path / "hand.onnx", order, name="rnn.weight_ih_l0")
    assert states("ONX-026", *read_onnx(by_hand)) == ["suspected"]
    for dynamo in (True, False):
        path = exported(layer, (torch.zeros(5, 2, 3),), tmp_path / f"{dynamo}.onnx", dynamo=dynamo)
        assert op in operators(path)
        assert states("ONX-026", *read_onnx(path)) == []


# ONX-027


class Reader:
    """Calibration data for onnxruntime.quantization, which asks for this one method."""

    def __init__(self, tensors):
        self.rows = iter([{"x": each.numpy()} for each in tensors])

    def get_next(self):
        return next(self.rows, None)


def int8_noise(activation, folder, **options):
    """Quantise a small depthwise network: its signal to noise ratio in decibels, and the states of the rule."""
    from onnxruntime.quantization import quantize_static

    torch.manual_seed(0)
    norm = nn.BatchNorm2d(8)
    norm.running_var.copy_(torch.logspace(0, -5, 8))
    net = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), norm, activation, nn.Conv2d(8, 4, 1))
    x, *rest = (torch.randn(4, 8, 11, 13, generator=torch.Generator().manual_seed(seed)) for seed in range(9))
    plain = exported(net, (x,), folder / "f.onnx", dynamo=False, opset_version=17, input_names=["x"])
    path = folder / "q.onnx"
    quantize_static(str(plain), str(path), Reader(rest), **options)
    wanted, found = run(plain, x.numpy())[0], run(path, x.numpy())[0]
    return 10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum()), states("ONX-027", *read_onnx(path))


@pytest.mark.parametrize(
    ("activation", "per_channel", "least", "most"),
    [(nn.ReLU6(), False, 15, 22), (nn.ReLU6(), True, 28, 34), (nn.ReLU(), False, 31, 37), (nn.ReLU(), True, 32, 38)],
)
def test_one_scale_for_all_depthwise_filters(activation, per_channel, least, most, tmp_path):
    from onnxruntime.quantization import QuantFormat

    noise, found = int8_noise(activation, tmp_path, per_channel=per_channel, quant_format=QuantFormat.QOperator)
    assert least < noise < most
    assert found == ["suspected"] * (not per_channel)


@pytest.mark.parametrize("per_channel", [False, True])
def test_the_default_format_needs_a_reduced_range_without_vnni(per_channel, tmp_path):
    features = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    if "avx2" not in features or "vnni" in features:
        pytest.skip("the products overflow on x86 CPUs without VNNI only")
    full, found = int8_noise(nn.ReLU6(), tmp_path, per_channel=per_channel)
    reduced, _ = int8_noise(nn.ReLU6(), tmp_path, per_channel=per_channel, reduce_range=True)
    assert full < 13
    assert reduced > full + 4
    assert bool(reduced > 25) is per_channel
    assert found == ["suspected"] * (not per_channel)


# ONX-031, ONX-032, ONX-045: a GPU would be needed to see the effect, so the words that the rules match are checked.


@pytest.mark.parametrize(
    "word",
    [
        "enable_cuda_graph",
        "trt_cuda_graph_enable",
        "gpu_graph_id",
        "gpu_mem_limit",
        "arena_extend_strategy",
        "kNextPowerOfTwo",
        "kSameAsRequested",
        "cudnn_conv_use_max_workspace",
        "memory.enable_memory_arena_shrinkage",
        "cudnn_conv_algo_search",
        "EXHAUSTIVE",
        "HEURISTIC",
        "trt_engine_cache_enable",
        "trt_engine_cache_path",
        "trt_timing_cache_enable",
        "ORT_TENSORRT_ENGINE_CACHE_ENABLE",
    ],
)
def test_the_options_that_rules_name_exist(word):
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        pytest.skip("this onnxruntime was built without CUDA")
    libraries = Path(ort.__file__).parent.joinpath("capi").glob("*.so")
    assert any(word.encode() in library.read_bytes() for library in libraries)


def test_no_option_sets_a_mode_of_graph_capture():
    for options in (ort.RunOptions, ort.SessionOptions):
        assert not [name for name in dir(options) if "graphcapture" in name.lower().replace("_", "")]
    assert hasattr(ort.OrtValue, "update_inplace")
    assert hasattr(ort.IOBinding, "bind_ortvalue_input")
    assert hasattr(ort.IOBinding, "bind_cpu_input")


# ONX-039


def loads(path):
    """Whether a session can be made of a file, as the measurement that a scan makes."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        assert "No Op registered" in str(error)
        return Measurement("session.loads", "model", False, target="onnxruntime")
    return Measurement("session.loads", "model", True, target="onnxruntime")


@pytest.mark.parametrize(("operator", "state"), [("Erfc", "confirmed"), ("Erf", "refuted")])
def test_a_session_settles_whether_tensorflow_operators_were_left(operator, state, tmp_path):
    path = saved(simple(operator, 17), tmp_path / "m.onnx")
    python = "import tensorflow as tf, tf2onnx\ny = tf.nn.gelu(x)\ntf2onnx.convert.from_function(f)\n"
    store = FactStore([*read_onnx(path), *read_python_text(python, path="a.py").facts, loads(path)])
    matches = match_rules(RULES, store, source="tensorflow", target="onnxruntime")
    found = [settle_confirm(match, store).state for match in matches if match.rule.id == "ONX-039"]
    assert found == [state] * (2 if operator == "Erfc" else 1)  # the call, and the node that was left


# ONX-040


@pytest.mark.parametrize(("count", "rows"), [(2, 0), (3, 2), (4, 3), (5, 3)])
def test_suppression_without_a_limit_selects_nothing(count, rows, tmp_path):
    boxes = np.array([[0, 0, 1, 1], [0, 0.05, 1, 1.05], [0, 0.5, 1, 1.5], [0, 10, 1, 11]], np.float32)[None]
    scores = np.array([0.9, 0.8, 0.7, 0.6], np.float32)[None, None]
    limits = {"n": np.array([10]), "iou": np.array([0.5], np.float32), "score": np.array([0], np.float32)}
    tensors = [numpy_helper.from_array(array, name) for name, array in limits.items()][: count - 2]
    node = helper.make_node("NonMaxSuppression", ["b", "s", *(each.name for each in tensors)], ["y"])
    ends = [("b", FLOAT, [1, 4, 4]), ("s", FLOAT, [1, 1, 4])], [("y", INT64, None)]
    path = saved(graph_model([node], *ends, tensors), tmp_path / "m.onnx")
    assert run(path, boxes, scores)[0].shape == (rows, 3)
    assert states("ONX-040", *read_onnx(path), RUNTIME) == ["certain"] * (count == 2)


def test_an_encoder_leaves_padded_places_at_zero_and_its_export_does_not(tmp_path):
    """ONX-022: the nested tensor of PyTorch's fast path has no padded places; kept ones agree."""
    x, padded = torch.randn(2, 5, 16), torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 1]], dtype=torch.bool)

    def off(nested):
        torch.manual_seed(1)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested).eval()
        path = exported(encoder, (x, None, padded), tmp_path / f"{nested}.onnx", dynamo=True)
        with torch.no_grad():
            reference = encoder(x, None, padded)
        gap = np.abs(run(path, x.numpy(), padded.numpy())[0] - reference.numpy()).max(axis=-1)
        return reference.numpy()[padded.numpy()], gap[padded.numpy()].max(), gap[~padded.numpy()].max()

    at_padding, there, elsewhere = off(nested=True)
    assert not at_padding.any() and there > 0.5 and elsewhere < 1e-5
    assert max(off(nested=False)[1:]) < 1e-5
