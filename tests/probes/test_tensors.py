from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tensoraudit.probes.tensors import (
    DTYPES,
    StorageError,
    TensorFolder,
    TensorReferenceError,
    UnsupportedArrayError,
    references_in,
)

GOOD = {"file": "t-1.bin", "dtype": "float32", "shape": [2, 3]}


@pytest.fixture
def folder(tmp_path: Path) -> TensorFolder:
    return TensorFolder(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data(), dtype=st.sampled_from(sorted(DTYPES)), order=st.sampled_from("<>"))
def test_every_dtype_shape_and_byte_order_comes_back(
    folder: TensorFolder, data: st.DataObject, dtype: str, order: str
) -> None:
    shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
    array = data.draw(hnp.arrays(np.dtype(dtype).newbyteorder(order), shapes))
    reference = folder.put(array)
    back = folder.get(reference)
    assert reference == {"file": reference["file"], "dtype": dtype, "shape": list(array.shape)}
    assert back.shape == array.shape
    assert back.tobytes() == array.astype(np.dtype(dtype).newbyteorder("<")).tobytes()
    assert type(back) is np.ndarray
    assert not back.flags.writeable


@pytest.mark.parametrize("view", [lambda a: a.T, lambda a: a[::-1, ::2], lambda a: np.broadcast_to(a[:1], (3, 4))])
def test_any_layout_is_written_in_c_order(folder: TensorFolder, view: Any) -> None:
    array = view(np.arange(12.0).reshape(3, 4))
    reference = folder.put(array)
    assert (folder.folder / reference["file"]).read_bytes() == array.tobytes(order="C")
    assert folder.get(reference).tolist() == array.tolist()


def test_big_endian_is_stored_little_endian(folder: TensorFolder) -> None:
    reference = folder.put(np.array([1, 256], dtype=">i2"))
    assert (folder.folder / reference["file"]).read_bytes() == b"\x01\x00\x00\x01"


def test_the_framework_dtype_is_kept_beside_the_widened_one(folder: TensorFolder) -> None:
    reference = folder.put(np.array([1.5], dtype=np.float32), logical="bfloat16")
    assert (reference["dtype"], reference["logical"]) == ("float32", "bfloat16")


def test_extension_dtypes_are_widened_exactly(folder: TensorFolder) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    brain = folder.put(np.array([1.0, -3.0, 2.0**100], dtype=ml_dtypes.bfloat16))
    assert (brain["dtype"], brain["logical"]) == ("float32", "bfloat16")
    assert folder.get(brain).tolist() == [1.0, -3.0, 2.0**100]
    nibble = folder.put(np.array([-8, 7], dtype=ml_dtypes.int4))
    assert (nibble["dtype"], nibble["logical"], folder.get(nibble).tolist()) == ("int8", "int4", [-8, 7])


@pytest.mark.parametrize(
    "array",
    [
        np.array(["a"]),
        np.array([b"a"]),
        np.array([object()]),
        np.array(["2026-01-01"], dtype="M8[D]"),
        np.zeros(1, "i4,f4"),
    ],
)
def test_what_has_no_plain_bytes_is_unsupported(folder: TensorFolder, array: Any) -> None:
    with pytest.raises(UnsupportedArrayError, match="cannot be carried"):
        folder.put(array)
    assert not list(folder.folder.iterdir())


