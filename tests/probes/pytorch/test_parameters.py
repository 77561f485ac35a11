"""What a PyTorch model's parameters mean, what its modules see, and other weights put into it."""

import numpy as np
import pytest
import torch

from tensoraudit.probes.protocol import JobFailed, JobUnsupported
from tensoraudit.probes.pytorch.jobs import JOBS
from tensoraudit.probes.pytorch.layers import parameter

PORTED = "ported_layers.py"


def ask(session, spec, name="Ported", weights=None, **params):
    model = spec(name, PORTED)
    model = {**model, "weights": weights} if weights else model
    return JOBS["pytorch.parameters"]({"model": model, **params}, session)


def wired(session, x):
    return {"name": "s", "arrays": {"x": session.put(x)}}


X = np.random.default_rng(0).standard_normal((2, 3, 7, 5)).astype(np.float32)


def test_every_parameter_says_what_it_is(session, spec):
    rows = {row["name"]: row for row in ask(session, spec)["parameters"]}
    assert list(rows)[:2] == ["conv.weight", "conv.bias"]
    meant = {name: (row["kind"], row["axes"], row["gates"], row["part"]) for name, row in rows.items()}
    assert meant["conv.weight"] == ("kernel", "oihw", "", "")
    assert meant["norm.running_var"] == ("variance", "c", "", "")
    assert meant["norm.num_batches_tracked"] == ("other", "", "", "")
    assert meant["rnn.weight_hh_l0"] == ("kernel", "oi", "rzn", "state")
    assert meant["rnn.bias_ih_l0"] == ("bias", "o", "rzn", "input")
    assert (rows["conv.weight"]["module"], rows["conv.weight"]["class"]) == ("conv", "Conv2d")
    assert rows["conv.weight"]["shape"] == [5, 3, 3, 3] and "tensor" not in rows["conv.weight"]


@pytest.mark.parametrize(
    ("module", "name", "meaning"),
    [
        (torch.nn.ConvTranspose1d(3, 5, 2), "weight", ("kernel", "iow", "", "")),
        (torch.nn.Embedding(3, 5), "weight", ("embedding", "vc", "", "")),
        (torch.nn.LSTMCell(3, 5), "weight_ih", ("kernel", "oi", "ifgo", "input")),
        (torch.nn.LayerNorm(5), "bias", ("beta", "c", "", "")),
        (torch.nn.MultiheadAttention(4, 2), "in_proj_weight", ("kernel", "", "", "")),
    ],
)
def test_other_layers(module, name, meaning):
    row = parameter(module, name)
    assert (row["kind"], row["axes"], row["gates"], row["part"]) == meaning


def test_the_cells_of_a_stack_are_told_apart():
    gru = torch.nn.GRU(3, 5, num_layers=2, bidirectional=True)
    assert {parameter(gru, name)["cell"] for name, _ in gru.named_parameters()} == {
        *("", "l0_reverse", "l1", "l1_reverse")
    }


def test_a_run_tells_the_order_the_tensors_and_the_lines(session, spec):
    result = ask(session, spec, values=True, inputs=wired(session, X))
    rows = {row["path"]: row for row in result["modules"]}
    assert list(rows) == ["", "conv", "norm", "rnn", "unused"]
    conv = rows["conv"]
    assert (conv["calls"], conv["leaf"], rows["unused"]["calls"]) == (1, True, 0)
    assert conv["config"] == {**conv["config"], "strides": [2, 2], "padding": [1, 1], "data_format": "channels_first"}
    assert rows["norm"]["config"]["epsilon"] == 1e-3 and rows["rnn"]["config"]["reset_after"] is True
    np.testing.assert_array_equal(session.get(conv["inputs"][0]), X)
    kernel = next(row["tensor"] for row in result["parameters"] if row["name"] == "conv.weight")
    bias = next(row["tensor"] for row in result["parameters"] if row["name"] == "conv.bias")
    arrays = [torch.from_numpy(np.array(session.get(each))) for each in (conv["inputs"][0], kernel, bias)]
    expected = torch.nn.functional.conv2d(*arrays, stride=2, padding=1)
    np.testing.assert_allclose(session.get(conv["outputs"][0]), expected.numpy(), atol=1e-6)
    assert conv["source"]["path"].endswith(PORTED) and "self.conv(x)" in conv["source"]["text"]
    assert [ref["shape"] for ref in rows["rnn"]["outputs"]] == [[2, 4, 7], [1, 2, 7]]


