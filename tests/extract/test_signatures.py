"""The table of parameter names against the installed packages, and what is known of results against torch's stubs."""

import ast
import importlib.util
import inspect
import json
import os
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tensoraudit.extract import known_results
from tensoraudit.extract.python_source import read_python_text
from tensoraudit.extract.signatures import _holds, default, positional, release, signatures
from tensoraudit.extract.signatures_table import SIGNATURES
from tensoraudit.facts import ABSENT, Call, Name, Unknown

POSITIONAL = {name: signatures(name)[-1].positional for name in SIGNATURES}
"""Those of the newest version."""

MEANT: dict[str, set[str]] = {
    "torch.compile": {"backend"},
    "torch.load": {"weights_only"},
    "torch.serialization.load": {"weights_only"},
    "torch.utils.checkpoint.checkpoint": {"use_reentrant"},
    "torch.utils.checkpoint.checkpoint_sequential": {"use_reentrant"},
    "torch.nn.parallel.DistributedDataParallel": {"broadcast_buffers", "bucket_cap_mb"},
    "torch.nn.parallel.distributed.DistributedDataParallel": {"broadcast_buffers", "bucket_cap_mb"},
    "torch.nn.functional.grid_sample": {"align_corners"},
    "torch.nn.functional.affine_grid": {"align_corners"},
    "torch.nn.functional.interpolate": {"align_corners"},
    "torch.nn.functional.upsample": {"align_corners"},
}
"""Where the signature says None and the table what None stands for."""

_STUBS_ONLY = {
    # made by torch.jit.boolean_dispatch: the signature that the documentation gives is that of the inner function
    "torch.nn.functional.max_pool1d", "torch.nn.functional.max_pool2d", "torch.nn.functional.max_pool3d",
}  # fmt: skip


def test_positional_names_in_order():
    assert positional("torch.load") == ("f", "map_location", "pickle_module")
    assert positional("torch.nn.Dropout") == ("p", "inplace")
    assert positional("nowhere.f") == ()


EXPORT_2_4 = (
    "model args f export_params verbose training input_names output_names operator_export_type opset_version "
    "do_constant_folding dynamic_axes keep_initializers_as_inputs custom_opsets export_modules_as_functions "
    "autograd_inlining dynamo"
)
DISTRIBUTED_2_6 = (
    "module device_ids output_device dim broadcast_buffers process_group bucket_cap_mb find_unused_parameters "
    "check_reduction gradient_as_bucket_view static_graph"
)
KERAS_1_9 = (
    "model input_signature opset custom_ops custom_op_handlers custom_rewriter inputs_as_nchw extra_opset "
    "shape_override target large_model output_path"
)


@pytest.mark.parametrize(
    ("callee", "version", "names"),
    [
        ("torch.onnx.export", "1.13.1", EXPORT_2_4.removesuffix(" autograd_inlining dynamo")),
        ("torch.onnx.export", "2.3.1", EXPORT_2_4.removesuffix(" dynamo")),
        ("torch.onnx.export", "2.4.1", EXPORT_2_4),
        ("torch.onnx.export", "2.5.0", "model args f"),
        ("torch.onnx.export", "2.13.0+cpu", "model args f"),
        ("torch.nn.parallel.DistributedDataParallel", "2.6.0", DISTRIBUTED_2_6),
        (
            "torch.nn.parallel.DistributedDataParallel",
            "2.7.0",
            DISTRIBUTED_2_6.replace("process_group", "init_sync process_group"),
        ),
        ("torch.nn.LayerNorm", "2.0.1", "normalized_shape eps elementwise_affine device dtype"),
        ("torch.nn.LayerNorm", "2.1.0", "normalized_shape eps elementwise_affine bias device dtype"),
        ("torch.optim.NAdam", "1.13.1", "params lr betas eps weight_decay momentum_decay foreach"),
        ("torch.optim.NAdam", "2.0.1", "params lr betas eps weight_decay momentum_decay"),
        ("torch.optim.NAdam", "2.1.2", "params lr betas eps weight_decay momentum_decay decoupled_weight_decay"),
        ("torch.utils.checkpoint.checkpoint_sequential", "1.13.1", "functions segments input"),
        ("torch.utils.checkpoint.checkpoint_sequential", "2.0.0", "functions segments input use_reentrant"),
        ("tf2onnx.convert.from_keras", "1.9.3", KERAS_1_9),
        ("tf2onnx.convert.from_keras", "1.11.1", f"{KERAS_1_9} optimizers"),
        (
            "tf2onnx.convert.from_keras",
            "1.16.1",
            KERAS_1_9.replace("extra_opset", "outputs_as_nchw extra_opset") + " optimizers",
        ),
    ],
)
def test_parameters_of_a_version(callee, version, names):
    (own,) = [each for each in signatures(callee) if _holds(each, version)]
    assert own.positional == tuple(names.split())


