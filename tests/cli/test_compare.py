"""The options of `compare` that pair two implementations."""

import pytest

MODEL = """
import torch


def make():
    torch.manual_seed({seed})
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, {width}))


def sample_inputs():
    return (torch.arange(6.0).reshape(2, 3),)
"""


@pytest.fixture
def models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(name, seed, width=7):
        path = tmp_path / f"{name}.py"
        path.write_text(MODEL.format(seed=seed, width=width))
        return f"{path}:make"

    return write("ours", 1), write("theirs", 2), write("wider", 3, width=11)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file"),
        ("weights: {}", "this is no map"),
        ("parameters: {a: {name: b, turn: 1}}", "has the step"),
    ],
)
def test_a_map_that_is_none_ends_before_anything_runs(cli, models, tmp_path, text, words):
    path = tmp_path / "map.yaml"
    if text is not None:
        path.write_text(text)
    code, _, error = cli("compare", models[0], models[1], "--map", path)
    assert code == 2 and words in error and "map.yaml" in error


@pytest.mark.slow
def test_a_transfer_writes_a_map_and_passes(cli, models, tmp_path):
    ours, theirs, wider = models
    draft = tmp_path / "draft.yaml"
    code, out, error = cli("compare", ours, theirs, "--transfer", "--write-map", draft)
    assert code == 0, out + error
    assert "--transfer copied 4 parameters of the reference: 4 as they are" in " ".join(out.split())
    assert "0.weight: 0.weight" in draft.read_text().replace('"', "")
    code, _, _ = cli("compare", ours, theirs)
    assert code == 1
    code, _, error = cli("compare", ours, wider, "--transfer")
    assert code == 2 and "2 parameters of the candidate cannot be paired: 2.weight, 2.bias" in " ".join(error.split())
