"""pytorch.run and pytorch.accepts."""

import numpy as np
import pytest
import torch

from tensoraudit.probes.protocol import JobUnsupported

X = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
WEIGHT, BIAS = np.arange(6, dtype=np.float64).reshape(2, 3) / 7, np.array([0.1, -0.3])


@pytest.fixture
def run(job, spec):
    return lambda name, *inputs, **options: job("run", model=spec(name), inputs=list(inputs), **options)


@pytest.fixture
def rows(run):
    return lambda *given, **options: run(*given, **options)["runs"]


def test_reference_and_oracle_against_numpy(rows, sample, arrays):
    (row,) = rows("Affine", sample(x=X))
    assert row["error"] is None and row["oracle_reason"] == ""
    reference, oracle = arrays(row["outputs"])["output"], arrays(row["oracle"])["output"]
    weight32, bias32 = WEIGHT.astype(np.float32).astype(np.float64), BIAS.astype(np.float32).astype(np.float64)
    expected = 2 * (X.astype(np.float64) @ weight32.T + bias32)
    assert (reference.dtype, oracle.dtype) == (np.float32, np.float64)
    assert np.abs(oracle - expected).max() < 1e-15
    assert 0 < np.abs(reference - expected).max() < 1e-6


def test_repeat_is_the_same_and_three_perturbed_draws_are_near(rows, sample, arrays):
    (row,) = rows("Affine", sample(x=X))
    first = arrays(row["outputs"])["output"]
    assert np.array_equal(arrays(row["repeat"])["output"], first)
    draws = [arrays(each)["output"] for each in row["perturbed"]]
    assert len(draws) == 3
    assert row["perturbed_by"] == "inputs"
    assert all(0 < np.abs(draw - first).max() < 1e-6 for draw in draws)
    assert not np.array_equal(draws[0], draws[1])


def test_what_is_not_asked_for_is_not_run(rows, sample):
    (row,) = rows("Affine", sample(x=X), repeat=1, oracle=False, perturbations=0)
    assert (row["repeat"], row["oracle"], row["perturbed"]) == ({}, None, [])


def test_the_reference_runs_in_eval_mode_whatever_it_was_handed_over_in(run, sample, arrays):
    result = run("Untrained", sample(input=X))
    (row,) = result["runs"]
    assert np.array_equal(arrays(row["outputs"])["output"], arrays(row["repeat"])["output"])
    assert result["modes"] == {"handed_over": "train", "ran": "eval", "training_modules": ["", "0", "1", "2"]}


def test_settings_are_pinned_and_reported_and_put_back(run, sample):
    torch.set_num_threads(2)
    settings = run("Affine", sample(x=X), seed=3)["settings"]
    wanted = {"mode": "eval", "gradients": False, "tf32": False, "matmul_precision": "highest", "seed": 3, "threads": 1}
    assert wanted.items() <= settings.items()
    assert torch.get_num_threads() == 2
    assert torch.is_grad_enabled()


def test_threads_from_the_environment(run, sample, monkeypatch):
    monkeypatch.setenv("TENSORAUDIT_THREADS", "2")
    assert run("Affine", sample(x=X))["settings"]["threads"] == 2


def test_state_is_reported_and_put_back_between_runs(run, sample, arrays):
    x = np.ones((1, 2), np.float32)
    result = run("Counter", sample("a", x=x), sample("b", x=x))
    assert result["state_changed"] == ["calls", "history.0", "history.length", "last", "seen"]
    for row in result["runs"]:
        # First state: 1 + seen 1 + calls 1 + last 1 + history 1.
        assert arrays(row["outputs"])["output"].tolist() == [[5.0, 5.0]]
        assert arrays(row["repeat"])["output"].tolist() == [[5.0, 5.0]]
        assert arrays(row["oracle"])["output"].tolist() == [[5.0, 5.0]]


@pytest.mark.parametrize(
    ("name", "changed", "once"),
    [
        ("Prepared", [], ["ready", "table"]),
        ("Warming", ["ready"], []),
        ("Growing", ["table"], []),
        ("Remembering", ["called"], []),
        ("Counter", ["calls", "history.0", "history.length", "last", "seen"], []),
        ("Affine", [], []),
    ],
)
def test_what_only_the_first_call_sets_is_no_state(run, sample, name, changed, once):
    """A flag or a table that is made when it is needed first; not one that a later call sees or changes."""
    width = 3 if name == "Affine" else 2
    given = [sample(f"{rows}", x=np.ones((rows, width), np.float32)) for rows in (1, 2, 5)]
    result = run(name, *given)
    assert (result["state_changed"], result["set_once"]) == (changed, once)


