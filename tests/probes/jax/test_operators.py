"""jax.operators: what a jaxpr and a StableHLO program hold."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

LOOPING = """
import jax, jax.numpy as jnp, numpy as np
from jax import lax


def make():
    def apply(params, x):
        def step(carry, row):
            carry = jnp.tanh(carry @ params["w"] + row)
            return carry, carry
        last, all_rows = lax.scan(step, jnp.zeros((x.shape[0], 5)), jnp.swapaxes(x, 0, 1))
        picked = lax.cond(all_rows.sum() > 0, lambda a: a * 2, lambda a: a - 1, last)
        return {"y": jax.nn.relu(picked), "z": jax.nn.relu(last)}
    return apply, {"w": jnp.eye(5)}


def deep():
    def twice(inner):
        return jax.jit(lambda x: inner(inner(x)))
    made = jnp.sin
    for _ in range(40):
        made = twice(made)
    return made
"""


@pytest.fixture(scope="module")
def looping(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "looping.py"
    path.write_text(LOOPING)
    return path


def by_op(result, op):
    return [node for node in result["nodes"] if node["op"] == op]


def test_primitives_with_edges_parameters_and_lines(job, sample, looping):
    result = job("operators", "make", looping, inputs=sample(x=np.ones((3, 7, 5), np.float32)))
    assert (result["format"], result["control_flow"]) == ("jaxpr", ["cond", "scan"])
    (scan,) = by_op(result, "scan")
    assert scan["domain"] == "jax" and scan["graph"] == "main" and scan["attributes"]["length"] == 7
    assert scan["inputs"][0] == "w" and scan["attributes"]["jaxpr"] == f"main/{scan['name']}.jaxpr"
    (dot,) = by_op(result, "dot_general")
    assert dot["graph"] == scan["attributes"]["jaxpr"]
    assert dot["attributes"]["dimension_numbers"] == [[[1], [0]], [[], []]]
    assert dot["source"] == {"path": str(looping), "line": 9}
    (cond,) = by_op(result, "cond")
    branches = cond["attributes"]["branches"]
    assert [node["op"] for graph in branches for node in result["nodes"] if node["graph"] == graph] == ["sub", "mul"]
    values = {value["name"]: value for value in result["values"]}
    assert values["x"] == {"name": "x", "dtype": "float32", "shape": [3, 7, 5], "role": "input", "graph": "main"}
    assert values["w"]["role"] == "initializer" and values["const:2.0"]["constant"] == 2.0
    assert sum(value["role"] == "output" and value["graph"] == "main" for value in result["values"]) == 2


def test_a_shared_function_is_listed_once(job, sample, looping):
    """Written out, forty levels of two calls each are 2 ** 40 operators."""
    result = job("operators", "deep", looping, inputs=sample(x=np.ones(3, np.float32)))
    counts = Counter(node["op"] for node in result["nodes"])
    assert counts["sin"] <= 2 and counts["jit"] < 200


def test_a_serialized_program_is_stablehlo(pool, exported_file, sample):
    spec = {"format": "jax_export", "path": str(exported_file), "module": None, "attribute": None, "code": []}
    outcome = pool.run("jax", "jax.operators", {"model": spec, "inputs": sample(args_0=np.ones((2, 8), np.float32))})
    assert outcome.status == "ok", outcome.reason
    result = outcome.result
    assert result["format"] == "stablehlo" and result["control_flow"] == []
    (dot,) = by_op(result, "dot_general")
    (tanh,) = by_op(result, "tanh")
    assert dot["domain"] == "stablehlo" and tanh["inputs"] == dot["outputs"]
    here = [value for value in result["values"] if value["graph"] == dot["graph"]]
    (kernel,) = [value for value in here if value["name"] == dot["inputs"][1]]
    assert (kernel["dtype"], kernel["shape"], kernel["role"]) == ("float32", [8, 4], "initializer")
    expected = (np.arange(32, dtype=np.float32).reshape(8, 4) - 15) / 16
    assert np.array_equal(np.asarray(kernel["constant"], np.float32), expected)


def test_what_cannot_be_traced_is_a_failure_with_its_line(attempt, sample, tmp_path):
    path = tmp_path / "branching.py"
    path.write_text("def make():\n    def apply(x):\n        return x if x.sum() > 0 else -x\n    return apply\n")
    outcome = attempt("operators", "make", path, inputs=sample(x=np.ones((2, 8), np.float32)))
    assert outcome.status == "failed" and "cannot be traced" in outcome.reason
    assert outcome.error["details"]["source"]["line"] == 3