@pytest.mark.parametrize("callee", sorted(SIGNATURES))
def test_versions_follow_each_other_without_a_gap(callee):
    found = signatures(callee)
    assert (found[0].since, found[-1].until) == (None, None)
    assert [each.until for each in found[:-1]] == [each.since for each in found[1:]]
    for each in found:
        names = [parameter.name for parameter in each.parameters]
        assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("callee", "given", "index", "name"),
    [
        ("torch.onnx.export", 3, 2, "f"),
        ("torch.onnx.export", 4, 3, "export_params"),  # only versions before 2.5 take so many
        ("torch.nn.parallel.DistributedDataParallel", 6, 4, "broadcast_buffers"),
        ("torch.nn.parallel.DistributedDataParallel", 6, 5, ""),  # process_group, from 2.7 on init_sync
        ("onnxruntime.quantization.quantize_dynamic", 6, 5, ""),  # activation_type, from 1.11 on weight_type
        ("torch.export.export", 1, 0, "mod"),
        ("torch.nn.LayerNorm", 4, 3, ""),  # device, from 2.1 on bias
    ],
)
def test_a_position_is_named_where_all_versions_that_take_the_call_agree(callee, given, index, name):
    assert positional(callee, given)[index] == name


def test_an_argument_that_no_one_can_name_keeps_its_index_alone():
    text = "from torch.nn.parallel import DistributedDataParallel as D\nD(m, None, None, 0, True, g)\nD(m, dim=0)"
    first, second = [fact for fact in read_python_text(text).facts if isinstance(fact, Call)]
    assert set(first.args) == {
        0, 1, 2, 3, 4, 5, "module", "device_ids", "output_device", "dim", "broadcast_buffers"
    }  # fmt: skip
    assert set(second.args) == {0, "module", "dim"}


MANY = 99
"""More positional arguments than anything takes."""


def test_more_arguments_than_any_version_takes_are_no_fault():
    assert positional("torch.load", MANY) == ("f", "map_location", "pickle_module")
    assert positional("torch.onnx.export", MANY)[:3] == ("model", "args", "f")


IMPL = "torch.distributed.algorithms._checkpoint.checkpoint_wrapper"


@pytest.mark.parametrize(
    ("callee", "parameter", "version", "value"),
    [
        ("torch.load", "weights_only", "2.5.1", False),
        ("torch.load", "weights_only", "2.6.0", True),
        ("torch.load", "weights_only", "2.6.0.dev20241101", True),
        ("torch.load", "map_location", None, None),
        ("torch.onnx.export", "dynamo", "2.3.1", ABSENT),
        ("torch.onnx.export", "dynamo", "2.8.0", False),
        ("torch.onnx.export", "dynamo", "2.9", True),
        ("torch.onnx.export", "dynamo", "2.10.0", True),
        ("torch.utils.checkpoint.checkpoint", "use_reentrant", None, True),
        ("torch.export.export", "strict", "2.7.1", True),
        ("torch.export.export", "strict", "2.8", False),
        ("torch.amp.GradScaler", "init_scale", None, 65536.0),
        ("torch.optim.AdamW", "weight_decay", None, 0.01),
        ("torch.optim.Adam", "betas", None, (0.9, 0.999)),
        (f"{IMPL}.checkpoint_wrapper", "checkpoint_impl", "2.1", Name(f"{IMPL}.CheckpointImpl.REENTRANT")),
        (f"{IMPL}.checkpoint_wrapper", "checkpoint_impl", "2.2", Name(f"{IMPL}.CheckpointImpl.NO_REENTRANT")),
        ("tensorflow.image.resize", "method", None, "bilinear"),
    ],
)
def test_what_leaving_an_argument_out_means(callee, parameter, version, value):
    found = default(callee, (parameter,), version)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("callee", "parameter", "version", "reason"),
    [
        ("torch.load", "weights_only", None, "depends on the version of torch"),
        ("torch.onnx.export", "dynamo", None, "depends on the version of torch"),
        ("torch.load", "pickle_module", "2.6", "what leaving out pickle_module means is not known"),
        ("nowhere.f", "x", "1.0", "the parameters of nowhere.f are not known"),
    ],
)
def test_a_default_that_is_not_known(callee, parameter, version, reason):
    found = default(callee, (parameter,), version)
    assert isinstance(found, Unknown)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("smaller", "larger"), [("2.9", "2.10"), ("2.9.1", "2.10.0"), ("1.16.3", "1.16.10"), ("2", "2.0.1")]
)
def test_versions_are_compared_as_numbers(smaller, larger):
    assert release(smaller) < release(larger)
    assert release("2.6") == release("2.6.0") == release("2.6.0+cpu") == release("2.6.0rc1")


