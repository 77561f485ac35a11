"""The examples of docs/load-checkpoint.md run, and its table names the events that there are."""

import ast
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "load-checkpoint.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The files that the examples name, with arrays to compare with."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    arrays = {
        "conv.kernel": random.standard_normal((3, 3, 4, 8)).astype(np.float32),
        "fc.weight": random.standard_normal((5, 8)).astype(np.float32),
        "fc.bias": random.standard_normal(5).astype(np.float32),
    }
    save_file(arrays, "model.safetensors")
    model = torch.nn.Linear(3, 2).to(torch.bfloat16)
    torch.save({"model": model.state_dict()}, "last.pt")
    return SimpleNamespace(arrays=arrays, model=model)


def test_the_examples_of_names_and_schemas(files, capsys):
    space = {}
    exec(BLOCKS[0], space)
    np.testing.assert_array_equal(space["weights"], files.arrays["fc.weight"])
    exec(BLOCKS[1], space)
    np.testing.assert_array_equal(space["arrays"]["conv.weight"], files.arrays["conv.kernel"].transpose(3, 2, 0, 1))
    np.testing.assert_array_equal(space["arrays"]["fc.weight"], files.arrays["fc.weight"].astype(np.float16))
    assert capsys.readouterr().out == "extra fc.bias is stored, and the schema does not name it\n"
    assert (
        Path("load.jsonl").read_text().splitlines()[-1]
        == '{"event": "closed", "read": 2, "not_read": 0, "problems": 1}'
    )


def test_the_recipe_for_torch(files):
    expected = {name: value.clone() for name, value in files.model.state_dict().items()}
    other = torch.nn.Linear(3, 2).to(torch.bfloat16)
    exec(BLOCKS[2], {"model": other})
    assert all(torch.equal(value, expected[name]) for name, value in other.state_dict().items())


def test_the_recipe_for_jax(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(numpy=np))
    monkeypatch.setitem(sys.modules, "jax.numpy", np)
    space = {}
    exec(BLOCKS[3], space)
    np.testing.assert_array_equal(space["params"]["params"]["kernel"], files.arrays["fc.weight"].T)
    np.testing.assert_array_equal(space["params"]["params"]["bias"], files.arrays["fc.bias"])


def test_every_event_is_in_the_table():
    listed = set(re.findall(r"^\| `(\w+)` \| (?:first|open|read|end|last) \|", PAGE, re.MULTILINE))
    sources = [(ROOT / "src/tensoraudit/checkpoints" / f"{name}.py").read_text() for name in ("loader", "matching")]
    made = set()
    for node in (node for text in sources for node in ast.walk(ast.parse(text))):
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            made |= {value.value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "event"}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add":
            made |= {each.value for each in node.args[:1] if isinstance(each, ast.Constant)}
    assert listed == made
