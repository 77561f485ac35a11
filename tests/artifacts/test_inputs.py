from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensoraudit.artifacts import inputs
from tensoraudit.artifacts.inputs import load_samples
from tensoraudit.errors import InputError


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_by_name_and_order(tmp_path: Path, save: Any) -> None:
    want = {
        "z": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.array(7, np.int64), "flag": np.array([True, False]),
        "empty": np.zeros((0, 3), np.float16), "c": np.array([1 + 2j], np.complex64), "u": np.array([255], np.uint8),
        "zeros": np.zeros((1000, 1000)),
    }  # fmt: skip
    save(tmp_path / "s.npz", **want)
    found = load_samples(tmp_path / "s.npz")
    assert list(found) == list(want)
    for name, array in want.items():
        assert (
            found[name].dtype == array.dtype and np.array_equal(found[name], array) and found[name].shape == array.shape
        )


def test_order_is_kept_without_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", np.ones(1), np.zeros(2))
    assert list(load_samples(tmp_path / "s.npz")) == ["arr_0", "arr_1"]


def test_one_array(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.save(tmp_path / "s.npy", array)
    found = load_samples(str(tmp_path / "s.npy"))
    assert list(found) == ["arr_0"] and np.array_equal(found["arr_0"], array)


def test_foreign_byte_order_becomes_native(tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", np.array([1.5, -2.0], dtype=">f4"))
    (found,) = load_samples(tmp_path / "s.npy").values()
    assert found.dtype == np.dtype("<f4") and found.tolist() == [1.5, -2.0]


class Evil:
    def __reduce__(self) -> Any:
        return (open, ("pwned", "w"))


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([Evil()], dtype=object), "holds Python objects"),
        (np.array(["text"]), "elements of type <U4"),
        (np.array([b"text"]), "elements of type"),
        (np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]), "elements of type"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "elements of type"),
        (np.array([1], dtype=np.longdouble), "elements of type float128"),
    ],
)
def test_what_no_model_takes(tmp_path: Path, array: Any, words: str) -> None:
    np.savez(tmp_path / "s.npz", x=array)
    with pytest.raises(InputError, match=f"array 'x'.*{words}"):
        load_samples(tmp_path / "s.npz")


def npy(header: str, body: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + version + len(text).to_bytes(2 if version[0] == 1 else 4, "little") + text + body


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }", bytes(8)),
            "4,398,046,511,104 bytes",
        ),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", bytes(8)), r"12 bytes\), 8 bytes are there"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", bytes(8)), "a shape that no array has"),
        (
            npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({'9' * 4000}, {'9' * 4000}), }}"),
            "shape that no array",
        ),
        (
            npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({'1, ' * 70}), }}", bytes(4)),
            "shape that no array",
        ),
        (npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"cos\nsystem\n."), "holds Python objects"),
        (npy("__import__('os').system('touch pwned')"), "is damaged"),
        (npy("{'descr': [" + "(" * 500), "is damaged"),
        (npy("{" * 9000), "is damaged"),
        (npy("{}", version=b"\x09\x00"), "is damaged .*version"),
        (b"\x93NUMPY", "is damaged"),
        (b"\x93NUMPY\x01\x00\xff\xff", "is damaged"),
        (b"", "is an empty file"),
        (b"hello", "is text, no NumPy file"),
        (b"\x89PNG\r\n\x1a\n", "is a PNG image, no NumPy file"),
        (b"\x80\x02N.", "a pickle that torch.save did not write, no NumPy file"),
    ],
)
def test_damaged_files(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "s.npy"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        load_samples(path)
    assert caught.value.where == str(path) and caught.value.remedy


def archive(path: Path, entries: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return path


def test_archives_that_are_no_samples(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no array"):
        load_samples(archive(tmp_path / "a.npz", {}))
    with pytest.raises(InputError, match=r"holds 'readme', so it is no \.npz"):
        load_samples(archive(tmp_path / "b.npz", {"readme": b"x"}))
    with pytest.raises(InputError, match="array 'x' is damaged"):
        load_samples(archive(tmp_path / "c.npz", {"x.npy": b"cos\nsystem\n."}))
    with pytest.raises(InputError, match="leads out"):
        load_samples(archive(tmp_path / "d.npz", {"../x.npy": b""}))


def test_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "_LIMITS", inputs.ZipLimits(ratio=1_100, inflated=1 << 20))
    out = io.BytesIO()
    np.save(out, np.zeros(1 << 20, np.uint8))
    with pytest.raises(InputError, match="as a zip bomb does"):
        load_samples(archive(tmp_path / "s.npz", {"x.npy": out.getvalue()}, zipfile.ZIP_DEFLATED))
