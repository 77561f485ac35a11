"""The configuration of a Keras model in an HDF5 file, without its library. The fixtures are written by h5py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tensoraudit.artifacts.hdf5 import Hdf5Error, root_attribute

FIXTURES = Path(__file__).parents[2] / "fixtures" / "tensorflow"


def attribute(raw, name="model_config"):
    return root_attribute(memoryview(raw), name)


def test_the_configuration_and_the_version():
    raw = (FIXTURES / "dense.h5").read_bytes()
    config = json.loads(attribute(raw))
    assert config["class_name"] == "Sequential"
    assert [layer["class_name"] for layer in config["config"]["layers"]] == ["InputLayer", "Dense"]
    assert attribute(raw, "keras_version") == b"3.15.1" and attribute(raw, "no_such_attribute") is None


def header(messages):
    """A file whose root has an object header of the second version, at byte 48."""
    body = b"".join(messages)
    start = b"\x89HDF\r\n\x1a\n" + bytes([2, 8, 8, 0]) + (0).to_bytes(8, "little")
    start += b"\xff" * 8 + (1_000).to_bytes(8, "little") + (48).to_bytes(8, "little") + b"\0" * 4
    return start + b"OHDR" + bytes([2, 1]) + len(body).to_bytes(2, "little") + body + b"\0" * 64


def text_attribute(name, value):
    """An attribute message of version 3: a text of fixed length."""
    datatype = bytes([0x13, 0, 0, 0]) + len(value).to_bytes(4, "little")
    sizes = b"".join(each.to_bytes(2, "little") for each in (len(name) + 1, len(datatype), 4))
    body = bytes([3, 0]) + sizes + b"\0" + name + b"\0" + datatype + b"\x02\0\0\0" + value
    return bytes([0x0C]) + len(body).to_bytes(2, "little") + b"\0" + body


def test_the_newer_header():
    raw = header([text_attribute(b"other", b"1"), text_attribute(b"model_config", b'{"a": 1}')])
    assert attribute(raw) == b'{"a": 1}'


def test_a_header_that_continues_in_itself_ends():
    loop = bytes([0x10]) + (16).to_bytes(2, "little") + b"\0" + (44).to_bytes(8, "little") + (200).to_bytes(8, "little")
    assert attribute(header([loop] * 3)) is None


def test_damage_is_an_error_of_its_own_or_harmless():
    raw = (FIXTURES / "dense.h5").read_bytes()
    for place in range(8, len(raw) - 4, 7):
        damaged = raw[:place] + b"\xff\xff\xff\x7f" + raw[place + 4 :]
        try:
            attribute(damaged)
        except Hdf5Error:
            continue
    with pytest.raises(Hdf5Error):
        attribute(raw[:40])
    with pytest.raises(Hdf5Error, match="superblock"):
        attribute(b"\x89HDF\r\n\x1a\n\x09" + b"\0" * 40)
