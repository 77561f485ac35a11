from dataclasses import replace
from pathlib import Path

import pytest

from tensoraudit.checkpoints.paired import CheckpointDiff, PairedTensor
from tensoraudit.checkpoints.schema import Entry, Observation, StoredCheckpoint
from tensoraudit.report import console
from tensoraudit.report.checkpoint_diff import sentence
from tensoraudit.report.style import Style


def stored(name: str, *entries: Entry) -> StoredCheckpoint:
    return StoredCheckpoint(Path(name), Path(), "safetensors", "pytorch", (name,), entries)


def pair(name: str, status: str, **more) -> PairedTensor:
    sides = {"missing": (name, ""), "extra": ("", name)}.get(status, (name, name))
    values = {"by": "name", "dtypes": ("float32", "float32"), "shapes": ((4,), (4,)), **more}
    return PairedTensor(*sides, status, **values)


def diff(*pairs: PairedTensor, entries=(), **more) -> CheckpointDiff:
    values = {"prefixes": (), "optimizer": (), **more}
    named = {entry.full_name for entry in entries}
    sides = [
        [
            Entry(name, "float32", (4,), ())
            for name in (getattr(each, side) for each in pairs)
            if name not in {"", *named}
        ]
        for side in ("reference", "candidate")
    ]
    return CheckpointDiff(stored("a", *entries, *sides[0]), stored("b", *sides[1]), pairs, **values)


def text_of(result_of, found, **style):
    return console.render(result_of(targets=(), checkpoint_diff=found), Style(**style))


def of_keras(found: CheckpointDiff) -> CheckpointDiff:
    return replace(found, candidate=replace(found.candidate, framework="tensorflow"))


TURNED = pair("t", "permuted", verdict="identical")
OPTIMIZER = Entry("0.exp_avg", "float32", (4,), (), "optimizer", ("optimizer",))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (diff(), "Neither checkpoint holds a tensor."),
        (diff(pair("w", "equal")), "The one weight agrees to the last bit."),
        (
            diff(pair("w", "same_header"), pair("v", "same_header")),
            "All 2 weights agree by header, values were not compared.",
        ),
        (
            diff(pair("w", "equal"), pair("v", "missing"), pair("u", "extra")),
            "1 of 3 weights agree to the last bit: 1 missing, 1 extra.",
        ),
        (
            of_keras(diff(pair("w", "equal"), TURNED, pair("u", "reshaped", verdict="identical"))),
            "All 3 weights agree to the last bit, 1 of them permuted and 1 of them reshaped.",
        ),
        (
            of_keras(diff(TURNED, pair("v", "permuted", verdict="drift"), pair("u", "missing"))),
            "1 of 3 weights agree to the last bit, 1 of them permuted: 1 missing, 1 permuted.",
        ),
        (diff(TURNED, pair("w", "equal")), "1 of 2 weights agree to the last bit: 1 permuted."),
        (diff(pair("w", "permuted", note="suspected")), "0 of 1 weight agree: 1 permuted."),
        (diff(pair("w", "different", verdict="drift")), "0 of 1 weight agree: 1 different."),
        (diff(pair("w", "extra"), pair("v", "extra")), "Only the candidate has 2 weights."),
        (
            diff(pair("w", "equal"), pair("optimizer.0.exp_avg", "missing"), entries=(OPTIMIZER,)),
            "The one weight agrees to the last bit; the candidate lacks the one tensor beside the weights.",
        ),
    ],
)
def test_one_sentence_answers(found, text):
    assert sentence(found) == text


def test_what_differs_is_listed_by_kind_and_folded(result_of):
    layers = [pair(f"layer.{number}.w", "different", verdict="drift", linf=0.5 + number) for number in range(12)]
    found = diff(*layers, pair("bias", "missing"), pair("head", "equal"))
    text = text_of(result_of, found)
    assert "Other values (12)\n  layer.0-11.w  float32 [4]  drift, by up to 12  (12 tensors)" in text
    assert "Not in the candidate (1)\n  bias  float32 [4]" in text
    assert text.index("Not in the candidate") < text.index("Other values")
    assert "head" not in text
    verbose = text_of(result_of, found, verbose=True)
    assert "layer.11.w  float32 [4]  drift, by up to 12\n" in verbose and "Alike (1)\n  head" in verbose


def test_long_lists_end_with_a_count(result_of):
    unlike = [pair(f"{chr(97 + number)}.w", "missing") for number in range(20)]
    text = text_of(result_of, diff(*unlike))
    assert "l.w" in text and "m.w" not in text and "and 8 more" in text


def test_states_of_an_optimiser_are_counted_not_listed(result_of):
    found = diff(pair("w", "missing"), pair("optimizer.0.exp_avg", "missing"), entries=(OPTIMIZER,))
    assert "Not in the candidate (2)\n  w  float32 [4]\n  optimizer: 1 tensor\n" in text_of(result_of, found)
    assert "optimizer.0.exp_avg  float32" in text_of(result_of, found, verbose=True)


def test_layouts_casts_and_losses_are_told(result_of):
    found = diff(
        pair("k", "permuted", permutation=(3, 2, 0, 1), shapes=((1, 2, 3, 4), (4, 3, 1, 2)), note="suspected"),
        pair("c", "cast", dtypes=("float32", "float16"), loss={"to_inf": 3, "to_zero": 0}, linf=0.25),
    )
    text = text_of(result_of, found)
    assert "k  float32 [1, 2, 3, 4] to [4, 3, 1, 2]  axes [3, 2, 0, 1], suspected" in text
    assert "c  float32 to float16 [4]  by up to 0.25, 3 elements became infinite" in text
    assert "became 0" not in text


def test_one_element_that_was_lost(result_of):
    found = diff(pair("c", "cast", dtypes=("float32", "float16"), loss={"to_inf": 0, "to_zero": 1}, linf=0.25))
    assert "by up to 0.25, 1 element became 0\n" in text_of(result_of, found)


def test_how_tensors_were_paired_and_which_prefixes_were_left_out(result_of):
    found = diff(
        pair("w", "equal", by="prefix"),
        PairedTensor("bn.gamma", "bn.weight", "equal", "convention"),
        prefixes=(("", "module."),),
        optimizer=(Observation("optimizer_kind", "optimizer", ["adam", "sgd"], "adam against sgd"),),
    )
    text = text_of(result_of, found)
    assert "Paired: 1 by name without a prefix, 1 by naming convention." in text
    assert "Left out of the names: 'module.' on the candidate's." in text
    assert "State of training\n  adam against sgd" in text


def test_two_names_are_both_shown_where_neither_follows_from_the_other(result_of):
    text = text_of(result_of, diff(PairedTensor("bn.gamma", "bn.weight", "reshaped", "convention")))
    assert "bn.gamma = bn.weight" in text


def test_quiet_is_verdict_and_findings(result_of):
    text = text_of(result_of, diff(pair("w", "missing")), quiet=True)
    assert "The candidate lacks the one weight" in text and "Paired" not in text


def test_names_that_attack_a_terminal_are_only_text(result_of):
    text = text_of(result_of, diff(pair("a\x1b[2J\u202e[bold]", "missing", note="\x07")))
    assert not set(text) & {"\x1b", "\x07", "\u202e"} and "[bold]" in text
