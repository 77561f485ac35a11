"""What becomes of a model on its way, told by workers that answer from a table: files, sizes, dtypes, ends."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.artifacts.artifact import Artifact
from tensoraudit.audit.convert import convert
from tensoraudit.audit.execute import run_candidates
from tensoraudit.audit.judge import judge
from tensoraudit.audit.layouts import taken_names
from tensoraudit.audit.migration import HOPS
from tensoraudit.audit.state import Audit, Run, Sample, Side
from tensoraudit.options import Options
from tensoraudit.probes.outcome import Outcome

PACKAGES = {name: "1.0" for hop in HOPS for need in hop.packages for name in need.split("|")}
BATCH = {"x": {"0": "batch"}}
FIXED = {"details": {"fixed": {"x": {"0": 2}}, "remedy": "say it"}}


class Workers:
    """Answers `hello` and every conversion; `ends` maps a tool to its outcome, or to a function of its request."""

    def __init__(self, folder, ends=None, hellos=None):
        self.folder, self.asked = folder, []
        self._ends, self._hellos = ends or {}, hellos or {}

    def hello(self, role):
        return self._hellos.get(role) or Outcome("ok", {"packages": PACKAGES, "devices": []})

    def put(self, array):
        return {"file": "x", "shape": list(array.shape)}

    def run(self, role, job, params):
        tool = params.get("tool") or params.get("route") or job
        self.asked.append((tool, params))
        end = self._ends.get(tool) or Outcome("ok", self._done(tool, params))
        return end(params) if callable(end) else end

    def _done(self, tool, params):
        if tool.endswith((".run", ".levels", ".describe")):
            return {"runs": [{"input": each["name"], "outputs": {"y": {}}} for each in params.get("inputs", ())]}
        if "path" in params and "route" in params:
            Path(params["path"]).write_text(tool)
            return {"path": params["path"]}
        return {"params": {"model": {"format": "saved_model", "path": params["folder"]}}}


def samples():
    own = Sample("sample-0", {"x": np.ones((2, 3), np.float32)}, "user", {"batch": 2})
    return own, Sample("batch=5", {"x": np.ones((5, 3), np.float32)}, "size", {"batch": 5})


@pytest.fixture
def audit(tmp_path, monkeypatch):
    monkeypatch.setattr("tensoraudit.audit.convert.read_onnx", lambda path, side: ())

    def of(targets, ends=None, hellos=None, framework="pytorch", **options):
        pool = Workers(tmp_path, ends, hellos)
        made = Audit(Options(target=targets, **options), lambda text: None, pool=pool)
        return made.add(
            artifact=Artifact("m.pt2", "exported_program", framework),
            reference=Side(framework, f"{framework}.run", {"model": "m"}, f"{framework}/cpu"),
            samples=samples(),
            reference_runs={each.name: Run(each.name, {}, {}) for each in samples()},
            dynamic=BATCH,
            implicit_batch=True,
        )

    return of


def refuses_sizes(done):
    return lambda params: Outcome("failed", None, "fixes it", error=FIXED) if params["dynamic"] else Outcome("ok", done)


def arrived(**more):
    return Outcome("ok", {"params": {"model": {"format": "torchax", "path": "m"}}, **more})


def test_a_batch_that_one_target_fixes_is_still_audited_on_the_others(audit):
    """Found when `--target onnx,jax` gave B to a file that `--target onnx` alone gives F."""
    done = {"params": {"model": {"format": "exported_program", "path": "p"}}}
    before = audit(("onnx", "jax"), {"torch_export": refuses_sizes(done), "torchax": arrived()})
    after = convert(before)
    assert [(row.metric, row.target) for row in after.measurements if row.metric.endswith("batch_fixed")] == [
        ("export.batch_fixed", "jax")
    ]
    assert (after.samples, after.dynamic, after.implicit_batch) == (before.samples, BATCH, True)
    asked = {tool: [each["name"] for each in params["inputs"]] for tool, params in ran(after)}
    assert asked["onnxruntime.run"] == ["sample-0", "batch=5"]
    assert asked["jax.run"] == ["sample-0"]


def test_declared_sizes_that_no_route_takes_are_a_finding_of_their_own(audit):
    """The user asked for them, so it is no mild one; but what fixed sizes give is audited, and every route had a go."""
    done = {"params": {"model": {"format": "exported_program", "path": "p"}}}
    before = audit(("jax",), {"torch_export": refuses_sizes(done), "torchax": arrived()}).add(implicit_batch=False)
    after = convert(before)
    sizes = [
        (row.metric, row.value)
        for row in after.measurements
        if row.metric.startswith(("export.batch", "export.dynamic_r"))
    ]
    assert sizes == [("export.dynamic_refused", "fixes it")]
    assert [each.fixed for each in after.candidates] == [True]
    asked = {tool: [each["name"] for each in params["inputs"]] for tool, params in ran(after)}
    assert asked == {"jax.run": ["sample-0"]}


def test_declared_sizes_that_one_route_takes_are_not_given_up(audit):
    refused = Outcome("failed", None, "fixes it", error=FIXED)
    after = convert(audit(("onnx",), {"torch_onnx_dynamo": refused}).add(implicit_batch=False))
    assert not [row for row in after.measurements if row.metric == "export.dynamic_refused"]
    assert [(each.name, each.fixed) for each in after.candidates] == [("torch_onnx_torchscript", False)]


def ran(audit):
    audit.pool.asked.clear()
    run_candidates(audit)
    return [(tool, params) for tool, params in audit.pool.asked if tool.endswith(".run") and "pytorch" not in tool]


def test_targets_that_share_a_converter_convert_once_and_keep_their_file(audit):
    after = convert(audit(("onnx", "tensorflow")))
    assert [tool for tool, _ in after.pool.asked].count("torch_onnx_dynamo") == 1
    (shipped,) = [each for each in after.candidates if each.target == "onnx" and each.ships]
    (taken,) = [params["path"] for tool, params in after.pool.asked if tool == "onnx2tf"]
    assert str(shipped.path) == taken and shipped.path.read_text() == "torch_onnx_dynamo"


def test_a_second_attempt_without_sizes_does_not_write_over_the_first(audit):
    def writes(params):
        Path(params["path"]).write_text(f"{sorted(params['dynamic'])}")
        return Outcome("ok", {"path": params["path"]})

    def refuses(params):
        open_ = "x" in Path(params["path"]).read_text()
        return Outcome("failed", None, "fixes it", error=FIXED) if open_ else arrived()

    ends = {"torch_onnx_dynamo": writes, "onnx2tf": refuses, "torch_export": Outcome("failed", None, "no", error={})}
    after = convert(audit(("onnx", "tensorflow"), ends))
    shipped = {each.target: each for each in after.candidates if each.ships}
    assert set(shipped) == {"onnx", "tensorflow"}
    assert shipped["onnx"].path.read_text() == "['x']"


def test_a_dtype_that_a_converter_changes_and_an_output_that_it_drops_are_said(audit):
    done = {"params": {"model": {"format": "exported_program", "path": "p"}}, "warnings": ["first"]}
    said = arrived(dtype_changes={"x": ["int64", "int32"]}, dropped_outputs=["mask"], warnings=["second"])
    after = convert(audit(("jax",), {"torch_export": Outcome("ok", done), "torchax": said}))
    (conversion,) = after.conversions
    assert conversion.details["dtype_changes"] == {"x": ["int64", "int32"]}
    assert conversion.details["dropped_outputs"] == ["mask"]
    assert conversion.details["warnings"] == ["first", "second"]
    (note,) = after.notes
    assert "torch_export+torchax" in note and "x from int64 to int32" in note and "drops mask" in note
    told = {row.metric: row.value for row in after.measurements if row.subject == "torch_export+torchax"}
    assert told["export.dtype_changes"] == ["x: int64 -> int32"] and told["export.dropped_outputs"] == ["mask"]


def test_a_dimension_that_the_first_of_two_converters_loses_is_measured(audit):
    def writes(params):
        return Outcome("ok", {"path": params["path"], "dynamic_lost": BATCH})

    after = convert(audit(("tensorflow",), {"torch_onnx_dynamo": writes}))
    (lost,) = [row.value for row in after.measurements if row.metric == "export.dynamic_lost"]
    assert lost == ["x:0=batch"]


@pytest.mark.parametrize("status", ["crashed", "timeout", "missing"])
def test_a_worker_that_does_not_start_is_what_it_is(audit, status):
    after = convert(audit(("jax",), hellos={"jax": Outcome(status, None, "no")}))
    (conversion,) = after.conversions
    assert (conversion.status, conversion.cause) == (status, "torchax: no")
    assert [row.required for row in after.probes] == [True]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("status", ["failed", "crashed", "unsupported"])
def test_no_end_of_a_run_reads_as_a_pass(audit, device, status):
    """A run that fails is measured on the CPU; on another device nothing measures it, so that the probe is missing."""
    there = Outcome("ok", {"packages": PACKAGES, "devices": [{"kind": "cuda"}]})
    ends = {"jax.run": lambda params: Outcome(status if params["device"] == device else "ok", {"runs": []}, "no")}
    before = audit(("jax",), ends, {"jax": there}, device="cuda")
    after = run_candidates(convert(before))
    rows = [row for row in after.probes if row.name == "run.torch_export+torchax" and row.device == device]
    refused = [row for row in after.measurements if row.metric == "session.loads" and row.value is False]
    assert len(rows) == 1 and rows[0].status == status
    assert rows[0].required != bool(refused and device == "cpu")


MEMORY = Outcome("failed", None, "MemoryError (memory limit 8 GiB)", error={"type": "MemoryError", "details": {}})


@pytest.mark.parametrize("tool", ["torch_export", "torchax", "jax.run"])
def test_a_machine_that_is_too_small_says_nothing_of_the_model(audit, tool):
    """No "impossible" and no "does not load": somebody with more memory would see it work."""
    after = run_candidates(convert(audit(("jax",), {tool: MEMORY})))
    (row,) = [row for row in after.probes if row.status == "crashed"]
    assert row.required and "memory limit" in row.reason
    values = {row.metric: row.value for row in after.measurements}
    assert values["conversion.status"] in {"unknown", "ok"} and values.get("session.loads") is not False


def test_one_input_set_that_is_too_large_for_the_machine_cannot_be_told(audit):
    error = {"type": "XlaRuntimeError", "message": "RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes"}
    runs = [{"input": "sample-0", "outputs": {}, "error": error}]
    after = run_candidates(convert(audit(("jax",), {"jax.run": Outcome("ok", {"runs": runs})})))
    (row,) = [row for row in after.probes if row.name.endswith(".sample-0")]
    assert (row.status, row.required) == ("crashed", True)
    judged = judge(after)
    assert not [row for row in judged.measurements if row.metric == "run.error"]
    assert [row.verdict for row in judged.equivalence if row.inputs == "sample-0"] == ["unverified"]


def test_inputs_that_the_reference_refuses_make_no_conversion_impossible(audit):
    """Wrong inputs are not the model's fault: "no route converts it" was a critical finding, and a wrong one."""
    before = audit(("onnx", "jax"), {"torch_export": Outcome("failed", None, "the model fails on these inputs")})
    refused = {each.name: Run(each.name, {}, {}, error="ValueError: no") for each in before.samples}
    after = run_candidates(convert(before.add(reference_runs=refused)))
    assert not after.conversions and not [row for row in after.measurements if row.metric == "conversion.status"]
    (row,) = [row for row in after.probes if row.name == "reference.outputs"]
    assert row.required and row.status == "failed" and "ValueError: no" in row.reason


