"""jax.trace: every operation with its modules, its line and its values."""

import numpy as np
import pytest

W = (np.arange(32, dtype=np.float32).reshape(8, 4) - 15) / 16
B = np.array([0.1, -0.2, 0.3, -0.4], np.float32)
X = np.random.default_rng(7).normal(size=(3, 8)).astype(np.float32)


@pytest.fixture
def trace(job, sample):
    def run(name, x=X, file="jax_models.py", **options):
        return job("trace", name, file, inputs=sample(x=x), **{"select": "all", **options})

    return run


def test_values_are_those_of_arithmetic_and_follow_the_data(trace, arrays):
    result = trace("make_mlp")
    events = {event["op"]: event for event in result["events"]}
    assert [event["op"] for event in result["events"] if event["inputs"]] == ["dot_general", "add", "tanh"]
    got = arrays({op: events[op]["outputs"][0] for op in ("dot_general", "add", "tanh")})
    np.testing.assert_allclose(got["dot_general"], X @ W, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got["tanh"], np.tanh(X @ W + B), rtol=1e-5, atol=1e-6)
    assert events["dot_general"]["inputs"] == ["input:x"]
    assert events["tanh"]["inputs"] == [f"{events['add']['key']}@0"]
    assert result["outputs"] == {"output": f"{events['tanh']['key']}@0"}
    source = events["tanh"]["source"]
    assert source["path"].endswith("jax_models.py") and "jnp.tanh" in source["text"]
    assert [event["index"] for event in result["events"]] == list(range(len(result["events"])))


def test_modules_are_the_name_stack_of_linen(trace):
    x = np.zeros((2, 12, 12, 3), np.float32)
    events = trace("make_cnn", x)["events"]
    of = {event["op"]: event["module"] for event in events if event["inputs"]}
    assert of["conv_general_dilated"] == "CNN.Conv_0" and of["dot_general"] == "CNN.Dense_0"
    assert {event["module"] for event in events if event["op"] == "sub"} == {"CNN.BatchNorm_0"}
    assert len({event["key"] for event in events}) == len(events)


def test_modules_of_nnx_are_their_places(trace):
    modules = [event["module"] for event in trace("make_nnx")["events"] if event["op"] == "dot_general"]
    assert modules == ["first", "last"]


def test_double_precision_has_the_same_keys(trace, arrays):
    plain, double = trace("make_mlp"), trace("make_mlp", dtype="float64")
    assert [event["key"] for event in plain["events"]] == [event["key"] for event in double["events"]]
    last = arrays({"y": double["events"][-1]["outputs"][0]})["y"]
    expected = np.tanh(X.astype(np.float64) @ W.astype(np.float64) + B.astype(np.float64))
    assert last.dtype == np.float64
    np.testing.assert_allclose(last, expected, rtol=1e-13, atol=1e-15)


def test_loops_and_branches_are_one_operation_each_and_calls_are_opened(trace, arrays):
    x = np.random.default_rng(0).random((5, 3), dtype=np.float32)
    result = trace("make_loops", x)
    operations = [event["op"] for event in result["events"]]
    assert {"scan", "while", "cond", "tanh", "max"} <= set(operations)
    assert not {"jit", "pjit", "custom_jvp_call", "checkpoint", "remat2"} & set(operations)
    scan = next(event for event in result["events"] if event["op"] == "scan")
    rows = np.cumsum(np.sin(x), 0)
    end = arrays({str(n): ref for n, ref in enumerate(scan["outputs"])})
    np.testing.assert_allclose(end["0"], rows[-1], rtol=1e-5)
    wide = trace("make_loops", x, dtype="float64")
    assert [event["key"] for event in wide["events"]] == [event["key"] for event in result["events"]]


def test_fingerprints_need_no_tensor_and_small_pieces_give_the_same(trace):
    plain = trace("make_cnn", np.ones((2, 12, 12, 3), np.float32), select=None, fingerprints=True)
    pieces = trace("make_cnn", np.ones((2, 12, 12, 3), np.float32), select=None, fingerprints=True, budget=1)
    assert plain["bytes"] == 0
    for event, other in zip(plain["events"], pieces["events"], strict=True):
        for a, b in zip(event["outputs"], other["outputs"], strict=True):
            assert ("print" in a) == bool(event["inputs"]) and "file" not in a
            if event["inputs"]:
                assert b["print"] == pytest.approx(a["print"], rel=1e-4, abs=1e-4)


def test_what_is_selected_is_saved_and_nothing_else(trace, attempt, sample):
    key = trace("make_mlp")["events"][-1]["key"]
    events = trace("make_mlp", select=[key])["events"]
    assert [event["key"] for event in events if "file" in event["outputs"][0]] == [key]
    outcome = attempt("trace", "make_mlp", inputs=sample(x=X), select=[key], budget=10)
    assert outcome.status == "failed" and "more than 10 bytes" in outcome.reason


def test_moved_inputs_move_the_values_a_little(trace, arrays):
    plain, moved = trace("make_mlp"), trace("make_mlp", perturb=3)
    a, b = (arrays({"y": each["events"][-1]["outputs"][0]})["y"] for each in (plain, moved))
    assert 0 < np.abs(a - b).max() < 1e-5


def test_a_function_that_cannot_be_traced_says_so(attempt, sample):
    outcome = attempt("trace", "make_branching", inputs=sample(x=X), select="all")
    assert outcome.status == "unsupported" and "cannot be traced" in outcome.reason
