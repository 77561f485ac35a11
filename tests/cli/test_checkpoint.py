"""`checkpoint show` and `checkpoint diff` from the command line, on files that the frameworks themselves write."""

import json
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")

OK, FINDINGS, USER, CANNOT_TELL = 0, 1, 2, 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Weights of one small network in several forms, and a training checkpoint of it."""
    place = tmp_path_factory.mktemp("weights")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4)
    net(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    state = net.state_dict()
    torch.save(state, place / "weights.pt")
    training = {"model": state, "optimizer": optimizer.state_dict(), "step": 1200, "epoch": 3}
    torch.save(training, place / "train.pt")
    safetensors.save_file(state, place / "weights.safetensors")
    safetensors.save_file({f"module.{name}": value for name, value in state.items()}, place / "ddp.safetensors")
    np.savez(place / "weights.npz", **{name: value.numpy() for name, value in state.items()})
    other = {name: value.clone() for name, value in state.items()}
    other["0.weight"][3, 2] += 1
    safetensors.save_file(other, place / "other.safetensors")
    return place


def report_of(cli, path, *arguments):
    code, _, err = cli("checkpoint", *arguments, "--report", f"json={path}")
    assert err == ""
    return code, json.loads(path.read_text())


def test_show_names_what_is_there_and_what_is_missing(cli, folder):
    code, out, err = cli("checkpoint", "show", folder / "train.pt")
    assert (code, err) == (OK, "")
    assert "train.pt: torch_zip of PyTorch, written by torch.save" in " ".join(out.split())
    lines = [" ".join(line.split()) for line in out.split("\n")]
    assert "there weights 9 tensors" in lines
    assert "there step 1,200" in lines and "there epoch 3" in lines
    assert any(line.startswith("there optimiser adam, state of 6 parameters by position") for line in lines)
    assert "missing scheduler, gradient scaler, random states, data loader" in lines


def test_shown_tensors_are_those_that_torch_loads(cli, folder, tmp_path):
    code, told = report_of(cli, tmp_path / "r.json", "show", folder / "train.pt")
    assert code == OK and told["schema"] == "tensoraudit-report/1"
    assert told["artifact"]["format"] == "checkpoint" and told["targets"] == [] and told["grade"] == {}
    rows = {row["name"]: row for row in told["checkpoint"]["tensors"]}
    loaded = torch.load(folder / "train.pt")
    content = (folder / "train.pt").read_bytes()
    for name, value in loaded["model"].items():
        row = rows[f"model.{name}"]
        assert (row["shape"], row["dtype"]) == (list(value.shape), str(value.dtype).removeprefix("torch."))
        assert content[row["offset"] : row["offset"] + row["bytes"]] == value.numpy().tobytes()
    moments = [name for name, row in rows.items() if row["group"] == "optimizer" and name.endswith("exp_avg")]
    assert len(moments) == len(loaded["optimizer"]["state"]) == 6
    assert told["checkpoint"]["training"]["step"] == 1200


def test_the_same_file_is_the_same_report(folder, tmp_path):
    words = [sys.executable, "-m", "tensoraudit", "checkpoint", "show", str(folder / "train.pt")]
    first, second = (subprocess.run(words, capture_output=True, check=True).stdout for _ in range(2))
    assert first == second
    documents = []
    for name in ("a.json", "b.json"):
        subprocess.run([*words, "--report", f"json={tmp_path / name}"], capture_output=True, check=True)
        document = json.loads((tmp_path / name).read_text())
        del document["timings"]
        documents.append(json.dumps(document))
    assert documents[0] == documents[1]


@pytest.mark.parametrize("name", ["weights.pt", "weights.safetensors", "weights.npz"])
def test_one_model_in_three_formats_is_the_same(cli, folder, tmp_path, name):
    code, told = report_of(cli, tmp_path / "r.json", "diff", folder / "weights.pt", folder / name, "--values")
    assert code == OK and told["checkpoint_diff"]["counts"] == {"equal": 9}
    assert all(row["sha256"][0] == row["sha256"][1] for row in told["checkpoint_diff"]["pairs"])


def test_headers_alone_claim_no_more_than_they_know(cli, folder):
    code, out, _ = cli("checkpoint", "diff", folder / "weights.pt", folder / "other.safetensors")
    assert code == OK and out.startswith("All 9 weights agree by header, values were not compared.")


def test_values_that_differ_are_a_finding(cli, folder, tmp_path):
    words = ("diff", folder / "weights.safetensors", folder / "other.safetensors", "--values")
    code, told = report_of(cli, tmp_path / "r.json", *words)
    (wrong,) = [row for row in told["checkpoint_diff"]["pairs"] if row["status"] != "equal"]
    assert (wrong["reference"], wrong["status"]) == ("0.weight", "different")
    assert wrong["linf"] == pytest.approx(1.0, abs=1e-6)
    assert [finding["rule"] for finding in told["findings"]] == ["CKP-011"]
    assert code == told["exit_code"] == FINDINGS
    assert cli("checkpoint", *words, "--fail-on", "never")[0] == OK


def test_a_prefix_is_taken_off_and_told(cli, folder, tmp_path):
    words = ("diff", folder / "weights.pt", folder / "ddp.safetensors", "--values")
    _, told = report_of(cli, tmp_path / "r.json", *words)
    assert told["checkpoint_diff"]["counts"] == {"equal": 9}
    assert {"reference": "", "candidate": "module."} in told["checkpoint_diff"]["prefixes"]


def test_a_map_goes_before_names(cli, folder, tmp_path):
    np.savez(tmp_path / "a.npz", left=np.arange(6.0).reshape(2, 3))
    np.savez(tmp_path / "b.npz", right=np.arange(6.0).reshape(2, 3).T.copy(), third=np.zeros(3))
    (tmp_path / "map.yaml").write_text("parameters: {left: {name: right, transpose: [1, 0]}}\n")
    words = ("diff", tmp_path / "a.npz", tmp_path / "b.npz", "--map", tmp_path / "map.yaml", "--values")
    _, told = report_of(cli, tmp_path / "r.json", *words)
    mapped = [row for row in told["checkpoint_diff"]["pairs"] if row["by"] == "map"]
    assert [(row["reference"], row["candidate"]) for row in mapped] == [("left", "right")]
    assert mapped[0]["status"] in {"equal", "permuted"}


def test_by_value_finds_what_no_name_brings_together(cli, tmp_path):
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(40, 8)), rng.normal(size=(40, 8))
    np.savez(tmp_path / "a.npz", alpha=one, beta=two)
    np.savez(tmp_path / "b.npz", first=two, second=one)
    _, told = report_of(cli, tmp_path / "r.json", "diff", tmp_path / "a.npz", tmp_path / "b.npz", "--by-value")
    pairs = {(row["reference"], row["candidate"], row["by"]) for row in told["checkpoint_diff"]["pairs"]}
    assert pairs == {("alpha", "second", "value"), ("beta", "first", "value")}


def test_a_missing_shard_is_found_by_show(cli, folder, tmp_path):
    place = tmp_path / "sharded"
    place.mkdir()
    state = safetensors.load_file(folder / "weights.safetensors")
    names = sorted(state)
    shards = {"model-00001-of-00002.safetensors": names[:4], "model-00002-of-00002.safetensors": names[4:]}
    for file, held in shards.items():
        safetensors.save_file({name: state[name] for name in held}, place / file)
    index = {"metadata": {}, "weight_map": {name: file for file, held in shards.items() for name in held}}
    (place / "model.safetensors.index.json").write_text(json.dumps(index))
    code, told = report_of(cli, tmp_path / "r.json", "show", place)
    assert code == OK and [finding["rule"] for finding in told["findings"]] == []
    (place / "model-00002-of-00002.safetensors").unlink()
    code, told = report_of(cli, tmp_path / "r.json", "show", place)
    (found,) = told["findings"]
    assert code == FINDINGS and "CKP-001" in {found["rule"], *found["also"]}
    assert "model-00002-of-00002.safetensors" in found["message"]


def test_what_a_baseline_knows_does_not_fail(cli, folder, tmp_path):
    words = ("checkpoint", "diff", folder / "weights.safetensors", folder / "other.safetensors", "--values")
    assert cli(*words, "--report", f"json={tmp_path / 'r.json'}")[0] == FINDINGS
    assert cli("baseline", "write", tmp_path / "r.json", "--out", tmp_path / "base.json")[0] == OK
    code, out, _ = cli(*words, "--baseline", tmp_path / "base.json")
    assert code == OK and "Suppressed" in out


@pytest.mark.parametrize("form", ["sarif", "junit", "html", "markdown"])
def test_other_formats_draw_the_findings(cli, folder, form):
    words = ("checkpoint", "diff", folder / "weights.safetensors", folder / "other.safetensors", "--values")
    code, out, err = cli(*words, "--report", form)
    assert (code, err) == (FINDINGS, "") and "CKP-011" in out


def test_quiet_and_plain(cli, folder):
    _, quiet, _ = cli("checkpoint", "show", folder / "train.pt", "--quiet", "--no-color")
    assert "For a resume" not in quiet and len(quiet.splitlines()) <= 4


@pytest.mark.parametrize(
    "words",
    [
        ("show", "nothing.pt"),
        ("diff", "weights.pt", "nothing.pt"),
        ("diff", "weights.pt", "weights.npz", "--map", "nothing.yaml"),
        ("show", "weights.pt", "--report", "pdf"),
        ("show", "weights.pt", "--fail-on", "often"),
        ("show", "weights.pt", "--baseline", "nothing.json"),
        ("show", "weights.pt", "--rules", "./nothing"),
    ],
)
def test_wrong_input_is_one_sentence(cli, folder, monkeypatch, words):
    monkeypatch.chdir(folder)
    code, out, err = cli("checkpoint", *words)
    assert (code, out) == (USER, "") and err.startswith("tensoraudit: ") and "Traceback" not in err


@pytest.mark.parametrize("content", [b"", b"\x00" * 64, b"PK\x03\x04" + bytes(60), b"\x80\x02}q\x00.", b"{}"])
def test_bytes_that_are_no_checkpoint(cli, tmp_path, content):
    path = tmp_path / "model.pt"
    path.write_bytes(content)
    code, _, err = cli("checkpoint", "show", path)
    assert (code, err.count("\n")) == (USER, 1) and "Traceback" not in err


def test_values_that_cannot_be_read_are_no_pass(cli, tmp_path):
    """A file that ends early has headers as good as any: with --values nobody can tell."""
    np.savez(tmp_path / "a.npz", w=np.arange(4000.0))
    tensors = {"w": torch.arange(4000.0, dtype=torch.float64)}
    safetensors.save_file(tensors, tmp_path / "b.safetensors")
    content = (tmp_path / "b.safetensors").read_bytes()
    (tmp_path / "b.safetensors").write_bytes(content[:-800])
    words = ("diff", tmp_path / "a.npz", tmp_path / "b.safetensors", "--values", "--fail-on", "never")
    code, _, err = cli("checkpoint", *words)
    assert code in {USER, CANNOT_TELL}
    assert "Traceback" not in err


def test_scan_names_the_command_for_weights(cli, folder):
    code, _, err = cli("scan", folder / "weights.safetensors")
    assert code == USER and "tensoraudit checkpoint show" in err and "--checkpoint" in err


IMPORTED = """
import sys
sys.argv = ["tensoraudit", *sys.argv[1:]]
from tensoraudit.__main__ import main
try:
    main()
except SystemExit:
    pass
loaded = {"torch", "onnx", "onnxruntime", "tensorflow", "jax", "h5py", "tensorstore", "safetensors"} & set(sys.modules)
sys.stderr.write("loaded:" + ",".join(sorted(loaded)))
"""


def test_no_framework_is_imported(folder):
    words = ["checkpoint", "diff", str(folder / "weights.pt"), str(folder / "weights.safetensors"), "--values"]
    done = subprocess.run([sys.executable, "-c", IMPORTED, *words], capture_output=True, text=True, check=True)
    assert done.stderr == "loaded:"
