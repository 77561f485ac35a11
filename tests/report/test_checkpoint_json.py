"""The rows of the JSON report: complete, plain, one a line, and the same bytes for the same result."""

import json
from pathlib import Path

from tensoraudit.checkpoints.paired import CheckpointDiff, PairedTensor
from tensoraudit.checkpoints.schema import Entry, Observation, Part, StoredCheckpoint, TrainingState
from tensoraudit.report.json import document, render

EVIL = '(rows)"\n\\u0000\udc80'
ENTRIES = (
    Entry("w", "float32", (2, 2), (Part("m-1", 8, 16),), path=("model",), axes="OI"),
    Entry("s", "bfloat16", (4,), (Part("m-1", 24, 4, (0,), (2,), (), 0), Part("m-2", None, 4, (2,), (2,), (), 1, "x"))),
    Entry(EVIL, "float32", (2, 2), (Part("m-1", 8, 16),), same_as="model.w"),
)


def stored(**more) -> StoredCheckpoint:
    values = {
        "path": Path("run"), "root": Path("run"), "format": "f", "framework": "pytorch", "files": ("m-1", "m-2"),
        "entries": ENTRIES, "training": TrainingState(step=7, rng=("torch",)), "metadata": {"nan": float("nan")},
        "observations": (Observation("file_missing", "m-3", 1, "gone", "i.json"),), **more,
    }  # fmt: skip
    return StoredCheckpoint(**values)


def test_every_tensor_has_its_row(result_of):
    result = result_of(targets=(), checkpoint=stored())
    told = document(result)["checkpoint"]
    assert told["tensors"] == [
        {
            "name": "model.w", "group": "model", "dtype": "float32", "shape": [2, 2], "bytes": 16, "axes": "OI",
            "file": "m-1", "offset": 8,
        },
        {
            "name": "s", "group": "model", "dtype": "bfloat16", "shape": [4], "bytes": 8,
            "parts": [
                {"file": "m-1", "offset": 24, "bytes": 4, "part_start": [0], "part_shape": [2], "rank": 0},
                {
                    "file": "m-2", "offset": None, "bytes": 4, "part_start": [2], "part_shape": [2], "rank": 1,
                    "codec": "x",
                },
            ],
        },
        {
            "name": EVIL, "group": "model", "dtype": "float32", "shape": [2, 2], "bytes": 0, "same_as": "model.w",
            "file": "m-1", "offset": 8,
        },
    ]  # fmt: skip
    assert told["totals"] == {
        "tensors": 3, "elements": 8, "bytes": 24, "bytes_by_dtype": {"float32": 16, "bfloat16": 8},
        "bytes_by_group": {"model": 24}, "tied": 1,
    }  # fmt: skip
    assert told["metadata"] == {"nan": "NaN"}
    assert told["resume"]["there"]["step"] == "7"
    assert told["observations"] == [
        {"kind": "file_missing", "subject": "m-3", "value": 1, "message": "gone", "file": "i.json"}
    ]


def test_the_text_is_the_document_with_a_tensor_a_line(result_of):
    result = result_of(targets=(), checkpoint=stored(), notes=("(rows)",))
    text = render(result)
    assert json.loads(text) == document(result)
    assert text == render(result)
    assert sum(line.startswith('      {"name"') for line in text.split("\n")) == 3


def test_no_rows_are_an_empty_list(result_of):
    result = result_of(targets=(), checkpoint=stored(entries=()))
    assert json.loads(render(result))["checkpoint"]["tensors"] == []


def test_pairs_of_a_comparison(result_of):
    pairs = (
        PairedTensor("w", "w", "equal", "name", dtypes=("float32", "float32"), shapes=((2,), (2,)), digests=("1", "1")),
        PairedTensor("v", "u", "cast", "map", loss={"narrowing": True}, linf=float("inf"), note="n", verdict="noise"),
        PairedTensor("", "x", "extra"),
    )
    found = CheckpointDiff(stored(), stored(), pairs, (("", "module."),), ())
    result = result_of(targets=(), checkpoint_diff=found)
    told = document(result)["checkpoint_diff"]
    assert told["counts"] == {"equal": 1, "cast": 1, "extra": 1}
    assert told["prefixes"] == [{"reference": "", "candidate": "module."}]
    assert told["pairs"][0]["sha256"] == ["1", "1"] and "linf" not in told["pairs"][0]
    assert told["pairs"][1] == {
        "reference": "v", "candidate": "u", "status": "cast", "by": "map", "dtypes": ["", ""], "shapes": [[], []],
        "loss": {"narrowing": True}, "verdict": "noise", "note": "n", "linf": "Infinity",
    }  # fmt: skip
    assert "tensors" not in told["reference"]
    assert json.loads(render(result)) == document(result)


def test_reports_of_other_commands_have_no_such_key(rich_result):
    assert not {"checkpoint", "checkpoint_diff"} & document(rich_result).keys()


def test_a_model_that_goes_somewhere_leaves_the_rows_out(result_of):
    assert "tensors" not in document(result_of(checkpoint=stored()))["checkpoint"]
