"""OCDBT databases and Zstandard frames that TensorStore wrote, against TensorStore; and damaged ones."""

from __future__ import annotations

import json
import shutil

import pytest

from tensoraudit.artifacts.ocdbt import MANIFEST, Place, read_database
from tensoraudit.artifacts.zstd import ZstdError, decompress
from tensoraudit.errors import InputError

pytestmark = pytest.mark.slow


def test_a_deep_tree_gives_every_value(jax_files):
    folder = jax_files.root / "database"
    values = json.loads((folder / "values.json").read_text())
    found = read_database(folder)
    assert set(found) == set(values)
    assert any(isinstance(place, Place) for place in found.values())
    for key, value in values.items():
        place = found[key]
        data = place if isinstance(place, bytes) else (folder / place.file).read_bytes()[place.offset :][: place.length]
        assert data == value.encode()


def test_a_link_to_a_file_of_another_folder_is_not_followed(jax_files, tmp_path):
    folder = tmp_path / "database"
    shutil.copytree(jax_files.root / "database", folder)
    for path in (folder / "d").iterdir():
        path.rename(tmp_path / path.name)
        path.symlink_to(tmp_path / path.name)
    with pytest.raises(InputError, match="symlink"):
        read_database(folder)


def test_a_flipped_bit_is_seen(jax_files, tmp_path):
    folder = tmp_path / "types"
    shutil.copytree(jax_files.root / "types_database", folder)
    [node] = (folder / "d").iterdir()
    for path in (folder / MANIFEST, node):
        whole = path.read_bytes()
        for place in range(0, len(whole), 7):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            with pytest.raises(InputError):
                read_database(folder)
        path.write_bytes(whole)


def frames(folder):
    return sorted(folder.glob("*.zst"))


def test_every_frame_unpacks_to_what_was_packed(jax_files):
    folder = jax_files.root / "zstandard"
    assert len(frames(folder)) == 40
    for path in frames(folder):
        raw = (folder / f"{path.stem.rpartition('-')[0]}.raw").read_bytes()
        assert decompress(path.read_bytes(), len(raw)) == raw, path.name
        with pytest.raises(ZstdError, match="unpacks to"):
            decompress(path.read_bytes(), len(raw) - 1)
