"""From a spec to a model: what works, and what each mistake answers."""

import pickle
import sys

import numpy as np
import pytest
import torch

from tensoraudit.probes.protocol import JobFailed, JobUnsupported, LocalSession
from tensoraudit.probes.pytorch.loading import load

X = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
EXPECTED = 2 * (X @ (np.arange(6, dtype=np.float32).reshape(2, 3) / 7).T + np.array([0.1, -0.3], np.float32))


def fails(session, spec):
    with pytest.raises(JobFailed) as caught:
        load(session, spec)
    assert caught.value.details["remedy"]
    return caught.value


@pytest.mark.parametrize("name", ["Affine", "make_affine", "instance"])
def test_class_factory_and_instance(session, spec, name):
    module = load(session, spec(name)).module
    assert np.allclose(module(torch.from_numpy(X)).detach().numpy(), EXPECTED, atol=1e-6)


def test_untrained_weights_are_the_same_in_every_worker(tmp_path, spec):
    def weights(name):
        (tmp_path / name).mkdir()
        loaded = load(LocalSession(tmp_path / name), spec("Untrained", seed=5))
        return [each.detach().clone() for each in loaded.module.parameters()]

    first = weights("a")
    torch.rand(3)  # whatever happened in between
    assert all(torch.equal(a, b) for a, b in zip(first, weights("b"), strict=True))


def test_a_model_is_loaded_once(session, spec):
    assert load(session, spec("Affine")) is load(session, spec("Affine"))
    assert load(session, spec("Affine")) is not load(session, spec("Untrained"))
    assert len(session.cache) == 1  # only the last one is kept


def test_sibling_imports_and_relative_imports(session, spec):
    assert load(session, spec("two", "with_samples.py")).module(torch.ones(1)).item() == 1
    assert load(session, spec("build", "models/packaged.py")).module(torch.ones(1)).item() == 3


def test_the_users_folder_never_comes_first(session, spec):
    load(session, spec("two", "with_samples.py"))
    assert sys.path[0] != str(spec("x")["path"].rpartition("/")[0])
    assert sys.path[-1] == spec("x")["path"].rpartition("/")[0]


def test_a_file_named_like_a_package_hides_nothing(session, spec, tmp_path):
    (tmp_path / "json.py").write_text("import torch\nclass Net(torch.nn.Identity):\n    pass\n")
    loaded = load(session, spec("Net", tmp_path / "json.py"))
    import json

    assert type(loaded.module).__name__ == "Net"
    assert hasattr(json, "dumps")


def test_a_dotted_module(session, spec):
    found = load(session, spec("Identity", path=None, module="torch.nn")).module
    assert type(found) is torch.nn.Identity


def test_the_training_flag_is_remembered_and_the_original_never_runs(session, spec):
    loaded = load(session, spec("Counter"))
    assert loaded.training
    copy = loaded.fresh(evaluate=True)
    assert not copy.training
    copy(torch.ones(1, 2))
    assert loaded.module.calls == 0
    assert loaded.fresh(evaluate=False).training


def test_a_module_that_cannot_be_copied_is_made_again(session, spec):
    copy = load(session, spec("Uncopyable")).fresh(evaluate=True)
    assert copy(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(JobFailed, match="cannot be copied"):
        load(session, spec("uncopyable")).fresh(evaluate=True)


def test_missing_name_lists_what_there_is(session, spec):
    problem = fails(session, spec("Afine"))
    assert problem.message.startswith("plain_models.py has no 'Afine'; it has instance")
    assert "Affine" in problem.message


def test_class_that_needs_arguments(session, spec):
    problem = fails(session, spec("Wide"))
    assert problem.message == "plain_models.py:Wide needs arguments: width"
    assert "Write a function without arguments" in problem.details["remedy"]


def test_factory_that_returns_something_else(session, spec):
    assert fails(session, spec("make_nothing")).message == (
        "plain_models.py:make_nothing returns a dict, not a torch.nn.Module"
    )
    assert "is a int" in fails(session, spec("seven")).message


def test_factory_that_fails_names_its_line(session, spec):
    problem = fails(session, spec("make_failing"))
    assert "plain_models.py:" in problem.message
    assert "ValueError: the width must be even" in problem.message
    assert problem.details["source"]["text"] == 'raise ValueError("the width must be even")'
    assert "it calls exit" in fails(session, spec("make_exiting")).message


def test_missing_import_names_line_and_package(session, spec):
    problem = fails(session, spec("Net", "broken_import.py"))
    assert "broken_import.py:3" in problem.message
    assert problem.details["remedy"].startswith("Install no_such_package_at_all")


def test_script_that_exits(session, spec):
    assert "__main__" in fails(session, spec("Net", "exits.py")).details["remedy"]


def test_no_such_file(session, spec):
    assert "no such file" in fails(session, spec("Net", "nowhere.py")).message


def test_unknown_format(session, file_spec, tmp_path):
    with pytest.raises(JobUnsupported, match="'onnx'"):
        load(session, file_spec("onnx", tmp_path))


def test_torchscript(session, file_spec, script):
    loaded = load(session, file_spec("torchscript", script(torch.nn.Linear(3, 2))))
    assert loaded.fresh(evaluate=True)(torch.ones(1, 3)).shape == (1, 2)


def test_damaged_torchscript(session, file_spec, tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(b"PK\x03\x04 no zip at all")
    assert "model.pt cannot be loaded" in fails(session, file_spec("torchscript", path)).message


def test_exported_program(session, file_spec, tmp_path):
    torch.export.save(torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),)), tmp_path / "m.pt2")
    loaded = load(session, file_spec("exported_program", tmp_path / "m.pt2"))
    assert loaded.program is not None
    assert not loaded.training
    assert loaded.fresh(evaluate=True)(torch.ones(1, 3)).shape == (1, 2)


