"""Values read from parts, against numpy's own arrays; blocks in bounded memory; what cannot be read says why."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensoraudit.checkpoints.schema import Entry, Part, StoredCheckpoint
from tensoraudit.checkpoints.values import UnreadableValues, blocks, boxes, read_entry

CUBE = np.arange(7 * 5 * 3, dtype=np.float32).reshape(7, 5, 3)


@pytest.fixture
def checkpoint(tmp_path):
    """The cube whole, then cut along axis 1 into two pieces."""
    pieces = [CUBE, CUBE[:, :2], CUBE[:, 2:]]
    (tmp_path / "f").write_bytes(b"xx" + b"".join(np.ascontiguousarray(piece).tobytes() for piece in pieces))
    return StoredCheckpoint(tmp_path / "f", tmp_path, "raw", "numpy", ("f",), ())


WHOLE = Entry("w", "float32", CUBE.shape, (Part("f", 2, CUBE.nbytes),))
AT = 2 + CUBE.nbytes
CUT = WHOLE._replace(
    parts=(Part("f", AT, 168, (0, 0, 0), (7, 2, 3)), Part("f", AT + 168, 252, (0, 2, 0), (7, 3, 3))),
)
TURNED = Entry("t", "float32", (3, 7, 5), (Part("f", 2, CUBE.nbytes, stride=(1, 15, 3)),))
RUNS = WHOLE._replace(parts=(Part("f", 2, 40, (0,), (10,)), Part("f", 42, 380, (10,), (95,))))
CASES = {"whole": (WHOLE, CUBE), "cut": (CUT, CUBE), "turned": (TURNED, CUBE.transpose(2, 0, 1)), "runs": (RUNS, CUBE)}


@pytest.mark.parametrize("name", CASES)
def test_reads_whole(checkpoint, name):
    entry, expected = CASES[name]
    found = read_entry(checkpoint, entry)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("most", [4, 8, 24, 60, 100, 10_000])
@pytest.mark.parametrize("name", CASES)
def test_blocks_are_small_and_in_order(checkpoint, name, most):
    entry, expected = CASES[name]
    pieces = list(blocks(checkpoint, entry, most))
    assert max(piece.nbytes for piece in pieces) <= most
    np.testing.assert_array_equal(np.concatenate(pieces), expected.reshape(-1))


def test_replicas_are_read_once_and_holes_are_told(checkpoint):
    twice = CUT._replace(parts=(*CUT.parts, CUT.parts[0]._replace(rank=1)))
    np.testing.assert_array_equal(read_entry(checkpoint, twice), CUBE)
    with pytest.raises(UnreadableValues, match="63 elements"):
        read_entry(checkpoint, CUT._replace(parts=CUT.parts[:1]))


def test_overlap_does_not_hide_a_hole(checkpoint):
    """Sizes add up to the tensor's, but one row is there twice and one not at all."""
    parts = (Part("f", 2, 240, (0, 0, 0), (4, 5, 3)), Part("f", 182, 180, (3, 0, 0), (3, 5, 3)))
    with pytest.raises(UnreadableValues, match="15 elements"):
        read_entry(checkpoint, WHOLE._replace(parts=parts))


@pytest.mark.parametrize(
    ("part", "shape", "words"),
    [
        (Part("f", 2, 4000), (1000,), "before its"),
        (Part("f", 2, 8), (7,), "its shape asks for 28"),
        (Part("f", None, 28, codec="chunks"), (7,), "chunks"),
        (Part("f", None, 28), (7,), "do not stand"),
        (Part("../f", 0, 28), (7,), "out of the checkpoint's folder"),
        (Part("/etc/passwd", 0, 28), (7,), "out of the checkpoint's folder"),
        (Part("gone", 0, 28), (7,), "No such file"),
        (Part(".", 0, 28), (7,), "no regular file"),
        (Part("a\0b", 0, 28), (7,), "cannot be read"),
        (Part("f", 2, 8, stride=(0,)), (1 << 40,), "repeat 8 stored bytes"),
        (Part("f", 2, 8, stride=(1 << 40,)), (3,), "its elements at"),
        (Part("f", 2, 8, stride=(-1,)), (3,), "strides"),
        (Part("f", 2, 8, stride=(1, 1)), (3,), "strides"),
        (Part("f", 2, 8, (0,), (1 << 45,)), (1 << 46,), "holds 8 bytes of it|no memory"),
        (Part("f", 2, 8, (0, 0), (1, 2)), (1, 2, 3), "of rank 3"),
    ],
)
def test_hostile_parts_are_refused(checkpoint, part, shape, words):
    with pytest.raises(UnreadableValues, match=words):
        read_entry(checkpoint, Entry("w", "float32", shape, (part,)))


