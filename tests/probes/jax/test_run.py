"""jax.run and jax.accepts."""

import numpy as np
import pytest

X = np.linspace(-1, 1, 40, dtype=np.float32).reshape(5, 8)
WEIGHT = (np.arange(32, dtype=np.float32).reshape(8, 4) - 15) / 16
BIAS = np.array([0.1, -0.2, 0.3, -0.4], np.float32)


@pytest.fixture
def run(job):
    return lambda name, *inputs, **options: job("run", name, inputs=list(inputs), **options)


@pytest.fixture
def rows(run):
    return lambda *given, **options: run(*given, **options)["runs"]


def test_reference_and_oracle_against_numpy(rows, sample, arrays):
    (row,) = rows("make_mlp", sample(x=X))
    assert row["error"] is None and row["oracle_reason"] == ""
    reference, oracle = arrays(row["outputs"])["output"], arrays(row["oracle"])["output"]
    expected = np.tanh(X.astype(np.float64) @ WEIGHT.astype(np.float64) + BIAS.astype(np.float64))
    assert (reference.dtype, oracle.dtype) == (np.float32, np.float64)
    assert np.abs(oracle - expected).max() < 1e-15
    assert 0 < np.abs(reference - expected).max() < 1e-6


def test_weights_in_a_closure_have_an_oracle_too(rows, sample, arrays):
    (row,) = rows("make_function", sample(x=X))
    expected = X.astype(np.float64) @ WEIGHT.astype(np.float64)
    oracle = arrays(row["oracle"])
    assert list(row["outputs"]) == ["output.logits", "output.sum"]
    assert np.abs(oracle["output.logits"] - expected).max() < 1e-14
    assert np.abs(oracle["output.sum"] - expected.sum(-1)).max() < 1e-14


def test_repeat_is_the_same_and_three_perturbed_draws_are_near(rows, sample, arrays):
    (row,) = rows("make_mlp", sample(x=X))
    first = arrays(row["outputs"])["output"]
    assert np.array_equal(arrays(row["repeat"])["output"], first)
    draws = [arrays(each)["output"] for each in row["perturbed"]]
    assert len(draws) == 3 and row["perturbed_by"] == "inputs"
    assert all(0 < np.abs(draw - first).max() < 1e-6 for draw in draws)
    assert not np.array_equal(draws[0], draws[1])


def test_what_is_not_asked_for_is_not_run(rows, sample):
    (row,) = rows("make_mlp", sample(x=X), repeat=1, oracle=False, perturbations=0)
    assert (row["repeat"], row["oracle"], row["perturbed"]) == ({}, None, [])


def test_all_tensors_of_a_job_lie_in_one_file(rows, sample):
    result = rows("make_mlp", sample("a", x=X), sample("b", x=X[:2]))
    assert len({each["file"] for row in result for each in row["outputs"].values()}) == 1


def test_settings_are_reported(run, sample):
    settings = run("make_mlp", sample(x=X), seed=3)["settings"]
    wanted = {"mode": "eval", "jit": True, "x64": False, "matmul_precision": "highest", "seed": 3, "threads": 1}
    assert wanted.items() <= settings.items()


def test_without_jit_the_results_agree(run, sample, arrays):
    compiled, eager = (run("make_cnn", sample(x=np.ones((2, 12, 12, 3), np.float32)), jit=jit) for jit in (True, False))
    first, second = (arrays(each["runs"][0]["outputs"])["output"] for each in (compiled, eager))
    assert (compiled["settings"]["jit"], eager["settings"]["jit"]) == (True, False)
    assert first.shape == (2, 5) and np.abs(first - second).max() < 1e-5


def test_a_model_that_asks_whether_it_is_traced_differs(rows, sample, arrays):
    (compiled,), (eager,) = (rows("make_other_under_jit", sample(x=X), jit=jit) for jit in (True, False))
    assert np.array_equal(arrays(compiled["outputs"])["output"], X * 2)
    assert np.array_equal(arrays(eager["outputs"])["output"], X * 3)


def test_a_function_that_cannot_be_traced_runs_without_jit(run, sample, arrays):
    result = run("make_branching", sample("up", x=np.abs(X)), sample("down", x=-np.abs(X)))
    up, down = result["runs"]
    assert result["settings"]["jit"] is False
    assert up["error"] is None and up["jit_error"]["type"] == "TracerBoolConversionError"
    assert up["jit_error"]["source"]["text"] == "if x.sum() > 0:"
    assert np.array_equal(arrays(up["outputs"])["output"], np.abs(X) * 2)
    assert np.array_equal(arrays(down["outputs"])["output"], np.abs(X))