def test_exported_program_in_training_mode_says_so(session, file_spec, tmp_path):
    torch.export.save(torch.export.export(torch.nn.Dropout().train(), (torch.ones(1, 3),)), tmp_path / "m.pt2")
    assert load(session, file_spec("exported_program", tmp_path / "m.pt2")).training


class Bomb:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_exported_program_runs_no_pickle_without_trust(session, file_spec, tmp_path, monkeypatch):
    program = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),))
    torch.export.save(program, tmp_path / "m.pt2")
    evil = pickle.dumps(Bomb(tmp_path / "created"))
    replace_in_zip(tmp_path / "m.pt2", "sample_inputs", evil)
    problem = fails(session, file_spec("exported_program", tmp_path / "m.pt2"))
    assert not (tmp_path / "created").exists()
    assert "m.pt2" in problem.message


def replace_in_zip(path, part, content):
    import zipfile

    with zipfile.ZipFile(path) as archive:
        entries = {info.filename: archive.read(info) for info in archive.infolist()}
    found = [name for name in entries if part in name]
    assert found
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in entries.items():
            archive.writestr(name, content if name in found else data)


def test_pickled_module_only_with_trust(session, file_spec, tmp_path):
    torch.save(torch.nn.Linear(3, 2), tmp_path / "m.pth")
    problem = fails(session, file_spec("pickled_module", tmp_path / "m.pth"))
    assert "--trust" in problem.details["remedy"]
    loaded = load(session, file_spec("pickled_module", tmp_path / "m.pth", trust=True))
    assert loaded.module.out_features == 2


def test_pickled_bomb_without_trust_creates_nothing(session, file_spec, tmp_path):
    torch.save(Bomb(tmp_path / "created"), tmp_path / "m.pth")
    fails(session, file_spec("pickled_module", tmp_path / "m.pth"))
    assert not (tmp_path / "created").exists()


def test_pickled_something_else(session, file_spec, tmp_path):
    torch.save({"a": torch.ones(1)}, tmp_path / "m.pth")
    assert "holds a dict" in fails(session, file_spec("pickled_module", tmp_path / "m.pth", trust=True)).message


def test_pickled_class_of_a_script_is_found_in_the_code(session, file_spec, spec, tmp_path, monkeypatch):
    """A script's own classes are pickled under `__main__`."""
    import __main__

    source = tmp_path / "train.py"
    source.write_text("import torch\nclass Mine(torch.nn.Identity):\n    pass\n")
    namespace = {"__name__": "__main__"}
    exec(source.read_text(), namespace)
    monkeypatch.setattr(__main__, "Mine", namespace["Mine"], raising=False)
    torch.save(namespace["Mine"](), tmp_path / "m.pth")
    monkeypatch.delattr(__main__, "Mine")
    asked = file_spec("pickled_module", tmp_path / "m.pth", trust=True)
    assert "--code" in fails(session, asked).details["remedy"]
    notebook = tmp_path / "train.ipynb"
    notebook.write_text('{"cells": []}')
    loaded = load(session, {**asked, "code": [str(notebook), str(source)]})
    assert type(loaded.module).__name__ == "Mine"
    monkeypatch.delattr(__main__, "Mine")


def test_a_package_whose_name_is_taken(session, spec, tmp_path):
    """The folder is called like the standard library's `email` and has an `__init__.py`."""
    (tmp_path / "email").mkdir()
    (tmp_path / "email" / "__init__.py").write_text("")
    (tmp_path / "email" / "message.py").write_text("import torch\nclass Net(torch.nn.Identity):\n    pass\n")
    assert type(load(session, spec("Net", tmp_path / "email" / "message.py")).module).__name__ == "Net"
