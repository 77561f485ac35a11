"""What the rules claim about frameworks, tried on the installed ones: models that a rule suspects are converted and
measured, and the rule must come out confirmed for the one and refuted for the other.

The measurements are taken here, by torch and ONNX Runtime directly, with the names that the probes use.
"""

import ast
import importlib.util
import signal
import subprocess
import sys
import warnings
from importlib.metadata import distributions
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.equivalence.comparison import compare_arrays
from tensoraudit.extract.onnx import read_onnx
from tensoraudit.extract.python_source import read_python, read_python_text
from tensoraudit.facts import Measurement, Package
from tensoraudit.facts.store import FactStore
from tensoraudit.language.confirm import settle_confirm
from tensoraudit.language.engine import match_rules
from tensoraudit.language.load import load_rules, rules_folder

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

FIXTURES = Path(__file__).parents[2] / "fixtures" / "rules"
RULES = load_rules([rules_folder()])
ROUTES = {"dynamo": "torch_onnx_dynamo", "torchscript": "torch_onnx_torchscript"}
GOOD = {"identical", "equivalent", "noise"}


def load_fixture(rule):
    path = FIXTURES / f"{rule.lower().replace('-', '_')}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, path


def environment():
    packages = {d.metadata["Name"].lower(): d.version for d in distributions() if d.metadata["Name"]}
    return [Package(name, version, "both") for name, version in packages.items()]


def export(model, args, path, route, dynamic=None, **options):
    names = list(dynamic or {}) or None
    if route == "dynamo":
        shapes = tuple(dict(axes) for axes in dynamic.values()) if dynamic else None
        options = {"external_data": False, "verbose": False, "dynamic_shapes": shapes, **options}
    else:
        options = {"input_names": names, "dynamic_axes": dynamic, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, args, str(path), dynamo=route == "dynamo", **options)
    return path


def session(path):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run_file(opened, args):
    feeds = {each.name: arg.numpy() for each, arg in zip(opened.get_inputs(), args, strict=True)}
    return opened.run(None, feeds)


def run_model(model, args):
    with torch.no_grad():
        found = model(*(arg.clone() for arg in args))
    return [each.resolve_conj().numpy() for each in (found if isinstance(found, tuple) else (found,))]


def named(arrays):
    return {f"output.{number}": array for number, array in enumerate(arrays)}


def compared(wanted, found):
    """Name to verdict. A complex output that comes back as pairs of real numbers is another dtype: a break."""
    pairs = {name: (a, b) for (name, a), b in zip(named(wanted).items(), found, strict=True)}
    verdicts = {name: "break" for name, (a, b) in pairs.items() if np.iscomplexobj(a) and a.dtype != b.dtype}
    rest = {name: pair for name, pair in pairs.items() if name not in verdicts}
    if rest:
        sides = ({name: pair[side] for name, pair in rest.items()} for side in (0, 1))
        verdicts |= {each.name: str(each.verdict) for each in compare_arrays(*sides).outputs}
    return verdicts


class Measurer:
    """Takes the measurements of one conversion."""

    def __init__(self, make, route):
        self.build, self.rows, self.route = make, [], ROUTES[route]
        self.add("conversion.route", "model", self.route)

    def make(self):
        """A new model with the same weights each time: a pass may change it."""
        torch.manual_seed(0)
        return self.build().eval()

    def add(self, metric, subject, value):
        self.rows.append(Measurement(metric, subject, value, target="onnx"))

    def reference(self, args):
        model = self.make()
        before = {name: buffer.clone() for name, buffer in model.named_buffers()}
        first, second = run_model(model, args), run_model(model, args)
        same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=True))
        changed = [name for name, buffer in model.named_buffers() if not torch.equal(buffer, before[name])]
        self.add("reference.deterministic", "model", same)
        self.add("reference.state_changed", "model", changed)

    def candidate(self, path, inputs, sizes):
        try:
            opened = session(path)
        except Exception as error:
            self.add("session.loads", self.route, False)
            self.add("session.error", self.route, str(error))
            return
        self.add("session.loads", self.route, True)
        self.add("conversion.status", "model", "ok")
        self.add("export.status", self.route, "ok")
        for number, args in enumerate(inputs):
            self.outputs(opened, f"random-{number}", args)
        for label, args in sizes.items():
            self.size(opened, label, args)

    def other_route(self, args, path, dynamic):
        """Whether the exporter that is not shipped takes the model at all."""
        route = "dynamo" if self.route == ROUTES["torchscript"] else "torchscript"
        try:
            export(self.make(), tuple(arg.clone() for arg in args), path, route, dynamic)
        except Exception:
            self.add("export.status", ROUTES[route], "failed")
        else:
            self.add("export.status", ROUTES[route], "ok")

    def outputs(self, opened, name, args):
        try:
            first, second = run_file(opened, args), run_file(opened, args)
        except Exception as error:
            self.add("run.error", name, str(error))
            return
        same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=True))
        self.add("candidate.deterministic", "model", same)
        wanted = run_model(self.make(), args)
        for output, verdict in compared(wanted, first).items():
            self.add("output.verdict", output, verdict)
        for number, (a, b) in enumerate(zip(wanted, first, strict=True)):
            self.add("output.nan_reference", f"output.{number}", int(np.isnan(a).sum()))
            self.add("output.nan_candidate", f"output.{number}", int(np.isnan(b).sum()))

    def size(self, opened, label, args):
        try:
            found = run_file(opened, args)
        except Exception as error:
            self.add("sizes.error", label, str(error))
            self.add("sizes.verdict", label, "break")
            return
        for verdict in compared(run_model(self.make(), args), found).values():
            self.add("sizes.verdict", label, verdict)


