"""Keras files: what their headers say, what would run code, and what damaged ones get."""

import io
import json
import shutil
import zipfile
from pathlib import Path

import pytest

from tensoraudit.artifacts.identify import identify
from tensoraudit.artifacts.keras_config import stored_code
from tensoraudit.artifacts.state import require_model
from tensoraudit.errors import InputError

MODELS = Path(__file__).parents[2] / "fixtures" / "tensorflow"


def test_an_archive_tells_its_version_layers_and_inputs():
    artifact = identify(str(MODELS / "dense.keras"))
    assert (artifact.format, artifact.framework, artifact.imports) == ("keras", "tensorflow", ())
    details = artifact.details
    assert (details["class"], details["layers"], details["inputs"]) == ("Sequential", 2, {"features": [None, 3]})
    assert details["keras_version"].startswith("3.") and details["weights"] == "model.weights.h5"
    require_model(artifact, None, False)


def test_hdf5_is_told_from_its_bytes_whatever_its_name(tmp_path):
    shutil.copy(MODELS / "dense.h5", tmp_path / "model.pt")
    artifact = identify(str(tmp_path / "model.pt"))
    assert (artifact.format, artifact.framework) == ("keras_h5", "tensorflow")
    assert artifact.details["bytes"] == artifact.size == (MODELS / "dense.h5").stat().st_size
    shutil.copy(MODELS / "dense.h5", tmp_path / "model.keras")
    assert "is named .keras, but its content is keras_h5" in identify(str(tmp_path / "model.keras")).details["misnamed"]


def test_a_lambda_layer_needs_trust():
    artifact = identify(str(MODELS / "lambda.keras"))
    with pytest.raises(InputError, match=r"loading it can run any code, and it asks for bytecode of a lambda.*--trust"):
        require_model(artifact, None, False)
    require_model(artifact, None, True)


@pytest.mark.parametrize("cut", [9, 45, 200, 5_000])
def test_a_truncated_hdf5_file(tmp_path, cut):
    (tmp_path / "model.h5").write_bytes((MODELS / "dense.h5").read_bytes()[:cut])
    with pytest.raises(InputError, match="is a truncated HDF5 file"):
        identify(str(tmp_path / "model.h5"))


def test_an_unknown_superblock(tmp_path):
    (tmp_path / "model.h5").write_bytes(b"\x89HDF\r\n\x1a\n\x09" + bytes(90))
    with pytest.raises(InputError, match="superblock of version 9"):
        identify(str(tmp_path / "model.h5"))


def archive(path, **changes):
    entries = {"metadata.json": "{}", "config.json": "{}", "model.weights.h5": "x", **changes}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name.replace("__", "."), content)
    return str(path)


def test_damaged_configurations(tmp_path):
    for text, words in (("[", "no JSON"), ("[]", "no JSON object"), ("[" * 200_000, "no JSON"), ("\xff", "no JSON")):
        with pytest.raises(InputError, match=words):
            identify(archive(tmp_path / "model.keras", **{"config.json": text}))


def test_a_bomb_of_a_configuration(tmp_path):
    with pytest.raises(InputError, match="as a bomb does"):
        identify(archive(tmp_path / "model.keras", **{"config.json": '{"a": "' + "0" * (80 << 20) + '"}'}))


def test_a_configuration_that_is_too_large_and_no_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr("tensoraudit.artifacts.keras_files._MAX_CONFIG", 1000)
    with pytest.raises(InputError, match="more than the 1,000 that are read of it"):
        identify(archive(tmp_path / "model.keras", **{"config.json": json.dumps(list(range(1000)))}))


def layer(**more):
    return {
        "class_name": "Functional",
        "module": "keras",
        "config": {"layers": [more]},
        "registered_name": "Functional",
    }


DENSE = {"module": "keras.layers", "class_name": "Dense", "config": {"activation": "relu"}, "registered_name": None}


@pytest.mark.parametrize(
    ("config", "found"),
    [
        (layer(**DENSE), []),
        (layer(**DENSE, dtype={"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float32"}}), []),
        (layer(class_name="__lambda__", config={"code": "4wEA"}), ["bytecode of a lambda"]),
        (layer(class_name="Lambda", config={"function": ["4wEA", None, None]}), ["bytecode of a lambda"]),
        (layer(module="os", class_name="function", config="system"), ["os.system"]),
        (layer(module="builtins", class_name="function", config="eval"), ["builtins.eval"]),
        (layer(module="keras.utils", class_name="function", config="get_file"), ["keras.utils.get_file"]),
        (layer(module="keras.activations", class_name="function", config="relu"), []),
        (layer(module="kerasx.layers", class_name="Dense", config={}), ["kerasx.layers.Dense"]),
        (layer(module="mine", class_name="Net", config={}, registered_name="mine>Net"), ["mine.Net"]),
        (layer(module=None, class_name="Net", config={}, registered_name="mine>Net"), ["mine>Net"]),
        (layer(module="keras.layers", class_name="TorchModuleWrapper", config={}), ["keras.layers.TorchModuleWrapper"]),
        (
            layer(module="keras.layers", class_name="StringLookup", config={"vocabulary": "/etc/passwd"}),
            ["the file '/etc/passwd'"],
        ),
        (layer(module="keras.layers", class_name="StringLookup", config={"vocabulary": ["a", "b"]}), []),
    ],
)
def test_what_a_configuration_would_run(config, found):
    assert stored_code(config) == found


def test_a_deep_configuration_is_walked_without_recursion():
    config = inner = {}
    for _ in range(100_000):
        inner["config"] = {}
        inner = inner["config"]
    inner.update({"class_name": "__lambda__", "config": {}})
    assert stored_code(config) == ["bytecode of a lambda"]


def test_an_archive_without_weights_is_no_model(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("config.json", "{}")
        file.writestr("metadata.json", "{}")
    (tmp_path / "model.keras").write_bytes(buffer.getvalue())
    with pytest.raises(InputError, match="a zip archive that holds no model"):
        identify(str(tmp_path / "model.keras"))
