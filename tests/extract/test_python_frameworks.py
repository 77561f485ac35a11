"""Which framework a named object is made of, from imports alone."""

import pytest

from tensoraudit.extract.python_frameworks import file_of, frameworks_of

TWO = """
import torch
import keras

LAYERS = keras.layers

def helper():
    return LAYERS.Dense(3)

def make_keras():
    return helper()

def make_torch():
    return torch.nn.Linear(2, 3)

def make_both():
    return make_keras(), make_torch()
"""


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import torch\n", ("pytorch",)),
        ("from torch import nn\n", ("pytorch",)),
        ("import tensorflow as tf\nimport keras\n", ("tensorflow",)),
        ("from tf_keras import layers\n", ("tensorflow",)),
        ("import jax.numpy as jnp\nfrom flax import linen\n", ("jax",)),
        ("def make():\n    import tensorflow as tf\n    return tf.Module()\n", ("tensorflow",)),
        ("import numpy\n", ()),
        ("import torchlike\n", ()),
        ("this is no Python", ()),
        ("import torch\nimport jax\n", ("jax", "pytorch")),
    ],
)
def test_what_a_file_imports(tmp_path, source, found):
    (tmp_path / "model.py").write_text(source)
    assert frameworks_of(tmp_path / "model.py", "make") == found


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("make_keras", ("tensorflow",)),
        ("make_torch", ("pytorch",)),
        ("make_both", ("pytorch", "tensorflow")),
        ("gone", ("pytorch", "tensorflow")),
    ],
)
def test_of_several_frameworks_what_the_object_uses_counts(tmp_path, name, found):
    (tmp_path / "model.py").write_text(TWO)
    assert frameworks_of(tmp_path / "model.py", name) == found


def test_files_beside_it_are_followed_when_it_imports_none_itself(tmp_path):
    package = tmp_path / "nets"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "build.py").write_text("from . import deep\nfrom .deep import Net\n")
    (package / "deep.py").write_text("from nets.core import Base\nfrom .core import Base\n")
    (package / "core.py").write_text("import keras\n")
    assert frameworks_of(package / "build.py", "Net") == ("tensorflow",)
    (package / "core.py").write_text("from .build import x\n")  # a circle ends
    assert frameworks_of(package / "build.py", "Net") == ()


def test_a_module_is_found_without_importing_it(tmp_path, monkeypatch):
    package = tmp_path / "explodes"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    (package / "model.py").write_text("import keras\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert file_of("explodes.model") == package / "model.py"
    assert file_of("explodes.gone") is None and file_of("no_such_package.at_all") is None