def lines_of(path, model):
    """The lines of the model's class: its twin in the same file is not asked about."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    own = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == type(model).__name__)
    return range(own.lineno, own.end_lineno + 1)


def states(rule, store, keep=lambda match: True):
    matches = match_rules(RULES, store, source="pytorch", target="onnx")
    return [settle_confirm(match, store).state for match in matches if match.rule.id == rule and keep(match)]


MODELS = sorted(path.stem.upper().replace("_", "-") for path in FIXTURES.glob("onx_*.py"))


@pytest.mark.parametrize("which", ["confirms", "refutes"])
@pytest.mark.parametrize("rule", MODELS)
def test_a_model_settles_its_rule(rule, which, tmp_path):
    fixture, path = load_fixture(rule)
    make = getattr(fixture, which)
    route = fixture.ROUTE if isinstance(fixture.ROUTE, str) else fixture.ROUTE[which]
    inputs, sizes, dynamic = fixture.inputs(), getattr(fixture, "sizes", dict)(), getattr(fixture, "DYNAMIC", None)
    measurer = Measurer(make, route)
    measurer.add("export.dynamic_requested", measurer.route, [str(dynamic)] if dynamic else [])
    measurer.reference(inputs[0])
    file = export(measurer.make(), tuple(arg.clone() for arg in inputs[0]), tmp_path / "m.onnx", route, dynamic)
    measurer.candidate(file, inputs, sizes)
    if getattr(fixture, "BOTH_ROUTES", False):
        measurer.other_route(inputs[0], tmp_path / "other.onnx", dynamic)
    facts = [*read_python([path], root=FIXTURES).facts, *read_onnx(file), *environment(), *measurer.rows]
    own = lines_of(path, make())
    found = states(rule, FactStore(facts), lambda match: match.where.line is None or match.where.line in own)
    assert found, "the rule does not suspect this model"
    assert set(found) == {"confirmed" if which == "confirms" else "refuted"}, measurer.rows


def settled(rule, facts, python=""):
    """The states of a rule over facts, and over a text of source code. What the facts say of a package holds."""
    source = read_python_text(python, path="export.py").facts if python else []
    told = {fact.name for fact in facts if isinstance(fact, Package)}
    runtime = "onnxruntime" in told
    here = [p for p in environment() if p.name not in told and not (runtime and p.name.startswith("onnxruntime"))]
    return set(states(rule, FactStore([*facts, *source, *here])))


class Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(7)

    def forward(self, x):
        return self.norm(torch.nn.functional.gelu(x))


class Mean(torch.nn.Module):
    def forward(self, x):
        return x.sum(0) / len(x)


class Right(torch.nn.Module):
    def forward(self, x):
        return x.mean(0)


X = torch.linspace(-1, 1, 14).reshape(2, 7)


def opset_below_18(asked):
    """ONX-005: the dynamo exporter writes 18 for 13, and honours 17."""

    def facts(folder):
        file = export(Normed().eval(), (X,), folder / "m.onnx", "dynamo", opset_version=asked)
        written = next(each.version for each in onnx.load(file).opset_import if not each.domain)
        python = f"import torch\ntorch.onnx.export(m, (x,), 'm.onnx', opset_version={asked}, dynamo=True)\n"
        return [
            Measurement("export.opset_requested", ROUTES["dynamo"], asked),
            Measurement("export.opset_written", ROUTES["dynamo"], written),
        ], python

    return facts


def sizes_of(make, folder, shapes):
    """Export at batch 2 with these dynamic shapes; then measure at 2 and 5."""
    measurer = Measurer(make, "dynamo")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = folder / "m.onnx"
        options = {"external_data": False, "verbose": False}
        torch.onnx.export(make().eval(), (X,), file, dynamo=True, dynamic_shapes=shapes, **options)
    sizes = {f"batch={n}": (torch.linspace(-1, 2, 7 * n).reshape(n, 7),) for n in (2, 5)}
    measurer.candidate(file, [(X,)], sizes)
    return measurer


def dimension_auto(make):
    """ONX-010: the input keeps a symbol, and only another size can tell."""

    def facts(folder):
        measurer = sizes_of(make, folder, ({0: torch.export.Dim.AUTO},))
        measurer.add("export.dynamic_lost", measurer.route, [])
        return measurer.rows, (
            "import torch\ntorch.onnx.export(m, (x,), 'm.onnx', dynamic_shapes=({0: torch.export.Dim.AUTO},))\n"
        )

    return facts


def shapes_overwritten(make):
    """ONX-037: what `overwrite_input_shapes` does to a model (its dimensions become numbers), done by the exporter."""

    def facts(folder):
        shapes = None if make is Mean else ({0: torch.export.Dim("batch")},)
        return sizes_of(make, folder, shapes).rows, (
            "import onnxsim\nonnxsim.simplify(model, overwrite_input_shapes={'x': [2, 7]})\n"
        )

    return facts


def test_a_dimension_declared_by_a_dim_object_may_be_written_static(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = ({0: torch.export.Dim("batch")},)
        torch.onnx.export(
            Mean().eval(),
            (X,),
            tmp_path / "m.onnx",
            dynamo=True,
            dynamic_shapes=shapes,
            external_data=False,
            verbose=False,
        )
    written = onnx.load(tmp_path / "m.onnx").graph.input[0].type.tensor_type.shape.dim[0]
    assert written.dim_value == 2


def one_node(op, inputs, output, *, opset=17, ir=8, domain="", weights=()):
    """A model of one node. `inputs` and `output`: (name, ONNX dtype, shape)."""
    make = onnx.helper.make_tensor_value_info
    names = [each[0] for each in inputs] + [each.name for each in weights]
    node = onnx.helper.make_node(op, names, [output[0]], domain=domain)
    graph = onnx.helper.make_graph([node], "g", [make(*each) for each in inputs], [make(*output)], list(weights))
    imports = [onnx.helper.make_opsetid("", opset), *([onnx.helper.make_opsetid(domain, 1)] if domain else [])]
    model = onnx.helper.make_model(graph, opset_imports=imports)
    model.ir_version = ir
    return model


FLOAT, BFLOAT16 = onnx.TensorProto.FLOAT, onnx.TensorProto.BFLOAT16
RELU = [("x", FLOAT, [2])], ("y", FLOAT, [2])


def loads(model, folder):
    """Save a model and say whether a session can be made of it, as measurements; facts of the file beside them."""
    path = folder / "m.onnx"
    onnx.save(model, path)
    measurer = Measurer(lambda: None, "dynamo")
    measurer.candidate(path, [], {})
    return [*read_onnx(path), *measurer.rows]


def newest_stamp(folder):
    """ONX-002: onnx 1.23 writes IR 14, and ONNX Runtime 1.31.1 reads 13 at most."""
    return loads(one_node("Relu", *RELU, ir=14), folder), ""


def stamp_of_an_old_table(folder):
    """ONX-002: the package says 1.20.1, which reads IR 10 at most, and the session that really ran took it."""
    return [*loads(one_node("Relu", *RELU, ir=13), folder), Package("onnxruntime", "1.20.1", "target")], ""


def ceil_mode(divide_by_kernel):
    """ONX-023: y = AveragePool of [1, 2, 3] with kernel 2, stride 2, pad 0 / 1, in ceil mode and counting the padding.

    The last window holds 3 and one padded zero, which counts: (3 + 0) / 2. ONNX Runtime before 1.21 divided the sum of
    a window by the number of its cells inside the unpadded input, which is 1 there.
    """

    def facts(folder):
        model = one_node("AveragePool", [("x", FLOAT, [1, 1, 3])], ("y", FLOAT, [1, 1, 2]))
        attributes = {"kernel_shape": [2], "strides": [2], "pads": [0, 1], "ceil_mode": 1, "count_include_pad": 1}
        model.graph.node[0].attribute.extend(onnx.helper.make_attribute(*each) for each in attributes.items())
        x, right = np.array([[[1, 2, 3]]], np.float32), np.array([[[1.5, 1.5]]], np.float32)
        rows = loads(model, folder)
        found = session(folder / "m.onnx").run(None, {"x": x}) if divide_by_kernel else [np.float32([[[1.5, 3.0]]])]
        rows += [Measurement("output.verdict", name, word) for name, word in compared([right], found).items()]
        return [*rows, Package("onnxruntime", "1.20.1", "target")], ""

    return facts


def bfloat16_product(folder):
    """ONX-029: the CPU provider has no kernel."""
    weight = onnx.helper.make_tensor("w", BFLOAT16, [2, 3], [1.0] * 6)
    return loads(one_node("MatMul", [("x", BFLOAT16, [5, 2])], ("y", BFLOAT16, [5, 3]), weights=[weight]), folder), ""


def bfloat16_product_never_taken(folder):
    """ONX-029: the branch that holds the product is removed before anything asks for its kernel."""
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    weight = onnx.helper.make_tensor("w", BFLOAT16, [2, 3], [1.0] * 6)
    taken = onnx.helper.make_graph([make("Cast", ["x"], ["t"], to=FLOAT)], "taken", [], [info("t", FLOAT, None)])
    nodes = [make("MatMul", ["x", "w"], ["p"]), make("Cast", ["p"], ["e"], to=FLOAT)]
    other = onnx.helper.make_graph(nodes, "other", [], [info("e", FLOAT, None)])
    always = onnx.helper.make_tensor("c", onnx.TensorProto.BOOL, [], [True])
    model = one_node("If", [("c", onnx.TensorProto.BOOL, [])], ("z", FLOAT, None), weights=[weight])
    del model.graph.node[0].input[1:]
    model.graph.input[0].CopyFrom(info("x", BFLOAT16, [5, 2]))
    model.graph.initializer.append(always)
    branches = {"then_branch": taken, "else_branch": other}
    model.graph.node[0].attribute.extend(onnx.helper.make_attribute(*each) for each in branches.items())
    return loads(model, folder), ""


class Bessel(torch.nn.Module):
    def forward(self, x):
        return torch.special.i0(x)


def fall_through(make):
    """ONX-036: what the exporter does not know is written under its own name, and the checker does not mind."""

    def facts(folder):
        kind = torch.onnx.OperatorExportTypes.ONNX_FALLTHROUGH
        file = export(make().eval(), (X,), folder / "m.onnx", "torchscript", operator_export_type=kind)
        onnx.checker.check_model(str(file))
        measurer = Measurer(make, "torchscript")
        measurer.candidate(file, [], {})
        asked = "dynamo=False, operator_export_type=torch.onnx.OperatorExportTypes.ONNX_FALLTHROUGH"
        return [*read_onnx(file), *measurer.rows], f"import torch\ntorch.onnx.export(m, (x,), 'm.onnx', {asked})\n"

    return facts


def gpu_session(given):
    """ONX-034. `given` None: what a session answers here, without a GPU; the other answer is told."""

    def facts(folder):
        onnx.save(one_node("Relu", *RELU), folder / "m.onnx")
        options = ort.SessionOptions()
        options.log_severity_level = 4
        asked = ["CUDAExecutionProvider", "CPUExecutionProvider"]
        opened = ort.InferenceSession(str(folder / "m.onnx"), options, providers=asked)
        return [
            Measurement("session.provider_requested", "cuda", asked[0]),
            Measurement("session.provider", "cuda", given or opened.get_providers()[0]),
        ], "import onnxruntime\nonnxruntime.InferenceSession('m.onnx', providers=['CUDAExecutionProvider'])\n"

    return facts


BY_HAND = {
    "ONX-002": {"confirmed": newest_stamp, "refuted": stamp_of_an_old_table},
    "ONX-005": {"confirmed": opset_below_18(13), "refuted": opset_below_18(17)},
    "ONX-010": {"confirmed": dimension_auto(Mean), "refuted": dimension_auto(Right)},
    "ONX-023": {"confirmed": ceil_mode(False), "refuted": ceil_mode(True)},
    "ONX-029": {"confirmed": bfloat16_product, "refuted": bfloat16_product_never_taken},
    "ONX-034": {"confirmed": gpu_session(None), "refuted": gpu_session("CUDAExecutionProvider")},
    "ONX-036": {"confirmed": fall_through(Bessel), "refuted": fall_through(Right)},
    "ONX-037": {"confirmed": shapes_overwritten(Mean), "refuted": shapes_overwritten(Right)},
}
"""Rules about files, sessions and versions: no fixture model alone can settle them."""


KEPT = """
from torch import nn
class Net(nn.Module):
    def forward(self, x):
        self.attention = x.softmax(-1)
        return self.attention @ x