def test_a_script_is_put_back_too(job, file_spec, script, sample, arrays):
    class Running(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.state = torch.zeros(1)

        def forward(self, x):
            self.state = self.state + x
            return self.state

    result = job("run", model=file_spec("torchscript", script(Running())), inputs=[sample(x=np.float32([2.0]))])
    (row,) = result["runs"]
    assert result["state_changed"] == ["state"]
    assert [arrays(row[key])["output"].tolist() for key in ("outputs", "repeat", "oracle")] == [[2.0]] * 3


def test_a_forward_that_changes_its_input(rows, sample, arrays):
    (row,) = rows("InPlace", sample(x=np.float32([1.0])))
    assert [arrays(row[key])["output"].tolist() for key in ("outputs", "repeat", "oracle")] == [[4.0]] * 3


def test_nested_arguments_and_outputs(rows, sample, arrays):
    given = sample(
        x=np.ones((2, 3), np.float32),
        states__0=np.full((2, 3), 5, np.float32),
        states__1=np.full((2, 3), 3, np.float32),
        scale=4.0,
        options__bias=np.full(3, 0.5, np.float32),
    )
    (row,) = rows("Nested", given)
    outputs = arrays(row["outputs"])
    assert list(outputs) == ["output.logits", "output.states.0", "output.states.1.0"]
    assert outputs["output.logits"].tolist() == [[6.5] * 3] * 2  # 1 * 4 + 5 - 3 + 0.5
    assert outputs["output.states.1.0"].tolist() == [[6.0] * 3] * 2


def test_dataclass_and_ordered_outputs(rows, sample):
    assert list(rows("Structured", sample(x=X))[0]["outputs"]) == ["output.logits"]
    assert list(rows("Ordered", sample(x=X))[0]["outputs"]) == ["output.b", "output.a"]


def test_random_operators_show(run, sample, arrays):
    result = run("Noisy", sample(x=X))
    (row,) = result["runs"]
    assert not np.array_equal(arrays(row["outputs"])["output"], arrays(row["repeat"])["output"])
    (found,) = result["random_operators"]
    assert found["op"] == "aten.rand_like.default"
    assert found["source"]["text"] == "return x + torch.rand_like(x)"


def test_the_oracle_of_a_model_that_casts(rows, sample, arrays):
    x = np.float32([[0.2, 0.7]])
    (row,) = rows("Casting", sample(x=x))
    y = x.astype(np.float64) / 3 + np.array([1.0, 1 / 3])
    expected = np.exp(y) / np.exp(y).sum()
    assert row["oracle_reason"] == ""
    assert np.abs(arrays(row["oracle"])["output"] - expected).max() < 1e-15


@pytest.mark.parametrize(
    ("name", "reason"), [("Bits", "reinterprets the bits"), ("WritesOutside", "writes into a float32")]
)
def test_no_oracle_says_why(rows, sample, name, reason):
    (row,) = rows(name, sample(x=np.float32([1.0, 2.0])))
    assert row["oracle"] is None
    assert reason in row["oracle_reason"]
    assert row["outputs"]


def test_integer_inputs_move_the_weights_instead(rows, sample, arrays):
    (row,) = rows("Words", sample(ids=np.array([[1, 2, 3]])))
    first = arrays(row["outputs"])["output"]
    assert row["perturbed_by"] == "weights"
    moves = [np.abs(arrays(draw)["output"] - first).max() for draw in row["perturbed"]]
    assert len(moves) == 3 and 0 < max(moves) < 1e-6


def test_a_failing_input_set_is_data(rows, sample):
    good, bad, wrong = rows("Picky", sample("good", x=X[:3]), sample("bad", x=X), sample("wrong", y=X))
    assert good["error"] is None and good["outputs"]
    assert bad["error"]["type"] == "ValueError"
    assert bad["error"]["message"] == "at most four rows"
    assert bad["error"]["source"]["text"] == 'raise ValueError("at most four rows")'
    assert bad["outputs"] == {} and bad["oracle"] is None
    assert "it has no argument y and the inputs lack x" in wrong["error"]["message"]


def test_a_model_without_tensors(rows, sample):
    (row,) = rows("NoTensor", sample(x=X))
    assert "without any tensor" in row["error"]["message"]


def test_half_precision_models_stay_half(job, spec, sample, arrays, tmp_path):
    (tmp_path / "half.py").write_text(
        "import torch\ndef make():\n    m = torch.nn.Linear(3, 2).to(torch.bfloat16)\n    return m\n"
    )
    x = sample(x=X)
    x["arrays"] = {"input": {**x["arrays"]["x"], "logical": "bfloat16"}}
    (row,) = job("run", model=spec("make", tmp_path / "half.py"), inputs=[x])["runs"]
    assert row["outputs"]["output"]["logical"] == "bfloat16"
    assert row["oracle"]["output"]["dtype"] == "float64"
    e = np.abs(arrays(row["outputs"])["output"] - arrays(row["oracle"])["output"]).max()
    assert 0 < e < 0.02


def test_exported_program(job, file_spec, tmp_path, sample, arrays):
    class Net(torch.nn.Module):
        def forward(self, x):
            return (x.float() / 3).to(torch.float32)

    torch.export.save(torch.export.export(Net(), (torch.ones(5, 3),)), tmp_path / "m.pt2")
    (row,) = job("run", model=file_spec("exported_program", tmp_path / "m.pt2"), inputs=[sample(x=X)])["runs"]
    assert row["error"] is None and row["oracle_reason"] == ""
    assert np.abs(arrays(row["oracle"])["output"] - X.astype(np.float64) / 3).max() < 1e-16


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_without_a_device_is_unsupported_with_the_reason(run, sample):
    with pytest.raises(JobUnsupported, match="no CUDA device: torch"):
        run("Affine", sample(x=X), device="cuda")


def test_accepts(job, spec, sample):
    answer = job("accepts", model=spec("Picky"), inputs=[sample("two", x=X[:2]), sample("five", x=X)])
    assert answer == {"accepted": {"two": True, "five": "ValueError: at most four rows"}}
