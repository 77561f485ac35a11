from pathlib import Path

from tensoraudit.checkpoints.schema import Entry, Observation, OptimizerState, Part, StoredCheckpoint, TrainingState
from tensoraudit.extract.checkpoint_facts import MOST_OF_A_KIND, checkpoint_facts, checkpoint_measurements
from tensoraudit.facts import Checkpoint, Tensor
from tensoraudit.facts.store import FactStore

ENTRIES = (
    Entry("a.weight", "float32", (2, 2), (Part("m-1.bin", 64, 16),), path=("model",)),
    Entry("b", "float16", (8,), (Part("m-1.bin", 80, 8, (0,), (4,)), Part("m-2.bin", 0, 8, (4,), (4,)))),
    Entry("c", "float32", (2, 2), (Part("m-1.bin", 64, 16),), same_as="model.a.weight"),
)


def make(**more) -> StoredCheckpoint:
    values = {
        "path": Path("run/m.index.json"),
        "root": Path("run"),
        "format": "torch_sharded",
        "framework": "pytorch",
        "files": ("m.index.json", "m-1.bin", "m-2.bin"),
        "entries": ENTRIES,
        "imports": ("mylib.Thing",),
        **more,
    }
    return StoredCheckpoint(**values)


def test_tensors_keep_their_place_and_their_file():
    head, *tensors = checkpoint_facts(make(), "source")
    assert isinstance(head, Checkpoint) and all(isinstance(each, Tensor) for each in tensors)
    assert (head.format, head.files, head.imports, head.at.path) == (
        "torch_sharded", ("m.index.json", "m-1.bin", "m-2.bin"), ("mylib.Thing",), "run/m.index.json",
    )  # fmt: skip
    rows = [(t.name, t.dtype, t.shape, t.file, t.offset, t.bytes, t.location, t.side) for t in tensors]
    assert rows == [
        ("model.a.weight", "float32", (2, 2), "m-1.bin", 64, 16, "shard", "source"),
        ("b", "float16", (8,), "m-1.bin", None, 16, "shard", "source"),
        ("c", "float32", (2, 2), "m-1.bin", 64, 0, "shard", "source"),
    ]


def test_a_tensor_lies_beside_the_files_of_its_checkpoint():
    facts = list(checkpoint_facts(make(), "target"))
    assert FactStore(facts).files_beside(facts[1]) == {"m.index.json", "m-1.bin", "m-2.bin"}


def test_the_location_of_onnx_weights_tells_inline_from_external():
    entries = (
        Entry("w", "float32", (1,), (Part("m.onnx", 10, 4),)),
        Entry("v", "float32", (1,), (Part("m.onnx.data", 0, 4),)),
    )
    stored = make(format="onnx", path=Path("m.onnx"), files=("m.onnx", "m.onnx.data"), entries=entries)
    assert [fact.location for fact in list(checkpoint_facts(stored, "source"))[1:]] == ["inline", "external"]
    zipped = make(format="torch_zip", files=("m.pt",))
    assert {fact.location for fact in list(checkpoint_facts(zipped, "source"))[1:]} == {"zip"}


def test_metadata_holds_what_there_is_of_training_and_nothing_else():
    adam = OptimizerState(("optimizer",), "adam", "position", ("step", "exp_avg"), 3)
    training = TrainingState((adam,), step=0, scaler={}, rng=("torch",))
    (head, *_) = checkpoint_facts(make(training=training, metadata={"world_size": 2}), "source")
    assert head.metadata == {
        "world_size": 2, "framework": "pytorch", "tensors": 3, "groups": ["model"], "optimizers": ["adam"],
        "optimizer_keyed": ["position"], "optimizer_fields": ["step", "exp_avg"], "step": 0, "scaler": [],
        "rng": ["torch"],
    }  # fmt: skip
    assert "scheduler" not in head.metadata  # a key that is not there was not stored: `{present: false}` tells


def test_observations_are_measurements_with_their_place():
    observed = [
        Observation("file_missing", "m-3.bin", 1, "m-3.bin is not there", "m.index.json"),
        Observation("tensor_hole", "model.a.weight", [2], "a hole", "m-1.bin"),
    ]
    first, second = checkpoint_measurements(make(), observed, "source")
    assert (first.metric, first.subject, first.value, first.detail) == (
        "checkpoint.file_missing", "m-3.bin", 1, "m-3.bin is not there",
    )  # fmt: skip
    assert (first.probe, first.side, first.at.path, first.at.tensor) == (
        "checkpoint", "source", "run/m.index.json", None,
    )  # fmt: skip
    assert (second.at.path, second.at.tensor) == ("run/m-1.bin", "model.a.weight")


def test_a_hundred_thousand_observations_are_cut_off_by_kind():
    many = [Observation("key_extra", f"t{number}", [1], "") for number in range(MOST_OF_A_KIND + 5)]
    other = Observation("no_tensors", "checkpoint", 0, "")
    rows = list(checkpoint_measurements(make(), [*many, other], "target", noun="checkpoint_diff"))
    assert len(rows) == MOST_OF_A_KIND + 1
    assert rows[-1].metric == "checkpoint_diff.no_tensors"