"""


@pytest.mark.parametrize(("repeats", "state"), [(True, "unverified"), (False, "confirmed")])
def test_a_change_that_no_output_shows_confirms_nothing(repeats, state):
    rows = [("reference.state_changed", ["attention"]), ("reference.deterministic", repeats)]
    facts = [Measurement(metric, "model", value, probe="determinism", side="source") for metric, value in rows]
    assert settled("ONX-014", facts, KEPT) == {state}


@pytest.mark.parametrize("state", ["confirmed", "refuted"])
@pytest.mark.parametrize("rule", BY_HAND)
def test_a_case_settles_its_rule(rule, state, tmp_path):
    if rule == "ONX-034" and torch.cuda.is_available():
        pytest.skip("a GPU answers for itself: tests/real/test_cuda.py")
    facts, python = BY_HAND[rule][state](tmp_path)
    assert settled(rule, facts, python) == {state}


def test_every_confirm_is_settled_both_ways():
    scanned = {path.stem.upper().replace("_", "-") for path in FIXTURES.glob("[gd]ck_*.py")}
    elsewhere = {
        "ONX-039",  # its source is TensorFlow: test_onx_claims.py
        *("DCK-013", "DCK-014", "DCK-017"),  # test_dck_framework_claims.py
        *("DCK-020", "DCK-023"),  # test_dck_weights_claims.py
    }
    assert {rule.id for rule in RULES if rule.confirm} == {*MODELS, *BY_HAND, *scanned, *elsewhere}


def test_stamps_within_the_tables_are_silent(tmp_path):
    assert settled("ONX-002", loads(one_node("Relu", *RELU, ir=13, opset=26), tmp_path)) == set()
    assert settled("ONX-002", loads(one_node("Relu", *RELU, opset=27), tmp_path)) == {"confirmed"}


# Claims of rules that no probe settles.


def test_an_export_without_dynamic_dimensions_takes_one_size(tmp_path):
    opened = session(export(torch.nn.Linear(7, 3).eval(), (X,), tmp_path / "m.onnx", "torchscript"))
    with pytest.raises(Exception, match="Got invalid dimensions"):
        run_file(opened, (torch.zeros(5, 7),))


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def symbolic(g, x):
        return g.op("my.domain::Twice", x)


class Doubled(torch.nn.Module):
    def forward(self, x):
        return Twice.apply(x)


@pytest.mark.parametrize(("route", "domain"), [("torchscript", "my.domain"), ("dynamo", "")])
def test_only_the_legacy_exporter_asks_for_symbolic(route, domain, tmp_path):
    file = export(Doubled().eval(), (X,), tmp_path / "m.onnx", route)
    assert {node.domain for node in onnx.load(file).graph.node} == {domain}


def test_gather_counts_negative_ids_from_the_end(tmp_path):
    table = torch.nn.Embedding(5, 3).eval()
    opened = session(export(table, (torch.tensor([0, 1]),), tmp_path / "m.onnx", "dynamo"))
    with pytest.raises(IndexError):
        table(torch.tensor([-1]))
    found = run_file(opened, (torch.tensor([-1, 0]),))[0]
    np.testing.assert_array_equal(found[0], table.weight[4].detach().numpy())
    with pytest.raises(Exception, match="Unexpected input data type"):
        run_file(opened, (torch.tensor([1, 0], dtype=torch.int32),))


def test_the_optimised_file_holds_kernels_of_this_machine(tmp_path):
    export(torch.nn.Conv2d(3, 8, 3).eval(), (torch.zeros(1, 3, 7, 7),), tmp_path / "m.onnx", "torchscript")
    domains = {}
    for level in ("ORT_ENABLE_ALL", "ORT_ENABLE_BASIC"):
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
        options.optimized_model_filepath = str(tmp_path / f"{level}.onnx")
        ort.InferenceSession(str(tmp_path / "m.onnx"), options, providers=["CPUExecutionProvider"])
        domains[level] = {node.domain for node in onnx.load(tmp_path / f"{level}.onnx").graph.node}
    assert domains["ORT_ENABLE_BASIC"] == {""}
    if "com.microsoft.nchwc" not in domains["ORT_ENABLE_ALL"]:
        pytest.skip("this CPU has no blocked layout")


def test_a_file_without_its_data_does_not_load(tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    export(torch.nn.Linear(70, 70).eval(), (torch.zeros(2, 70),), there / "m.onnx", "dynamo", external_data=True)
    session(there / "m.onnx")
    (there / "m.onnx").rename(tmp_path / "m.onnx")
    with pytest.raises(Exception, match=r"External data path (does not exist|validation failed)"):
        session(tmp_path / "m.onnx")


class OneStatement(torch.nn.Module):
    def forward(self, x):
        y = x.clone()
        y[:, 1:].add_(10)
        return y * 1


class TwoStatements(torch.nn.Module):
    def forward(self, x):
        y = x.clone()
        v = y[:, 1:]
        v.add_(10)
        return y * 1


@pytest.mark.parametrize(("make", "lost"), [(OneStatement, 0.0), (TwoStatements, 10.0)])
def test_a_write_to_a_slice_survives_within_one_statement_only(make, lost, tmp_path):
    opened = session(export(make().eval(), (X,), tmp_path / "m.onnx", "torchscript"))
    difference = np.abs(run_file(opened, (X,))[0] - run_model(make().eval(), (X,))[0]).max()
    assert difference == pytest.approx(lost, abs=1e-5)


def test_writing_through_data_kills_the_dynamo_exporter(tmp_path):
    if not torch.__version__.startswith("2.13.0"):
        pytest.skip("seen with torch 2.13.0")
    code = """