def test_a_budget_of_nothing_saves_no_tensors(session, spec):
    rows = ask(session, spec, inputs=wired(session, X), budget=1)["modules"]
    assert all(not row["inputs"] and not row["outputs"] for row in rows) and rows[1]["path"] == "conv"


def test_a_model_that_fails_is_told(session, spec):
    with pytest.raises(JobFailed, match="the model fails: RuntimeError"):
        ask(session, spec, inputs=wired(session, X[:, :2]))


def run(session, spec, weights=None):
    model = {**spec("Ported", PORTED), **({"weights": weights} if weights else {})}
    result = JOBS["pytorch.run"]({"model": model, "inputs": [wired(session, X)], "perturbations": 0}, session)
    return np.array(session.get(result["runs"][0]["outputs"]["output"]))


def test_other_weights_are_seen_by_every_job_and_only_with_their_spec(session, spec):
    first = run(session, spec)
    weights = {"rnn.weight_ih_l0": session.put(np.zeros((21, 15), np.float32))}
    changed = run(session, spec, weights)
    assert np.abs(changed - first).max() > 1e-3
    rows = {row["name"]: row for row in ask(session, spec, weights=weights, values=True)["parameters"]}
    assert not session.get(rows["rnn.weight_ih_l0"]["tensor"]).any()
    np.testing.assert_array_equal(run(session, spec), first)


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("rnn.none", (1,), "no parameter 'rnn.none'"),
        ("conv.bias", (4,), r"conv.bias is \[5\], the weight for it is \[4\]"),
    ],
)
def test_weights_that_do_not_fit_are_refused(session, spec, name, shape, words):
    with pytest.raises(JobFailed, match=words):
        run(session, spec, {name: session.put(np.zeros(shape, np.float32))})


def test_a_model_object_keeps_its_own_weights(session, spec):
    model = spec("made", PORTED)
    weights = {"0.weight": session.put(np.zeros((2, 3), np.float32))}
    ask_made = {"model": {**model, "weights": weights}, "values": True}
    row = JOBS["pytorch.parameters"](ask_made, session)["parameters"][0]
    assert not session.get(row["tensor"]).any()
    own = JOBS["pytorch.parameters"]({"model": model, "values": True}, session)["parameters"][0]
    assert session.get(own["tensor"]).any()


def test_weights_do_not_go_into_a_compiled_program(session, tmp_path):
    path = tmp_path / "m.pt"
    torch.jit.save(torch.jit.script(torch.nn.Linear(3, 2)), path)
    model = {"format": "torchscript", "path": str(path), "weights": {"weight": session.put(np.zeros((2, 3)))}}
    with pytest.raises(JobUnsupported, match="modules only"):
        JOBS["pytorch.parameters"]({"model": model}, session)


def test_a_tied_weight_is_listed_once_and_can_be_replaced(session, spec):
    assert [row["name"] for row in ask(session, spec, "Tied")["parameters"]] == ["embedding.weight"]
    weights = {"embedding.weight": session.put(np.full((11, 7), 3, np.float32))}
    (row,) = ask(session, spec, "Tied", weights, values=True)["parameters"]
    assert (session.get(row["tensor"]) == 3).all()


def test_tied_weights_and_unsaved_buffers_are_told(session, tmp_path):
    (tmp_path / "tied.py").write_text(
        "import torch\n"
        "def make():\n"
        "    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))\n"
        "    net[1].weight = net[0].weight\n"
        "    net.register_buffer('scratch', torch.zeros(1), persistent=False)\n"
        "    return net\n"
    )
    model = {"format": "python_object", "path": str(tmp_path / "tied.py"), "attribute": "make"}
    rows = {row["name"]: row for row in JOBS["pytorch.parameters"]({"model": model}, session)["parameters"]}
    assert list(rows) == ["scratch", "0.weight", "0.bias", "1.bias"]
    assert rows["0.weight"]["also"] == ["1.weight"] and rows["0.bias"]["also"] == []
    assert {name: row["saved"] for name, row in rows.items() if not row["saved"]} == {"scratch": False}