@pytest.mark.parametrize("receiver", ["torch.Tensor()", "?", "?.grad", "self.buffer"])
def test_tensor_methods_are_known_by_name(receiver):
    assert positional(f"{receiver}.index_put_") == ("indices", "values", "accumulate")


def test_other_methods_need_their_receiver():
    assert positional("onnxruntime.InferenceSession().run") == ("output_names", "input_feed", "run_options")
    assert positional("?.run") == ()


CHECKED = sorted(set(POSITIONAL) - _STUBS_ONLY)
ELSEWHERE = [name for name in CHECKED if importlib.util.find_spec(name.partition(".")[0]) is None]
HERE = [name for name in CHECKED if name not in ELSEWHERE]


def found(name):
    parts = name.replace("()", "").split(".")
    for length in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        return value
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_the_table_agrees_with_the_installed_package(name):
    value = found(name)
    assert value is not None, f"{name} does not exist"
    try:
        signature = inspect.signature(value)
    except ValueError:  # built in
        assert POSITIONAL[name] in stubbed(name)
        return
    told = {each.name: each.default for each in signatures(name)[-1].parameters}
    real = {key: p.default for key, p in signature.parameters.items() if p.default is not p.empty}
    wrong = {key: (value, real.get(key)) for key, value in told.items() if not same(value, real.get(key, ABSENT))}
    assert set(wrong) == MEANT.get(name, set()), wrong
    assert all(real[key] is None for key in wrong)
    names = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if "()" in name:
        names = names[1:]
    assert names[: len(POSITIONAL[name])] == list(POSITIONAL[name])


def same(told, real):
    """Whether a default of the table is the real one; one that the table leaves open is."""
    if isinstance(told, Name):
        return told.name.endswith(f".{real}")
    return told is ABSENT or (type(told) is type(real) and told == real)


def stubbed(name):
    """The positional parameters of every overload in torch's stubs or, for what is built in, its docstring."""
    head, _, last = name.rpartition(".")
    overloads = [tuple(names) for names in definitions()[head == "torch.Tensor()"][last]]
    text = inspect.getdoc(found(name)) or ""
    first = text.split(" -> ")[0].removeprefix("torch.nn.functional.")
    for line in (first, *text.splitlines()):
        if line.startswith(f"{last}("):
            inner = line[len(last) + 1 : line.rindex(")")] if ")" in line else ""
            names = (part.split("=")[0].strip() for part in inner.split(","))
            overloads.append(tuple(name for name in names if name.isidentifier()))
    wanted = POSITIONAL[name]
    return {tuple(n for n in overload if n not in ("self", "*"))[: len(wanted)] for overload in overloads}


@cache
def stubs():
    """The definitions in torch's stubs: functions, tensor methods."""
    torch = pytest.importorskip("torch")
    folder = Path(torch.__file__).parent / "_C"
    functions = ast.parse((folder / "_VariableFunctions.pyi").read_text()).body
    module = ast.parse((folder / "__init__.pyi").read_text()).body
    (tensor,) = (node.body for node in module if isinstance(node, ast.ClassDef) and node.name == "TensorBase")
    return functions, tensor