def test_hidden_generators_show_in_the_repeat(rows, sample, arrays):
    (row,) = rows("make_numpy_random", sample(x=X))
    assert not np.array_equal(arrays(row["outputs"])["output"], arrays(row["repeat"])["output"])


def test_a_number_that_changes_between_traces_shows_in_the_repeat(rows, sample, arrays):
    (row,) = rows("make_counter", sample(x=X))
    assert not np.array_equal(arrays(row["outputs"])["output"], arrays(row["repeat"])["output"])


def test_a_fixed_key_repeats_and_the_oracle_draws_the_same_numbers(run, sample, arrays):
    result = run("make_random", sample(x=X))
    (row,) = result["runs"]
    assert np.array_equal(arrays(row["outputs"])["output"], arrays(row["repeat"])["output"])
    reference, oracle = arrays(row["outputs"])["output"], arrays(row["oracle"])["output"]
    assert oracle.dtype == np.float64 and 0 < np.abs(reference - oracle).max() < 1e-6
    assert np.abs(oracle - X).max() > 0.1
    (operator,) = result["random_operators"]
    assert operator["op"] == "random_bits"
    assert operator["source"]["text"] == "return x + jax.random.normal(jax.random.key(7), x.shape)"


def test_integer_inputs_move_the_weights(rows, sample, arrays):
    (row,) = rows("make_ids", sample(ids=np.arange(12, dtype=np.int32).reshape(3, 4)))
    assert row["perturbed_by"] == "weights"
    first = arrays(row["outputs"])["output"]
    assert all(0 < np.abs(arrays(each)["output"] - first).max() < 1e-6 for each in row["perturbed"])


def test_int64_is_taken_as_int32(rows, sample, arrays):
    narrow, wide = (np.arange(12, dtype=dtype).reshape(3, 4) for dtype in (np.int32, np.int64))
    first, second = rows("make_ids", sample("narrow", ids=narrow), sample("wide", ids=wide))
    assert np.array_equal(arrays(first["outputs"])["output"], arrays(second["outputs"])["output"])


def test_int64_that_does_not_fit_is_an_error_of_that_input_set(rows, sample):
    (row,) = rows("make_ids", sample(ids=np.full((3, 4), 2**40, np.int64)))
    assert row["error"]["message"] == (
        "ids is int64 and holds 1099511627776, which int32 cannot hold; 64-bit types are off in JAX, "
        "so it would become another number"
    )


def test_a_model_that_turns_64_bit_types_on_keeps_them_to_itself(job, sample, arrays):
    x = np.random.default_rng(1).normal(size=(3, 8))
    wide = job("run", "make_wide", "jax_wide_models.py", inputs=[sample(x=x)])
    output = arrays(wide["runs"][0]["outputs"])["output"]
    expected = x @ ((np.arange(32, dtype=np.float64).reshape(8, 4) - 15) / 17)
    assert wide["settings"]["x64"] is True
    assert output.dtype == np.float64 and np.abs(output - expected).max() < 1e-14
    plain = job("run", "make_mlp", inputs=[sample(x=x)])
    assert plain["settings"]["x64"] is False
    assert arrays(plain["runs"][0]["outputs"])["output"].dtype == np.float32


def test_bfloat16_outputs_say_so_and_the_oracle_does_without_the_casts(rows, sample, arrays):
    (row,) = rows("make_bfloat16", sample(x=X))
    reference = row["outputs"]["output"]
    assert (reference["dtype"], reference["logical"]) == ("float32", "bfloat16")
    exact = X.astype(np.float64) @ WEIGHT.astype(np.float64)  # these weights are bfloat16 numbers
    oracle = arrays(row["oracle"])["output"]
    assert oracle.dtype == np.float64 and np.abs(oracle - exact).max() < 1e-14
    assert 1e-4 < np.abs(arrays(row["outputs"])["output"] - exact).max() < 0.1


def test_the_oracle_follows_loops_and_branches(rows, sample, arrays):
    (row,) = rows("make_loops", sample(x=X))
    wide = X.astype(np.float64)
    sums = np.cumsum(np.sin(wide), axis=0)
    first, second = arrays(row["oracle"]).values()
    divisor = np.float64(7 if X[0, 0] > 0 else 5)
    assert np.abs(first - np.tanh(sums[-1] / 27 / divisor)).max() < 1e-15
    assert np.abs(second - np.maximum(sums * np.float64(np.float32(0.3)), 0)).max() < 1e-15
    assert 0 < np.abs(arrays(row["outputs"])["output.1"] - second).max() < 1e-6


