"""The table of parameter names against the installed packages, and what is known of results against torch's stubs."""

import ast
import importlib
import inspect
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tensoraudit.extract import known_results
from tensoraudit.extract.signatures import POSITIONAL, positional

_STUBS_ONLY = {
    # made by torch.jit.boolean_dispatch: the signature that the documentation gives is that of the inner function
    "torch.nn.functional.max_pool1d", "torch.nn.functional.max_pool2d", "torch.nn.functional.max_pool3d",
}  # fmt: skip


def test_positional_names_in_order():
    assert positional("torch.load") == ("f", "map_location", "pickle_module")
    assert positional("torch.nn.Dropout") == ("p", "inplace")
    assert positional("nowhere.f") == ()


@pytest.mark.parametrize("receiver", ["torch.Tensor()", "?", "?.grad", "self.buffer"])
def test_tensor_methods_are_known_by_name(receiver):
    assert positional(f"{receiver}.index_put_") == ("indices", "values", "accumulate")


def test_other_methods_need_their_receiver():
    assert positional("onnxruntime.InferenceSession().run") == ("output_names", "input_feed", "run_options")
    assert positional("?.run") == ()


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
@pytest.mark.parametrize("name", sorted(set(POSITIONAL) - _STUBS_ONLY))
def test_the_table_agrees_with_the_installed_package(name):
    root = name.partition(".")[0]
    pytest.importorskip(root)
    value = found(name)
    assert value is not None, f"{name} does not exist"
    try:
        signature = inspect.signature(value)
    except ValueError:  # built in
        assert POSITIONAL[name] in stubbed(name)
        return
    names = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if "()" in name:
        names = names[1:]
    assert names[: len(POSITIONAL[name])] == list(POSITIONAL[name])


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