@pytest.mark.parametrize("runs", [[], [{"input": "sample-0", "outputs": {}}]])
def test_a_run_that_gives_nothing_is_no_pass(audit, runs):
    after = run_candidates(convert(audit(("jax",), {"jax.run": Outcome("ok", {"runs": runs})})))
    (row,) = [row for row in after.probes if row.name == "run.torch_export+torchax" and row.device == "cpu"]
    assert row.required and row.status == "unsupported" and "nothing was compared" in row.reason


@pytest.mark.parametrize(
    ("inputs", "names"),
    [
        (("x", "y"), {"x": "x", "y": "y"}),
        (("serving_x", "serving_y"), {"x": "serving_x", "y": "serving_y"}),
        (("train", "x", "y"), {"train": "train", "x": "x", "y": "y"}),
        (("a", "b", "c"), {"train": "a", "x": "b", "y": "c"}),
        (("y",), {"train": "train", "x": "x", "y": "y"}),
        ((), {"train": "train", "x": "x", "y": "y"}),
    ],
)
def test_values_that_became_part_of_the_model_are_given_to_nobody(inputs, names):
    """Found when a JAX function with a flag in front of its arrays "failed on an input the original accepts"."""
    arrays = {"train": {"value": True}, "x": {"file": "x"}, "y": np.ones(2)}
    assert taken_names(arrays, inputs) == names