def test_a_pipe_is_no_tensor(checkpoint, tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableValues, match="no regular file"):
        read_entry(checkpoint, Entry("w", "float32", (7,), (Part("pipe", 0, 28),)))


@pytest.mark.parametrize("dtype", ["object", "string", "U7", "datetime64[s]", "nonsense"])
def test_what_is_no_number_is_refused(checkpoint, dtype):
    with pytest.raises(UnreadableValues, match="no numbers"):
        read_entry(checkpoint, Entry("w", dtype, (1,), (Part("f", 0, 8),)))


def test_empty_and_scalar(checkpoint):
    assert read_entry(checkpoint, Entry("e", "float32", (0, 3), ())).shape == (0, 3)
    scalar = read_entry(checkpoint, Entry("s", "float32", (), (Part("f", 6, 4),)))
    assert scalar.shape == () and scalar == 1.0


def test_big_endian(checkpoint, tmp_path):
    (tmp_path / "f").write_bytes(CUBE.astype(">f4").tobytes())
    np.testing.assert_array_equal(
        read_entry(checkpoint, Entry("w", ">f4", CUBE.shape, (Part("f", 0, CUBE.nbytes),))), CUBE
    )


@pytest.mark.parametrize("most", [1, 2, 100])
def test_packed_four_bit_integers(checkpoint, tmp_path, most):
    values = np.array([-8, 7, 3, -1, 5], np.int8)
    codes = (values & 15).astype(np.uint8)
    packed = np.array([codes[0] | codes[1] << 4, codes[2] | codes[3] << 4, codes[4]], np.uint8)
    (tmp_path / "f").write_bytes(packed.tobytes())
    entry = Entry("w", "int4", (5,), (Part("f", 0, 3),))
    np.testing.assert_array_equal(read_entry(checkpoint, entry), values)
    np.testing.assert_array_equal(np.concatenate(list(blocks(checkpoint, entry, most))), values)


def test_deflated_member_of_a_zip(tmp_path):
    np.savez_compressed(tmp_path / "z.npz", w=CUBE)
    stored = StoredCheckpoint(tmp_path / "z.npz", tmp_path, "npz", "numpy", ("z.npz",), ())
    entry = Entry("w", "float32", CUBE.shape, (Part("z.npz", None, CUBE.nbytes, codec="deflate:w.npy"),))
    with pytest.raises(UnreadableValues, match="deflate"):
        read_entry(stored, entry._replace(parts=(entry.parts[0]._replace(codec="deflate"),)))
    np.testing.assert_array_equal(read_entry(stored, entry), CUBE)


def test_boxes_cover_a_shape_once():
    for shape in [(7, 5, 3), (1,), (11,), (2, 1, 13), ()]:
        for most in (1, 2, 7, 1000):
            seen = np.zeros(shape, int)
            for box in boxes(shape, most):
                assert np.prod(box.shape, dtype=int) <= most
                seen[tuple(slice(a, a + n) for a, n in zip(box.start, box.shape, strict=True))] += 1
            assert (seen == 1).all()


SIZES = st.integers(-2, 1 << 70) | st.integers(0, 9)
TUPLES = st.lists(SIZES, max_size=4).map(tuple)
FILES = st.sampled_from(["f", "g", "..", "../f", "", ".", "/", "f/f"])
PARTS = st.builds(
    Part,
    FILES,
    st.none() | SIZES,
    SIZES,
    TUPLES,
    TUPLES,
    TUPLES,
    codec=st.sampled_from(["", "", "", "chunks", "deflate:x"]),
)
ENTRIES = st.builds(
    Entry,
    st.just("w"),
    st.sampled_from(["float32", "bfloat16", "int4", "float8_e5m2", "bool", "V4", "complex64", "float4_e2m1fn"]),
    st.lists(st.integers(0, 5), max_size=3).map(tuple) | TUPLES,
    st.lists(PARTS, max_size=3).map(tuple),
)


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entry=ENTRIES)
def test_any_header_gives_values_or_a_reason(checkpoint, entry):
    try:
        found = read_entry(checkpoint, entry)
    except UnreadableValues as problem:
        assert problem.reason
    else:
        assert found.shape == entry.shape
