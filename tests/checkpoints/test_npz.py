"""`.npz` against NumPy: bytes where they stand, arrays of objects, orders, and archives that are bombs or damaged."""

from __future__ import annotations

import io
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.zips import SafeZip
from tensoraudit.checkpoints import npz
from tensoraudit.errors import InputError

ARRAYS = {
    "params/dense/kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
    "big": np.arange(3, dtype=">i4"),
    "W": np.ones(2),
    "w": np.zeros(3),
    "scalar": np.array(3.5),
    "empty": np.zeros((0, 3)),
    "zeros": np.zeros(1_000_000),
    "flags": np.array([True, False]),
    "half": np.ones(3, np.float16),
    "complex": np.ones(3, np.complex64),
    "opt/mu": np.ones(3),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_every_array_is_read_with_its_bytes(tmp_path, save):
    path = tmp_path / "x.npz"
    save(path, **ARRAYS)
    assert npz.recognises(path)
    stored = npz.read(path)
    view = map_file(path)
    archive = SafeZip(view, "x", npz.LIMITS)
    assert [entry.name for entry in stored.entries] == list(ARRAYS)
    for entry in stored.entries:
        array = ARRAYS[entry.name]
        [part] = entry.parts
        assert np.dtype(entry.dtype) == array.dtype
        assert entry.shape == array.shape
        if part.codec:
            assert part.offset is None
            content = bytes(archive.view(part.codec.removeprefix("deflate:")))[-part.bytes :] if part.bytes else b""
        else:
            content = bytes(view[part.offset : part.offset + part.bytes])
        assert content == array.tobytes("A")
    fortran = next(entry for entry in stored.entries if entry.name == "fortran")
    assert fortran.parts[0].stride == tuple(step // 8 for step in ARRAYS["fortran"].strides) == (1, 2, 6)
    assert {entry.name: entry.group for entry in stored.entries}["opt/mu"] == "optimizer"
    assert stored.observations == ()
    assert (stored.format, stored.framework) == ("npz", "numpy")


def test_a_folder_that_all_share_is_part_of_the_name(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", **{"a/b": np.ones(2), "a/c": np.ones(3)})
    stored = npz.read(tmp_path / "x.npz")
    assert [entry.name for entry in stored.entries] == ["a/b", "a/c"]
    assert [entry.parts[0].codec for entry in stored.entries] == ["deflate:b.npy", "deflate:c.npy"]


class Pwned:
    def __reduce__(self):
        import os

        return os.system, ("touch pwned",)


def test_arrays_of_objects_are_not_loaded_and_their_imports_are_listed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    objects = np.empty(1, object)
    objects[0] = Pwned()
    records = np.zeros(2, [("a", "<f4"), ("b", "<i8")])
    mixed = np.zeros(2, [("a", "<f4"), ("b", "O")])
    np.savez(tmp_path / "x.npz", plain=np.ones(2), objects=objects, records=records, mixed=mixed)
    stored = npz.read(tmp_path / "x.npz")
    held = {entry.name: entry.parts[0].bytes for entry in stored.entries if entry.dtype != "object"}
    assert held == {"plain": 16, "records": 24}
    listed = {entry.name: (entry.group, entry.parts[0].offset) for entry in stored.entries if entry.dtype == "object"}
    assert listed == {"objects": ("other", None), "mixed": ("other", None)}
    assert stored.metadata["objects"] == ["objects", "mixed"]
    assert stored.imports == ("posix.system",)
    assert not (tmp_path / "pwned").exists()


def archive(path, *members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members:
            file.writestr(name, data)


def npy(text: bytes, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    form = "<H" if version[0] == 1 else "<I"
    return b"\x93NUMPY" + version + struct.pack(form, len(text)) + text + data


def kinds(stored):
    return [(each.kind, each.subject) for each in stored.observations]


GOOD = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"(3,)", b"(-3,)"),
        (b"(3,)", b"(99999999999999999999,)"),
        (b"(3,)", b"(" + b"1," * 65 + b")"),
        (b"(3,)", b"(3.0,)"),
        (b"(3,)", b"((3,),)"),
        (b"(3,)", b"(,)"),
        (b"'<f4'", b"'<f99'"),
        (b"'<f4'", b"__import__('os')"),
        (b"False", b"Maybe"),
        (GOOD, b""),
        (GOOD, b"\xff" * 50),
        (GOOD, b"(" * 60_000),
    ],
)
def test_a_header_that_cannot_be_costs_its_own_array_only(tmp_path, old, new):
    assert old in GOOD
    archive(tmp_path / "x.npz", ("a.npy", npy(GOOD, bytes(12))), ("b.npy", npy(GOOD.replace(old, new), bytes(12))))
    stored = npz.read(tmp_path / "x.npz")
    assert kinds(stored) == [("file_unread", "b")]
    assert [entry.name for entry in stored.entries] == ["a"]


@pytest.mark.parametrize("data", [b"", b"\x93NUMPY", npy(GOOD)[:30], npy(GOOD, version=b"\x09\x00"), b"x" * 300])
def test_what_is_no_array_is_said(tmp_path, data):
    archive(tmp_path / "x.npz", ("a.npy", data))
    assert kinds(npz.read(tmp_path / "x.npz")) == [("file_unread", "a"), ("no_tensors", "x.npz")]


def test_versions_2_and_3_of_the_header(tmp_path):
    members = [(f"{version}.npy", npy(GOOD, bytes(12), bytes([version, 0]))) for version in (2, 3)]
    archive(tmp_path / "x.npz", *members)
    stored = npz.read(tmp_path / "x.npz")
    assert [entry.shape for entry in stored.entries] == [(3,), (3,)]
    assert stored.observations == ()


def test_an_array_without_enough_bytes_is_said(tmp_path):
    text = GOOD.replace(b"(3,)", b"(3000000000000,)")
    archive(tmp_path / "x.npz", ("a.npy", npy(text, bytes(12))))
    stored = npz.read(tmp_path / "x.npz")
    assert kinds(stored) == [("file_truncated", "a")]
    assert stored.observations[0].value == {"bytes": 12, "needed": 12_000_000_000_000}


def test_a_bomb_costs_no_memory(tmp_path):
    """A gigabyte of zeros in a megabyte is an honest array of zeros: its header is read, and nothing more of it."""
    import tracemalloc

    text = GOOD.replace(b"(3,)", b"(268435456,)")
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as file, file.open("a.npy", "w") as entry:
        entry.write(npy(text))
        for _ in range(64):
            entry.write(bytes(1 << 20))
    tracemalloc.start()
    stored = npz.read(tmp_path / "x.npz")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    assert kinds(stored) == [("file_truncated", "a")]


def test_truncated_and_foreign_archives(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, a=np.ones(100))
    data = path.read_bytes()
    for cut in (3, 50, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(InputError):
            npz.read(path)
    archive(tmp_path / "y.zip", ("a.txt", b"x"))
    assert not npz.recognises(tmp_path / "y.zip")
    (tmp_path / "z.npz").write_bytes(b"no zip at all")
    assert not npz.recognises(tmp_path / "z.npz")


def seeds():
    for save in (np.savez, np.savez_compressed):
        out = io.BytesIO()
        save(out, a=np.arange(6).reshape(2, 3), o=np.array([{}, None], object))
        yield out.getvalue()


SEEDS = list(seeds())


@settings(max_examples=200)
@given(st.sampled_from(SEEDS), st.data())
def test_mutated_files_give_an_answer_or_a_refusal(tmp_path_factory, seed, data):
    mutated = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(seed) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "mutated.npz"
    path.write_bytes(mutated)
    npz.recognises(path)
    try:
        npz.read(path)
    except InputError:
        return