import sys, torch
class Net(torch.nn.Module):
    def forward(self, x):
        y = x.clone()
        y.data.add_(5)
        return y * 1
torch.onnx.export(Net().eval(), (torch.zeros(2, 7),), sys.argv[1], dynamo=True, verbose=False)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "m.onnx")], capture_output=True, check=False)
    assert done.returncode == -signal.SIGSEGV


def softmax_model(opset):
    node = onnx.helper.make_node("Softmax", ["x"], ["y"], axis=1)
    values = [onnx.helper.make_tensor_value_info(name, FLOAT, [2, 3, 4]) for name in "xy"]
    graph = onnx.helper.make_graph([node], "g", values[:1], values[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    model.ir_version = 8
    return model


def test_a_raised_stamp_changes_softmax(tmp_path):
    old, edited = softmax_model(11), softmax_model(11)
    edited.opset_import[0].version = 13
    found = []
    for name, model in (
        ("old", old),
        ("edited", edited),
        ("converted", onnx.version_converter.convert_version(old, 13)),
    ):
        onnx.save(model, tmp_path / f"{name}.onnx")
        found.append(run_file(session(tmp_path / f"{name}.onnx"), (torch.linspace(-1, 1, 24).reshape(2, 3, 4),))[0])
    np.testing.assert_allclose(found[0].sum(axis=(1, 2)), 1, rtol=1e-5)
    np.testing.assert_allclose(found[1].sum(axis=1), 1, rtol=1e-5)
    assert np.abs(found[0] - found[1]).max() > 0.1
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize(("place", "removed"), [("inside", True), ("last", False)])
def test_the_optimiser_removes_a_live_dropout_inside_a_graph(place, removed, tmp_path):
    if not ort.__version__.startswith("1.31."):
        pytest.skip("seen with ONNX Runtime 1.31.1")
    layers = [torch.nn.Linear(7, 61), torch.nn.Dropout(0.5)] + [torch.nn.Linear(61, 5)] * (place == "inside")
    file = export(torch.nn.Sequential(*layers).train(), (X,), tmp_path / "m.onnx", "dynamo")
    repeats = {}
    for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC"):
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
        opened = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        repeats[level] = np.array_equal(run_file(opened, (X,))[0], run_file(opened, (X,))[0])
    assert repeats == {"ORT_DISABLE_ALL": False, "ORT_ENABLE_BASIC": removed}