def test_what_cannot_be_widened_is_traced_anew_in_double_precision(rows, sample, arrays):
    (row,) = rows("make_scatter", sample(x=X))
    expected = X.astype(np.float64)
    expected[0] += 0.5
    oracle = arrays(row["oracle"])["output"]
    assert oracle.dtype == np.float64 and np.abs(oracle - expected / 3).max() < 1e-15


def test_a_new_trace_that_is_narrower_somewhere_is_no_oracle(rows, sample):
    (row,) = rows("make_narrow_scatter", sample(x=X))
    assert row["oracle"] is None
    assert row["oracle_reason"].startswith("not a true oracle: convert_element_type gives float16 (")
    assert "jax_models.py:" in row["oracle_reason"]


def test_scatters_have_an_oracle(rows, sample, arrays):
    (row,) = rows("make_wide_scatter", sample(x=X))
    expected = X.astype(np.float64)
    expected[0] = np.maximum(np.float64(np.float32(0.1)) * np.float64(np.float32(0.7)), np.float64(np.float32(0.01)))
    expected[1] += np.float64(np.float32(0.2)) - np.float64(np.float32(0.3))
    oracle = arrays(row["oracle"])["output"]
    assert oracle.dtype == np.float64
    assert np.abs(oracle - expected).max() < 1e-15


def test_a_model_that_looks_at_bits_has_no_oracle(rows, sample):
    (row,) = rows("make_bits", sample(x=X))
    assert row["error"] is None and row["oracle"] is None
    assert row["oracle_reason"].startswith(("not a true oracle", "the model does not run in double precision"))
    assert len(row["perturbed"]) == 3


def test_numbers_stay_pythons(rows, sample, arrays):
    (row,) = rows("make_scaled", sample(x=X, scale=2.0, power=2))
    assert np.allclose(arrays(row["outputs"])["output"], (X * 2) ** 2)


def test_containers_are_put_together_again(rows, sample, arrays):
    (row,) = rows("make_nested", sample(pair__0=X, pair__1=2 * X, table__b=3 * X, table__a=X))
    assert np.allclose(arrays(row["outputs"])["output"], X + 2 * X * (3 * X) - X)


def test_nnx_runs_in_evaluation_mode_whatever_it_was_handed_over_in(run, sample, arrays):
    trained, ready = (run(name, sample(x=X)) for name in ("make_training_nnx", "make_nnx"))
    first, second = (arrays(each["runs"][0]["outputs"])["output"] for each in (trained, ready))
    assert trained["modes"] == {"handed_over": "train", "ran": "eval"}
    assert ready["modes"] == {"handed_over": "eval", "ran": "eval"}
    assert np.array_equal(first, second)
    assert trained["state_changed"] == []
    assert trained["runs"][0]["oracle_reason"] == ""


def test_a_model_that_returns_nothing(rows, sample):
    (row,) = rows("make_nothing", sample(x=X))
    assert "returns a NoneType without any array" in row["error"]["message"]


def test_wrong_inputs_are_an_error_with_the_users_line(rows, sample):
    (row,) = rows("make_mlp", sample(x=np.ones((2, 3), np.float32)))
    assert row["error"]["type"] == "TypeError"
    assert row["error"]["source"]["text"].startswith('return jnp.tanh(x @ params["dense"]["kernel"]')


def test_accepts_says_which_sizes_and_why_not(job, sample):
    answer = job("accepts", "make_strict", inputs=[sample("three", x=X[:3]), sample("five", x=X)])
    assert answer["accepted"] == {"three": True, "five": "ValueError: the batch must be 3, not 5"}


def test_cuda_without_a_device_is_unsupported_with_the_reason(pool, attempt, sample):
    if any(device["kind"] == "cuda" for device in pool.hello("jax").result["devices"]):
        pytest.skip("there is a CUDA device here")
    outcome = attempt("run", "make_mlp", inputs=[sample(x=X)], device="cuda")
    assert outcome.status == "unsupported" and outcome.reason.startswith("no CUDA device: Unknown backend")


def test_a_serialized_program_runs(pool, sample, arrays, exported_file):
    model = {
        "format": "jax_export",
        "path": str(exported_file),
        "module": None,
        "attribute": None,
        "code": [],
        "seed": 0,
    }
    outcome = pool.run("jax", "jax.run", {"model": model, "inputs": [sample(args_0=X)]})
    (row,) = outcome.result["runs"]
    assert np.abs(arrays(row["outputs"])["output"] - np.tanh(X @ WEIGHT)).max() < 1e-6
    assert row["oracle_reason"] == "a serialized program computes in the dtypes that it was exported with"
    assert len(row["perturbed"]) == 3