def test_a_candidate_is_run_without_the_values_that_its_converter_took(audit):
    before = audit(("tensorflow",), framework="jax")
    given = tuple(replace(each, arrays={"train": {"value": True}, **each.arrays}) for each in before.samples)
    done = Outcome("ok", {"params": {"model": {"format": "saved_model", "path": "p"}}, "input_names": ["x_"]})
    before.pool._ends["jax2tf"] = done
    after = run_candidates(convert(replace(before, samples=given)))
    (asked,) = [params for tool, params in after.pool.asked if tool == "tensorflow.run"]
    assert [list(each["arrays"]) for each in asked["inputs"]] == [["x_"], ["x_"]]
    note = "on the way to tensorflow jax2tf makes train part of the model, with the value of the sample"
    assert after.notes == (note,)


def test_outputs_stay_paired_by_name_where_a_file_has_them_in_another_order(audit):
    """Found when a TensorFlow model that returns {"b": ..., "a": ...} had its two outputs crossed in PyTorch."""
    before = audit(("pytorch",), framework="tensorflow")

    def writes(params):
        return Outcome("ok", {"path": params["path"], "output_names": ["b", "a"], "file_output_names": ["a", "b"]})

    before.pool._ends["tf2onnx"] = writes
    turned = {"layouts": {"outputs": {"output.b": [0, 2, 1]}}}
    before.pool._ends["onnx2torch"] = arrived(output_names=["output.a", "output.b"], **turned)
    (candidate,) = convert(replace(before, artifact=Artifact("m", "saved_model", "tensorflow"))).candidates
    assert candidate.outputs == ("output.b", "output.a")
    assert candidate.layouts["outputs"] == {"output.b": [0, 2, 1]}


def test_a_route_that_is_not_for_such_a_model_does_not_decide(audit):
    before = audit(("pytorch",), framework="tensorflow")
    before.pool._ends["keras_save"] = Outcome("unsupported", None, "no Keras model")
    before.pool._ends["tf2onnx"] = Outcome("failed", None, "it writes to a variable", error={})
    after = convert(replace(before, artifact=Artifact("m.py:f", "python_object", "tensorflow")))
    assert [(row.route, row.ships) for row in after.conversions] == [
        ("keras_save+keras_torch", False),
        ("tf2onnx+onnx2torch", True),
    ]
