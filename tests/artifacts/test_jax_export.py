"""Serialized jax.export programs are told from other bytes without JAX."""

import struct
from pathlib import Path

import pytest

from tensoraudit.artifacts.identify import identify
from tensoraudit.artifacts.jax_export import read_jax_export

PROGRAM = Path(__file__).parents[2] / "fixtures" / "jax" / "program.bin"


def built(module=b"ML\xefR\rStableHLO_v1.0\x00", name=b"layer", fields=15):
    """A FlatBuffer with one table: a name in field 1, bytes in field 13, a number in field 14."""
    places = 4  # the table of fields, behind the offset of the root
    table = places + 4 + 2 * fields
    table += -table % 4
    body = table + 16
    offsets = [0] * fields
    offsets[1], offsets[13], offsets[14] = 4, 8, 12
    text = struct.pack("<I", len(name)) + name + b"\0" * (-len(name) % 4)
    return b"".join(
        [
            struct.pack("<I", table),
            struct.pack(f"<HH{fields}H", 4 + 2 * fields, 16, *offsets).ljust(table - places, b"\0"),
            struct.pack("<iIIH2x", table - places, body - (table + 4), body + len(text) - (table + 8), 10),
            text,
            struct.pack("<I", len(module)) + module,
        ]
    )


def test_a_program_of_jax_is_recognised():
    assert read_jax_export(memoryview(PROGRAM.read_bytes())) == {"function": "layer", "calling_convention": 10}


def test_a_hand_made_one_too():
    assert read_jax_export(memoryview(built())) == {"function": "layer", "calling_convention": 10}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 64,
        b"\xff" * 64,
        built(module=b"ML\xefR\rMLIR20.0\x00"),
        built(module=b"no bytecode"),
        b"PK\x03\x04" + b"\0" * 100,
        struct.pack("<Ii", 4, 100) + b"\0" * 100,
    ],
    ids=["nothing", "zeros", "ones", "another producer", "no bytecode", "zip", "table before the file"],
)
def test_other_bytes_are_none(data):
    assert read_jax_export(memoryview(data)) is None


@pytest.mark.parametrize("size", range(0, 600, 7))
def test_a_file_that_breaks_off_is_none(size):
    assert read_jax_export(memoryview(PROGRAM.read_bytes()[:size])) is None


def test_identify_goes_by_the_content(tmp_path):
    path = tmp_path / "weights.onnx"
    path.write_bytes(PROGRAM.read_bytes())
    artifact = identify(str(path))
    assert (artifact.format, artifact.framework) == ("jax_export", "jax")
    assert artifact.details["function"] == "layer" and "misnamed" in artifact.details
    assert "misnamed" not in identify(str(PROGRAM)).details
