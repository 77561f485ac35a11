"""What bad input gets: one clear sentence, the documented exit code, nothing run, nothing left behind."""

import io
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

import pytest

USER, CANNOT_TELL = 2, 3


class Creates:
    """Pickles into a call that creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def one_sentence(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return len(lines) == 1 and lines[0].startswith("tensoraudit: ") and "Traceback" not in text


def factory(folder, body):
    path = folder / "model.py"
    path.write_text(body)
    return f"{path}:make"


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder of this test's own for temporary files, to see that none is left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def test_an_unknown_file(cli, tmp_path):
    code, _, err = cli("scan", tmp_path / "nothing.pt")
    assert (code, one_sentence(err)) == (USER, True)
    assert "nothing.pt" in err


def test_a_file_that_is_not_what_its_name_says(cli, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    code, _, err = cli("scan", path)
    assert (code, one_sentence(err)) == (USER, True)
    assert "PNG" in err


def test_a_truncated_zip(cli, tmp_path):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({}))
        archive.writestr("archive/data/0", bytes(4096))
    path = tmp_path / "model.pt"
    path.write_bytes(whole.getvalue()[:-60])
    code, _, err = cli("scan", path)
    assert (code, one_sentence(err)) == (USER, True)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_that_would_create_a_file_does_not(cli, tmp_path, zipped):
    target, path = tmp_path / "created", tmp_path / "model.pt"
    body = pickle.dumps(Creates(target), protocol=2)
    if zipped:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", body)
            archive.writestr("archive/version", "3")
    else:
        path.write_bytes(body)
    code, _, err = cli("scan", path)
    assert (code, one_sentence(err)) == (USER, True)
    assert not target.exists()


def test_a_pickled_module_is_refused_with_what_it_imports(cli, tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "module.pt"
    torch.save(torch.nn.Linear(3, 2), path)
    code, _, err = cli("scan", path)
    assert (code, one_sentence(err)) == (USER, True)
    assert "torch.nn.modules.linear.Linear" in err
    assert "--trust" in err


def test_weights_alone_name_the_option_that_is_missing(cli, tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "weights.pt"
    torch.save(torch.nn.Linear(3, 2).state_dict(), path)
    code, _, err = cli("scan", path)
    assert (code, one_sentence(err)) == (USER, True)
    assert "--model" in err


def test_a_zip_bomb(cli, tmp_path):
    path = tmp_path / "bomb.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({}))
        archive.writestr("archive/data/0", bytes(200 << 20))
    clock = time.monotonic()
    code, _, err = cli("scan", path)
    assert (code, one_sentence(err)) == (USER, True)
    assert time.monotonic() - clock < 30


def test_external_data_outside_the_folder_is_not_opened(cli, tmp_path):
    onnx = pytest.importorskip("onnx")
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(24))
    inside = tmp_path / "model"
    inside.mkdir()
    weight = onnx.TensorProto(name="w", data_type=1, dims=[2, 3], data_location=1)
    weight.external_data.add(key="location", value="../secret.bin")
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [value("x", 1, [2, 3])],
        [value("y", 1, [2, 3])],
        [weight],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    (inside / "model.onnx").write_bytes(model.SerializeToString())
    code, out, err = cli("scan", inside / "model.onnx", "--report", "json")
    assert code in {1, USER}
    assert "secret.bin" in out + err


def test_a_graph_with_a_cycle(cli, tmp_path):
    onnx = pytest.importorskip("onnx")
    value = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node("Add", ["x", "b"], ["a"]), onnx.helper.make_node("Relu", ["a"], ["b"])]
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, [2])], [value("b", 1, [2])])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "cycle.onnx"
    path.write_bytes(model.SerializeToString())
    code, _, err = cli("scan", path)
    assert (code, one_sentence(err)) == (USER, True)
    assert "cycle" in err


def test_a_yaml_bomb_among_the_rules(cli, tmp_path):
    layers = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))
    (tmp_path / "bomb.yaml").write_text(f"a0: &a0 [x, x]\n{layers}\n")
    clock = time.monotonic()
    code, _, err = cli("rules", "test", tmp_path)
    assert code == USER
    assert "bomb.yaml" in err
    assert time.monotonic() - clock < 30


@pytest.mark.parametrize(
    "arguments",
    [
        ["scan", "x.py:make", "--target", "tensorrt"],
        ["scan", "x.py:make", "--no-such-option"],
        ["scan", "x.py:make", "--report", "pdf"],
        ["scan", "x.py:make", "--device", "tpu"],
        ["scan"],
        ["audit", "x.py"],
        ["rules", "show", "NOPE-1"],
    ],
)
def test_a_wrong_command_line(cli, arguments):
    code, _, err = cli(*arguments)
    assert code == USER
    assert err.strip()
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("config", "options", "says"),
    [
        ("", ["--rules", "./nowhere"], "./nowhere"),
        ("", ["--rules", "./broken"], "broken/one.yaml:1:1: the rule has no 'title'"),
        ('[[tool.tensoraudit.ignore]]\nrule = "ONX-014"\n', [], "the reason is missing"),
        ("", ["--baseline", "none.json"], "none.json"),
    ],
)
def test_what_is_wrong_in_rules_and_silence_is_found_before_anything_runs(
    cli, tmp_path, monkeypatch, config, options, says
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(config)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "one.yaml").write_text("id: ABC-001\n")
    mark = tmp_path / "ran"
    code, _, err = cli("scan", factory(tmp_path, f"open({str(mark)!r}, 'w')\ndef make(): ...\n"), *options)
    assert code == USER
    assert says in err
    assert not mark.exists()


def test_a_report_that_cannot_be_written_is_found_before_the_audit(cli, tmp_path):
    missing = tmp_path / "no" / "such" / "folder" / "r.json"
    code, _, err = cli("scan", factory(tmp_path, "raise SystemExit"), "--report", f"json={missing}")
    assert (code, one_sentence(err)) == (USER, True)
    assert not missing.exists()


def test_a_factory_that_raises_is_the_users_to_mend(cli, tmp_path):
    pytest.importorskip("torch")
    code, _, err = cli("scan", factory(tmp_path, "def make():\n    raise KeyError('weights')\n"))
    assert (code, one_sentence(err)) == (USER, True)
    assert "weights" in err


def test_a_missing_interpreter_cannot_tell(cli, tmp_path):
    code, out, err = cli("scan", factory(tmp_path, "def make(): ..."), "--python", f"pytorch={tmp_path / 'python'}")
    assert code == CANNOT_TELL
    assert "missing" in out
    assert "Traceback" not in out + err


MISBEHAVING = {
    "segmentation fault": "import ctypes\ndef make(): ctypes.string_at(0)\n",
    "exited with code 7": "import os\ndef make(): os._exit(7)\n",
    "memory limit": "import torch\ndef make(): return torch.empty(200 << 30, dtype=torch.uint8)\n",
    "was stopped after": "import time\ndef make(): time.sleep(600)\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("reason", MISBEHAVING)
def test_a_model_that_takes_its_worker_down_cannot_be_told(cli, tmp_path, temporary, reason):
    pytest.importorskip("torch")
    code, out, _ = cli("scan", factory(tmp_path, MISBEHAVING[reason]), "--timeout", "30", "--report", "json")
    report = json.loads(out)
    assert code == CANNOT_TELL
    assert any(reason in probe["reason"] for probe in report["probes"])
    assert report["grade"]["onnx"].endswith("?")
    assert not list(temporary.iterdir())


@pytest.mark.slow
def test_ctrl_c_leaves_no_process_and_no_file(tmp_path, temporary):
    pytest.importorskip("torch")
    mark = tmp_path / "running"
    first = f"pathlib.Path({str(mark)!r}).write_text(str(os.getpid()))"
    body = f"import os, pathlib, time\ndef make():\n    {first}\n    time.sleep(600)\n"
    command = [sys.executable, "-m", "tensoraudit", "scan", factory(tmp_path, body)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not mark.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    worker = int(mark.read_text())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == CANNOT_TELL
    assert "interrupted" in err
    assert "Traceback" not in err
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rules show GCK-001", 0),
        ("rules show GCK-001 >&-", 0),
        ("rules list >&- 2>&-", 0),
        ("rules schema | true", CANNOT_TELL),
        ("rules list >/dev/full", USER),
    ],
)
def test_whatever_standard_output_is(line, expected):
    """Of a narrow encoding, closed, without a reader, on a full disk."""
    shell = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{sys.executable} -m tensoraudit {line}"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )
    assert (shell.returncode, "Traceback" in shell.stderr) == (expected, False)
