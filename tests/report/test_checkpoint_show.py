from pathlib import Path

import pytest

from tensoraudit.checkpoints.schema import Entry, OptimizerState, Part, StoredCheckpoint, TrainingState
from tensoraudit.report import console, resumable
from tensoraudit.report.checkpoint_show import described, totals
from tensoraudit.report.style import Style


def entry(name: str, shape=(4,), file="w.pt", **more) -> Entry:
    count = 4
    for each in shape:
        count *= each
    return Entry(name, "float32", shape, (Part(file, 0, count),), **more)


def stored(*entries: Entry, **more) -> StoredCheckpoint:
    values = {
        "path": Path("run/w.pt"), "root": Path("run"), "format": "torch_zip", "framework": "pytorch",
        "files": ("w.pt",), "entries": entries, **more,
    }  # fmt: skip
    return StoredCheckpoint(**values)


ADAM = OptimizerState(
    ("optimizer",), "adam", "position", ("step", "exp_avg"), 6, ({"lr": 3e-4, "params": []}, {"lr": 1e-3})
)
FULL = TrainingState(
    (ADAM,), step=1200, epoch=3, scheduler={"last_epoch": 3}, scaler={}, loader={"position": 7},
    rng=("torch", "numpy", "python"),
)  # fmt: skip


def text_of(result_of, checkpoint, **style):
    return console.render(result_of(targets=(), checkpoint=checkpoint), Style(**style))


def test_the_first_lines_say_what_it_is(result_of):
    lines = text_of(result_of, stored(entry("a.w", (2, 3)), entry("b", same_as="a.w"), writer="torch 2.6")).split("\n")
    assert lines[0] == "run/w.pt: torch_zip of PyTorch, written by torch 2.6"
    assert lines[1] == "2 tensors, 6 elements, 24 B in 1 file."
    assert lines[2] == "No rule finds fault with what its headers tell."


def test_findings_are_counted_above_the_tree(result_of, finding_of):
    found = finding_of("CKP-001", "critical", "confirmed", target="")
    text = console.render(result_of([found], targets=(), checkpoint=stored(entry("w"))))
    assert "Rules found 1 critical finding." in text
    assert text.index("CKP-001") < text.index("For a resume")


def test_quiet_is_verdict_and_findings(result_of, finding_of):
    found = finding_of("CKP-001", "critical", "confirmed", target="")
    text = console.render(result_of([found], targets=(), checkpoint=stored(entry("w"))), Style(quiet=True))
    assert "CKP-001" in text and "For a resume" not in text and "tensors  " not in text


def test_all_parts_of_a_training_run_are_named():
    found = resumable.parts(stored(entry("w"), training=FULL))
    assert found == {
        "weights": "1 tensor",
        "optimiser": "adam, state of 6 parameters by position, 2 groups, lr 0.0003/0.001",
        "step": "1,200",
        "epoch": "3",
        "scheduler": "last_epoch",
        "gradient scaler": "empty: saved while it was disabled",
        "random states": "torch, numpy, python",
        "data loader": "position",
    }
    assert resumable.missing(stored(entry("w"), training=FULL)) == []


@pytest.mark.parametrize(
    ("training", "absent"),
    [
        (TrainingState((ADAM,), step=5), ["scheduler", "gradient scaler", "random states", "data loader"]),
        (TrainingState(epoch=5, scaler={}), ["optimiser", "scheduler", "random states", "data loader"]),
        (TrainingState((ADAM,), unread=("step",)), ["scheduler", "gradient scaler", "random states", "data loader"]),
        (TrainingState(step=0, rng=("torch",)), [
            "optimiser", "scheduler", "gradient scaler", "data loader", "random state of numpy",
            "random state of python",
        ]),
    ],
)  # fmt: skip
def test_what_is_missing_for_a_resume(result_of, training, absent):
    checkpoint = stored(entry("w"), training=training)
    assert resumable.missing(checkpoint) == absent
    assert f"missing  {', '.join(absent)}" in " ".join(text_of(result_of, checkpoint, width=200).split("\n"))


def test_a_step_that_could_not_be_read_is_there(result_of):
    text = text_of(result_of, stored(entry("w"), training=TrainingState(unread=("step",))))
    assert "there    step     stored as a tensor that could not be read" in text


def test_a_step_of_zero_is_there():
    assert resumable.parts(stored(training=TrainingState(step=0)))["step"] == "0"


def test_weights_alone_say_so_in_one_line(result_of):
    text = text_of(result_of, stored(entry("w")))
    assert "weights only: the optimiser, the step and all other state of training would begin anew" in text
    assert "missing" not in text


def test_shards_are_listed_and_the_rest_is_counted(result_of):
    files = tuple(f"m-{number}.bin" for number in range(9))
    entries = [entry(f"w{number}", (number + 1,), file) for number, file in enumerate(files)]
    text = text_of(result_of, stored(*entries, files=files))
    assert "9 files" in text
    assert "m-0.bin  1 piece, 4 B" in text
    assert "and 4 more with 4 pieces, 24 B to 36 B each" in text
    assert "m-5.bin" not in text
    assert "m-8.bin  1 piece, 36 B" in text_of(result_of, stored(*entries, files=files), verbose=True)


def test_ties_and_imports_are_shown(result_of):
    ties = [entry(f"t{number}.w", same_as="a.w") for number in range(7)]
    text = text_of(result_of, stored(entry("a.w"), *ties, imports=("mylib.Thing",)))
    assert "7 tensors tied to another" in text and "t0.w is a.w" in text and "and 2 more" in text
    assert "What its pickles want to import\n  mylib.Thing" in text


def test_groups_are_trees_of_their_own_in_one_table(result_of):
    optimizer = entry("0.exp_avg", group="optimizer", path=("optimizer", "state"))
    text = text_of(result_of, stored(entry("a.w"), optimizer))
    heads = [line for line in text.split("\n") if line.startswith(("model", "optimizer"))]
    assert len(heads) == 2 and heads[1].startswith("optimizer.state.0")


def test_names_that_attack_a_terminal_are_only_text(result_of):
    evil = "a\x1b[2J\x07.\u202e[bold]w"
    text = text_of(result_of, stored(entry(evil), path=Path(evil), imports=(evil,), files=("a", evil)))
    assert not set(text) & {"\x1b", "\x07", "\u202e"}
    assert "[bold]w" in text


def test_a_checkpoint_without_a_tensor(result_of):
    assert "0 tensors, 0 elements, 0 B in 1 file." in text_of(result_of, stored())


def test_a_model_that_goes_somewhere_names_the_file_in_one_line(result_of):
    text = console.render(result_of(checkpoint=stored(entry("w"))))
    assert "Checkpoint" in text and "run/w.pt: torch_zip of PyTorch; 1 tensor" in text
    assert "For a resume" not in text


def test_words_for_frameworks_and_totals():
    assert described(stored(framework="tensorflow", format="keras")) == "keras of TensorFlow"
    assert described(stored(framework="other")) == "torch_zip of other"
    assert totals(stored(entry("w", (1000, 1000)))) == "1 tensor, 1,000,000 elements, 3.81 MiB in 1 file"
