from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tensoraudit.artifacts.identify import identify
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.onnx_external import external_files, external_span, require_external
from tensoraudit.artifacts.onnx_file import TensorHeader, external_tensors
from tensoraudit.errors import InputError
from tensoraudit.extract.onnx import read_onnx
from tensoraudit.facts import Tensor, Unknown


def header(location: str, **more: str) -> TensorHeader:
    return TensorHeader("w", 1, [4], [], {"location": location, **more})


def status(folder: Path, location: str, **more: str) -> str:
    (row,) = external_files(folder / "model.onnx", [header(location, **more)])
    return str(row["status"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    (folder / "sub").mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"x")
    (folder / "weights.bin").write_bytes(bytes(16))
    (folder / "sub" / "weights.bin").write_bytes(bytes(16))
    (tmp_path / "secret").write_bytes(bytes(100))
    return folder


@pytest.mark.parametrize(
    ("location", "want"),
    [
        ("weights.bin", "ok"),
        ("./weights.bin", "ok"),
        ("sub/weights.bin", "ok"),
        ("sub/../weights.bin", "ok"),
        ("other.bin", "missing"),
        ("", "missing"),
        ("sub", "not-a-file"),
        ("a\0b", "missing"),
        ("x" * 5000, "missing"),
        ("../secret", "outside"),
        ("sub/../../secret", "outside"),
        ("..", "outside"),
        ("..\\secret", "outside"),
        ("../models/weights.bin", "outside"),
        ("/etc/passwd", "absolute"),
        ("\\server\\share", "absolute"),
        ("C:\\weights.bin", "absolute"),
        ("C:weights.bin", "absolute"),
    ],
)
def test_places(folder: Path, location: str, want: str) -> None:
    assert status(folder, location) == want


def test_links(folder: Path, tmp_path: Path) -> None:
    (folder / "in.bin").symlink_to("weights.bin")
    (folder / "out.bin").symlink_to(tmp_path / "secret")
    (folder / "away").symlink_to(tmp_path)
    (folder / "loop").symlink_to("loop")
    assert status(folder, "in.bin") == "ok"
    assert status(folder, "out.bin") == "symlink"
    assert status(folder, "away/secret") == "symlink"
    assert status(folder, "loop") == "missing"


def test_a_model_cache_links_model_and_data_to_one_folder(tmp_path: Path) -> None:
    """The layout of the Hugging Face cache: snapshots/<revision>/name -> ../../blobs/<hash>."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for name in ("model.onnx", "weights.bin"):
        (blobs / f"{name}-hash").write_bytes(bytes(16))
        (snapshot / name).symlink_to(Path("../../blobs") / f"{name}-hash")
    assert status(snapshot, "weights.bin") == "ok"


@pytest.mark.parametrize(
    ("more", "want"),
    [
        ({}, "ok"),
        ({"offset": "0", "length": "16"}, "ok"),
        ({"offset": "1"}, "truncated"),
        ({"length": "17"}, "truncated"),
        ({"offset": "8", "length": "8"}, "ok"),
        ({"offset": "-5", "length": "x"}, "ok"),
        ({"offset": "9" * 19}, "truncated"),
    ],
)
def test_sizes(folder: Path, more: dict[str, str], want: str) -> None:
    assert status(folder, "weights.bin", **more) == want


def test_one_row_for_each_file(folder: Path) -> None:
    rows = external_files(
        folder / "model.onnx", [header("weights.bin"), header("weights.bin", offset="16"), header("gone.bin")]
    )
    assert rows == [
        {"location": "weights.bin", "status": "truncated", "tensors": 2, "bytes": 32},
        {"location": "gone.bin", "status": "missing", "tensors": 1, "bytes": 16},
    ]
    with pytest.raises(InputError, match=r"'weights.bin' \(truncated\), 'gone.bin' \(missing\)"):
        require_external(folder / "model.onnx", rows)
    assert external_span(header("a", offset="4", length="8")) == (4, 8)


def test_a_model_saved_by_onnx(tmp_path: Path) -> None:
    """Weights, an attribute, a subgraph and a function: each external tensor is found."""

    def tensor(name: str) -> TensorProto:
        return numpy_helper.from_array(np.arange(300, dtype=np.float32), name)

    inner = helper.make_graph([], "inner", [], [onnx.ValueInfoProto(name="deep")], [tensor("deep")])
    nodes = [
        helper.make_node("Constant", [], ["k"], value=tensor("attribute")),
        helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner),
    ]
    info = [helper.make_tensor_value_info("c", TensorProto.BOOL, []), helper.make_tensor_value_info("y", 1, [300])]
    model = helper.make_model(helper.make_graph(nodes, "g", info[:1], info[1:], [tensor("w")]))
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, all_tensors_to_one_file=True, location="w.bin", size_threshold=0,
              convert_attribute=True)  # fmt: skip
    facts = read_onnx(path)
    (row,) = facts[0].metadata["external"]
    want = list(onnx.external_data_helper._get_all_tensors(onnx.load(path, load_external_data=False)))
    assert row["status"] == "ok" and row["tensors"] == len([each for each in want if each.data_location == 1])
    assert row["bytes"] == (tmp_path / "w.bin").stat().st_size
    stored = {fact.name: fact for fact in facts if isinstance(fact, Tensor)}
    assert stored["w"].location == "external" and stored["w"].file == "w.bin" and stored["w"].bytes == 1200
    assert identify(str(path)).details["external"] == [row]
    (tmp_path / "w.bin").unlink()
    with pytest.raises(InputError, match=r"'w.bin' \(missing\)"):
        identify(str(path))
    assert read_onnx(path)[0].metadata["external"][0]["status"] == "missing"


def test_small_external_tensors_are_not_read(make: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8))
    path = tmp_path / "m.onnx"
    path.write_bytes(make.external("w.bin"))
    assert identify(str(path)).format == "onnx"
    (value,) = [fact for fact in read_onnx(path) if getattr(fact, "role", "") == "initializer"]
    assert value.constant == Unknown("the value is stored in another file")


def test_a_function_with_external_data(make: ModuleType, tmp_path: Path) -> None:
    entry = make.field(13, make.field(1, "location") + make.field(2, "gone.bin"))
    tensor = make.field(1, 2) + make.field(2, 1) + entry + make.field(14, 1)
    attribute = make.field(1, "value") + make.field(5, tensor) + make.field(20, 4)
    constant = make.field(7, make.field(2, "y") + make.field(4, "Constant") + make.field(5, attribute))
    path = tmp_path / "m.onnx"
    path.write_bytes(make.onnx_model() + make.field(25, make.field(1, "f") + constant))
    assert [each.external for each in external_tensors(map_file(path))] == [{"location": "gone.bin"}]


def test_left_over_entries_do_not_make_a_tensor_external(tmp_path: Path) -> None:
    """What counts is data_location, as for onnx: a model that was made whole again may keep the entries."""
    tensor = numpy_helper.from_array(np.ones(2, np.float32), "w")
    tensor.external_data.add(key="location", value="gone.bin")
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(helper.make_graph([], "g", [], [], [tensor])).SerializeToString())
    assert not onnx.external_data_helper.uses_external_data(tensor)
    assert identify(str(path)).details["external"] == []
    tensor.data_location = TensorProto.EXTERNAL
    assert onnx.external_data_helper.uses_external_data(tensor)
    path.write_bytes(helper.make_model(helper.make_graph([], "g", [], [], [tensor])).SerializeToString())
    with pytest.raises(InputError, match="gone"):
        identify(str(path))