def definitions():
    return [by_name(body, parameters) for body in stubs()]


def parameters(node):
    return [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]


def by_name(body, read):
    result = defaultdict(list)
    for node in body:
        if isinstance(node, ast.FunctionDef):
            result[node.name].append(read(node))
    return result


def returns():
    return [by_name(body, lambda node: ast.unparse(node.returns) if node.returns else "?") for body in stubs()]


@pytest.mark.slow
def test_functions_said_to_return_a_tensor_do_in_every_overload():
    functions, _ = returns()
    wrong = {name: functions[name] for name in known_results.TENSOR_FUNCTIONS if set(functions[name]) - {"Tensor"}}
    assert wrong == {}
    # from_numpy, ... are not in this stub, but they exist
    torch = pytest.importorskip("torch")
    assert [name for name in known_results.TENSOR_FUNCTIONS if not hasattr(torch, name)] == []


@pytest.mark.slow
def test_every_tensor_method_that_may_return_something_else_is_listed():
    _, methods = returns()
    other = {
        name for name, results in methods.items() if not name.startswith("_") and set(results) - {"Tensor", "Self"}
    }
    assert other - known_results.OTHER_METHODS == set()


@pytest.mark.slow
def test_module_methods_and_layers_exist():
    torch = pytest.importorskip("torch")
    assert [name for name in known_results.MODULE_METHODS if not hasattr(torch.nn.Module, name)] == []
    assert known_results.FLUENT <= known_results.MODULE_METHODS
    layers = [getattr(torch.nn, name) for name in known_results.TENSOR_MODULES]
    assert all(issubclass(layer, torch.nn.Module) for layer in layers)
    said = [name for name in dir(torch.nn) if known_results.is_module_class(f"torch.nn.{name}")]
    assert [name for name in said if not issubclass(getattr(torch.nn, name), torch.nn.Module)] == []


def test_results():
    assert known_results.result("torch.relu") == known_results.TENSOR
    assert known_results.result("torch.nn.functional.gelu") == known_results.TENSOR
    assert known_results.result("torch.nn.functional.max_pool2d") is None
    assert known_results.result("torch.Tensor().view") == known_results.TENSOR
    assert known_results.result("torch.Tensor().item") is None
    assert known_results.result("torch.nn.Conv2d().__call__") == known_results.TENSOR
    assert known_results.result("torch.nn.LSTM().__call__") is None
    assert known_results.result("torch.load") is None
    assert known_results.result("len") == "int()"


REMOVED = {"jax.ad_checkpoint.checkpoint"}
"""Names of older versions, which nobody's signature tells any more."""


@pytest.fixture(scope="module")
def elsewhere():
    """The signatures that the interpreter of the other frameworks has."""
    python = os.environ.get("TENSORAUDIT_JAX_PYTHON")
    if not python:
        pytest.skip("TENSORAUDIT_JAX_PYTHON names no interpreter")
    script = Path(__file__).with_name("installed_signatures.py")
    done = subprocess.run([python, str(script), *ELSEWHERE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", ELSEWHERE)
def test_the_table_agrees_with_the_package_of_another_interpreter(elsewhere, name):
    if elsewhere[name] is None and not name.startswith("onnxconverter_common."):
        assert name in REMOVED
        return
    if elsewhere[name] is None:
        pytest.skip("onnxconverter_common is not installed")
    names, defaults = elsewhere[name]
    told = {each.name: each.default for each in signatures(name)[-1].parameters}
    wrong = {key for key, value in told.items() if not same_there(value, defaults.get(key))}
    assert wrong == MEANT.get(name, set())
    assert all(defaults[key] == [True, None] for key in wrong)
    assert names[: len(POSITIONAL[name])] == list(POSITIONAL[name])


def same_there(told, real):
    """As `same`, of a default that came as text unless it is plain."""
    if real is None:
        return told is ABSENT
    is_plain, value = real
    return same(told, value) if is_plain or isinstance(told, Name) else told is ABSENT or str(told) == value