def test_a_full_disk_is_said_and_leaves_no_half_file(folder: TensorFolder) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(StorageError, match=r"Cannot write 8000 bytes of tensor data to .*t-1\.bin"):
            folder.put(np.zeros(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(folder.folder.iterdir())


@pytest.mark.parametrize(
    "change",
    [
        {"file": "../t-1.bin"},
        {"file": "/etc/passwd"},
        {"file": "sub/t-1.bin"},
        {"file": ".bin"},
        {"file": "t-1.bin\n"},
        {"file": "t-1.bin\0"},
        {"file": "lock"},
        {"file": 3},
        {"file": "absent.bin"},
        {"dtype": "object"},
        {"dtype": "S4"},
        {"dtype": ["float32"]},
        {"dtype": "float64"},
        {"shape": [2, 4]},
        {"shape": [-2, -3]},
        {"shape": [6.0]},
        {"shape": [True, 6]},
        {"shape": "6"},
        {"shape": [2**62, 2**62]},
        {"shape": [1] * 33},
    ],
)
def test_a_reference_that_is_not_right_is_refused(folder: TensorFolder, change: dict[str, Any]) -> None:
    assert folder.put(np.zeros((2, 3), np.float32)) == GOOD
    with pytest.raises(TensorReferenceError):
        folder.check(GOOD | change)
    with pytest.raises(TensorReferenceError):
        folder.get(GOOD | change)


@pytest.mark.parametrize("reference", [None, "t-1.bin", [], {}, {"file": "t-1.bin"}])
def test_what_is_no_reference_is_refused(folder: TensorFolder, reference: Any) -> None:
    with pytest.raises(TensorReferenceError, match="no tensor reference"):
        folder.get(reference)


def test_links_pipes_and_folders_are_not_followed(folder: TensorFolder, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(24))
    (tmp_path / "link.bin").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe.bin")
    (tmp_path / "folder.bin").mkdir()
    for name in ("link.bin", "pipe.bin", "folder.bin"):
        with pytest.raises(TensorReferenceError):
            folder.get(GOOD | {"file": name})


def test_a_mapped_tensor_outlives_its_file(folder: TensorFolder) -> None:
    reference = folder.put(np.arange(5))
    values = folder.get(reference)
    folder.discard({"runs": [{"outputs": {"y": reference}}]})
    folder.discard(reference)
    assert not list(folder.folder.iterdir())
    assert values.tolist() == [0, 1, 2, 3, 4]


def test_discard_touches_nothing_but_tensor_files_of_the_folder(folder: TensorFolder, tmp_path: Path) -> None:
    (tmp_path / "keep.txt").touch()
    TensorFolder(tmp_path / "sub").discard([GOOD | {"file": "../keep.txt"}, GOOD | {"file": "keep.txt"}])
    folder.discard([GOOD | {"file": "keep.txt"}, "text", 3, None])
    assert (tmp_path / "keep.txt").exists()


def test_discard_prefix_takes_one_job_and_not_its_neighbour(tmp_path: Path) -> None:
    for prefix in ("j1", "j12"):
        TensorFolder(tmp_path, prefix).put(np.zeros(1))
    TensorFolder(tmp_path).discard_prefix("j1")
    assert [path.name for path in tmp_path.iterdir()] == ["j12-1.bin"]


def test_references_are_found_at_any_depth() -> None:
    deep: Any = GOOD
    for _ in range(5000):
        deep = [{"x": deep}]
    assert list(references_in({"a": deep, "b": {"file": "x"}, "c": [GOOD, 1, None]})) == [GOOD, GOOD]


def test_a_pack_holds_many_tensors_in_one_file(tmp_path):
    folder = TensorFolder(tmp_path)
    folder.pack()
    arrays = [np.arange(5, dtype=np.int64), np.float32(2.5).reshape(()), np.zeros((0, 3)), np.arange(7, dtype=np.uint8)]
    references = [folder.put(array) for array in arrays]
    assert len({reference["file"] for reference in references}) == len(list(tmp_path.iterdir())) == 1
    for array, reference in zip(arrays, references, strict=True):
        assert np.array_equal(folder.get(reference), array)
        assert folder.get(reference).shape == array.shape


@pytest.mark.parametrize("offset", [-64, 1 << 40, "0", 0.0, True])
def test_an_offset_outside_the_pack_is_refused(tmp_path, offset):
    folder = TensorFolder(tmp_path)
    folder.pack()
    reference = {**folder.put(np.arange(5)), "offset": offset}
    with pytest.raises(TensorReferenceError):
        folder.get(reference)
