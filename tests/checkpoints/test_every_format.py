"""The same tensors in every format: each pair of two formats is equal, and a tensor has one digest wherever it lies."""

from __future__ import annotations

import pytest

from tensoraudit.checkpoints.diff import diff_checkpoints
from tensoraudit.checkpoints.digests import digest_entry
from tensoraudit.checkpoints.read import read_checkpoint

pytestmark = pytest.mark.slow

LACKS = {"brain"}
"""What formats of numpy's types do not hold."""
FORMATS = {
    "plain.npz": LACKS, "deflate.npz": LACKS, "fortran.npz": LACKS, "zip.pt": set(), "legacy.pt": set(),
    "strides.pt": set(), "one.safetensors": set(), "dcp": set(), "plain.h5": LACKS, "gzip.h5": LACKS,
    "fletcher.h5": LACKS, "inside.onnx": LACKS, "outside.onnx": LACKS, "by_object": set(), "by_name": set(),
    "flax.msgpack": set(), "ocdbt": {"double", "whole"}, "zarr": {"number"},
}  # fmt: skip
"""The checkpoints, and which of the tensors each lacks."""


@pytest.mark.parametrize("name", FORMATS)
def test_a_tensor_has_its_digest_in_any_format(format_files, name):
    root, expected = format_files
    stored = read_checkpoint(root / name)
    found = {
        entry.name.partition("/")[0]: [entry.dtype, list(entry.shape), digest_entry(stored, entry)]
        for entry in stored.entries
        if entry.name != "_CHECKPOINTABLE_OBJECT_GRAPH"
    }
    assert found == {key: row for key, row in expected.items() if key not in FORMATS[name]}


NEXT = dict(zip(FORMATS, [*list(FORMATS)[1:], next(iter(FORMATS))], strict=True))


@pytest.mark.parametrize(("reference", "candidate"), NEXT.items())
def test_any_two_formats_hold_the_same(format_files, reference, candidate):
    root, expected = format_files
    pairs = diff_checkpoints(*(read_checkpoint(root / name) for name in (reference, candidate)), values=True).pairs
    statuses = {(pair.reference or pair.candidate).partition("/")[0]: pair.status for pair in pairs}
    lacking = {**dict.fromkeys(FORMATS[reference], "extra"), **dict.fromkeys(FORMATS[candidate], "missing")}
    nowhere = FORMATS[reference] & FORMATS[candidate]
    assert statuses == {key: lacking.get(key, "equal") for key in expected if key not in nowhere}
