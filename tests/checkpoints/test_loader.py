"""The loader: values against those that were saved, and the log against what was done."""

import gc
import io
import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import tensoraudit
from tensoraudit import TensorSpec, load_checkpoint
from tensoraudit.errors import ConfigError, InputError, MismatchError

RANDOM = np.random.default_rng(0)
ARRAYS = {
    "conv.kernel": RANDOM.standard_normal((3, 3, 4, 8)).astype(np.float32),
    "dense.kernel": RANDOM.standard_normal((8, 5)).astype(np.float32),
    "dense.bias": np.arange(5, dtype=np.float32),
    "steps": np.array(7, np.int64),
}


@pytest.fixture
def path(tmp_path):
    save_file(ARRAYS, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def kinds(loaded, event):
    return [each for each in loaded.log if each["event"] == event]


def lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_without_a_schema_every_tensor_is_there_as_it_was_saved(path):
    loaded = load_checkpoint(path)
    assert list(loaded) == sorted(ARRAYS) or set(loaded) == set(ARRAYS)
    for name, expected in ARRAYS.items():
        given = loaded[name]
        np.testing.assert_array_equal(given, expected)
        assert (given.dtype, given.shape) == (expected.dtype, expected.shape)
        assert given.flags.writeable and given.flags.c_contiguous
        assert (loaded.shape(name), loaded.dtype(name)) == (expected.shape, expected.dtype.name)
    assert len(kinds(loaded, "read")) == len(ARRAYS)
    assert loaded.problems == ()


def test_opening_reads_no_value(path):
    """Bytes that are no numbers anybody could read: only the header is touched until a tensor is asked for."""
    loaded = load_checkpoint(path)
    assert [each["event"] for each in loaded.log] == ["opened"]
    opened = loaded.log[0]
    assert (opened["format"], opened["tensors"], opened["schema"]) == ("safetensors", 4, None)
    assert opened["bytes"] == sum(each.nbytes for each in ARRAYS.values())


def test_what_is_given_is_the_callers_own(path):
    loaded = load_checkpoint(path)
    loaded["dense.bias"][:] = -1
    np.testing.assert_array_equal(loaded["dense.bias"], ARRAYS["dense.bias"])


def test_stated_names_permutations_and_casts_are_applied_and_nothing_else(path):
    schema = {
        "conv.weight": TensorSpec((8, 4, 3, 3), "float32", stored="conv.kernel", permutation=(3, 2, 0, 1)),
        "fc.weight": TensorSpec((5, 8), "float16", stored="dense.kernel", permutation=(1, 0), cast=True),
        "dense.bias": None,
    }
    loaded = load_checkpoint(path, schema)
    np.testing.assert_array_equal(loaded["conv.weight"], ARRAYS["conv.kernel"].transpose(3, 2, 0, 1))
    expected = ARRAYS["dense.kernel"].T.astype(np.float16)
    np.testing.assert_array_equal(loaded["fc.weight"], expected)
    assert loaded["fc.weight"].dtype == np.float16 and loaded["fc.weight"].flags.c_contiguous
    assert (loaded.shape("fc.weight"), loaded.dtype("fc.weight")) == ((5, 8), "float16")
    assert [(each["name"], each["stored"]) for each in kinds(loaded, "renamed")] == [
        ("conv.weight", "conv.kernel"),
        ("fc.weight", "dense.kernel"),
    ]
    assert kinds(loaded, "permuted")[0] == {
        "event": "permuted", "name": "conv.weight", "permutation": [3, 2, 0, 1], "shape": [8, 4, 3, 3],
    }  # fmt: skip
    cast = kinds(loaded, "cast")[0]
    assert (cast["from"], cast["to"], cast["elements"]) == ("float32", "float16", 40)
    assert cast["changed"] == int((expected.astype(np.float32) != ARRAYS["dense.kernel"].T).sum()) > 0
    assert [each["stored"] for each in kinds(loaded, "extra")] == ["steps"]


def test_what_does_not_fit_is_given_as_stored_and_recorded(path):
    schema = {
        "dense.kernel": (5, 8),
        "dense.bias": TensorSpec(dtype="float16"),
        "conv.kernel": TensorSpec(permutation=(1, 0)),
        "conv.bias": (8,),
        "steps": (),
    }
    loaded = load_checkpoint(path, schema)
    assert set(loaded) == {"dense.kernel", "dense.bias", "conv.kernel", "steps"}
    np.testing.assert_array_equal(loaded["dense.kernel"], ARRAYS["dense.kernel"])
    np.testing.assert_array_equal(loaded["conv.kernel"], ARRAYS["conv.kernel"])
    assert loaded["dense.bias"].dtype == np.float32
    told = {(each["event"], each["name"]) for each in loaded.problems}
    assert told == {
        ("shape_mismatch", "dense.kernel"),
        ("dtype_mismatch", "dense.bias"),
        ("shape_mismatch", "conv.kernel"),
        ("missing", "conv.bias"),
    }
    assert "(8, 5) is stored, (5, 8) is expected" in kinds(loaded, "shape_mismatch")[0]["message"].replace(
        "the shape ", ""
    )


def test_raise_lists_all_that_does_not_fit_before_anything_is_read(path, tmp_path):
    schema = {"dense.kernel": (5, 8), "conv.bias": (8,), "conv.kernel": None, "dense.bias": None, "steps": None}
    with pytest.raises(MismatchError) as caught:
        load_checkpoint(path, schema, "raise", log=tmp_path / "log.jsonl")
    text = str(caught.value)
    assert "2 mismatches" in text and "dense.kernel: the shape (8, 5) is stored" in text and "conv.bias" in text
    assert [each["event"] for each in caught.value.events] == ["shape_mismatch", "missing"]
    assert [each["event"] for each in lines(tmp_path / "log.jsonl")] == [
        "opened", "shape_mismatch", "missing", "refused",
    ]  # fmt: skip


def test_raise_does_not_mind_what_fits(path):
    loaded = load_checkpoint(path, ARRAYS, "raise")
    np.testing.assert_array_equal(loaded["dense.kernel"], ARRAYS["dense.kernel"])


def test_a_tensor_too_many_is_a_mismatch_too(path):
    with pytest.raises(MismatchError, match="steps is stored, and the schema does not name it"):
        load_checkpoint(path, {name: None for name in ARRAYS if name != "steps"}, "raise")


def test_a_prefix_is_proposed_and_not_guessed(tmp_path):
    save_file({"module.fc.weight": np.ones((2, 2), np.float32)}, tmp_path / "m.safetensors")
    loaded = load_checkpoint(tmp_path / "m.safetensors", {"fc.weight": (2, 2)})
    assert len(loaded) == 0
    assert "stored are module.fc.weight: name one with `stored`" in kinds(loaded, "missing")[0]["message"]
    stated = {"fc.weight": TensorSpec((2, 2), stored="module.fc.weight")}
    assert load_checkpoint(tmp_path / "m.safetensors", stated, "raise")["fc.weight"].sum() == 4


def test_the_log_of_a_partial_read_is_complete_when_it_is_closed(path, tmp_path):
    with load_checkpoint(path, log=tmp_path / "log.jsonl") as loaded:
        _ = loaded["steps"]
        assert [each["event"] for each in lines(tmp_path / "log.jsonl")] == ["opened", "read"]
    events = lines(tmp_path / "log.jsonl")
    assert {each["name"] for each in events if each["event"] == "not_read"} == set(ARRAYS) - {"steps"}
    assert events[-1] == {"event": "closed", "read": 1, "not_read": 3, "problems": 0}
    loaded.close()
    assert lines(tmp_path / "log.jsonl") == events


def test_the_log_is_complete_when_nobody_closes_it(path, tmp_path):
    loaded = load_checkpoint(path, log=tmp_path / "log.jsonl")
    _ = loaded["steps"]
    del loaded
    gc.collect()
    assert lines(tmp_path / "log.jsonl")[-1]["event"] == "closed"


def test_the_log_is_complete_after_an_exception(path, tmp_path):
    with pytest.raises(ZeroDivisionError), load_checkpoint(path, log=tmp_path / "log.jsonl") as loaded:
        _ = 1 // (int(loaded["steps"]) - 7)
    told = [each["event"] for each in lines(tmp_path / "log.jsonl")]
    assert told[-1] == "closed" and "interrupted" in told and told.count("not_read") == 3


def test_the_log_is_complete_when_the_program_dies_of_an_exception(path, tmp_path):
    code = (
        "import sys, tensoraudit\n"
        "loaded = tensoraudit.load_checkpoint(sys.argv[1], log=sys.argv[2])\n"
        "loaded['steps']\n"
        "raise RuntimeError('no')"
    )
    command = [sys.executable, "-c", code, str(path), str(tmp_path / "log.jsonl")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    assert lines(tmp_path / "log.jsonl")[-1] == {"event": "closed", "read": 1, "not_read": 3, "problems": 0}


def test_a_log_is_appended_to(path, tmp_path):
    for _ in range(2):
        load_checkpoint(path, log=tmp_path / "log.jsonl").close()
    assert [each["event"] for each in lines(tmp_path / "log.jsonl")].count("opened") == 2


def test_a_log_may_be_anything_that_can_be_written_to(path):
    text = io.StringIO()
    load_checkpoint(path, log=text).close()
    events = [json.loads(line) for line in text.getvalue().splitlines()]
    assert (events[0]["event"], events[-1]["event"]) == ("opened", "closed")


def test_a_log_that_cannot_be_written_is_an_error(path, tmp_path):
    with pytest.raises(InputError, match="audit log cannot be written"):
        load_checkpoint(path, log=tmp_path / "no" / "log.jsonl")


def test_a_number_that_json_does_not_have_is_a_text(tmp_path):
    save_file({"a": np.array([3e38], np.float32)}, tmp_path / "a.safetensors")
    text = io.StringIO()
    schema = {"a": TensorSpec(dtype="float16", cast=True)}
    _ = load_checkpoint(tmp_path / "a.safetensors", schema, log=text)["a"]
    cast = next(json.loads(line) for line in text.getvalue().splitlines() if '"cast"' in line)
    assert (cast["to_inf"], cast["linf"]) == (1, 0.0)


def test_a_damaged_tensor_is_an_event_and_costs_no_other(path):
    stored = path.read_bytes()
    loaded = load_checkpoint(path)
    path.write_bytes(stored[:-200])
    found = loaded.read_all()
    lost = set(ARRAYS) - set(found)
    assert 0 < len(lost) < len(ARRAYS)
    for name, values in found.items():
        np.testing.assert_array_equal(values, ARRAYS[name])
    assert {each["name"] for each in kinds(loaded, "unreadable")} == lost
    with pytest.raises(InputError, match="cannot be read"):
        _ = loaded[min(lost)]


def test_asking_for_a_name_reads_nothing(path):
    loaded = load_checkpoint(path)
    assert "steps" in loaded and "nothing" not in loaded and loaded != {} and repr(loaded)
    assert not kinds(loaded, "read")
    with pytest.raises(KeyError):
        _ = loaded["nothing"]


def test_a_wrong_mode_is_named(path):
    with pytest.raises(ConfigError, match='Use "record" or "raise"'):
        load_checkpoint(path, on_mismatch="ignore")


def test_threads_may_read_together(path, tmp_path):
    loaded = load_checkpoint(path, log=tmp_path / "log.jsonl")
    threads = [threading.Thread(target=lambda: [loaded[name] for name in ARRAYS]) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    loaded.close()
    assert sum(each["event"] == "read" for each in lines(tmp_path / "log.jsonl")) == 16


# training checkpoints of torch, and the recipe of docs/load-checkpoint.md


@pytest.fixture
def training(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(5, 4, dtype=torch.bfloat16)).sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "last.pt")
    return tmp_path / "last.pt", model


def test_the_names_of_a_model_find_its_weights_below_a_key(training):
    path, model = training
    loaded = load_checkpoint(path, model.state_dict(), "raise")
    state = {name: torch.from_numpy(loaded[name]).to(each.dtype) for name, each in model.state_dict().items()}
    for name, expected in model.state_dict().items():
        assert torch.equal(state[name], expected)
    model.load_state_dict(state, strict=True)
    assert kinds(loaded, "renamed")[0] == {"event": "renamed", "name": "0.weight", "stored": "model.0.weight"}
    assert {each["group"] for each in kinds(loaded, "not_requested")} == {"optimizer"}
    assert not kinds(loaded, "extra")


def test_bfloat16_arrives_exactly_and_says_what_it_is(training):
    path, model = training
    loaded = load_checkpoint(path)
    assert loaded.dtype("model.0.weight") == "bfloat16"
    np.testing.assert_array_equal(loaded["model.0.weight"], model[0].weight.detach().float().numpy())
    assert not kinds(loaded, "cast")


def test_a_tied_weight_is_found_under_any_of_its_names(tmp_path):
    shared = torch.arange(6.0).reshape(2, 3)
    torch.save({"emb.weight": shared, "head.weight": shared, "bias": torch.ones(2)}, tmp_path / "both.pt")
    for kept in ("emb.weight", "head.weight"):
        torch.save({kept: shared.clone(), "bias": torch.ones(2)}, tmp_path / "one.pt")
        loaded = load_checkpoint(tmp_path / "one.pt", schema=tmp_path / "both.pt")
        assert loaded.problems == () and set(loaded) == {"emb.weight", "head.weight", "bias"}
        for name in ("emb.weight", "head.weight"):
            np.testing.assert_array_equal(loaded[name], shared.numpy())
        assert [each["stored"] for each in kinds(loaded, "renamed")] == [kept]
        loaded = load_checkpoint(tmp_path / "both.pt", schema=tmp_path / "one.pt")
        assert loaded.problems == () and len(kinds(loaded, "not_requested")) == 1
    stated = {"head": {"stored": "nowhere", "also": ["emb.weight"]}, "bias": None}
    assert load_checkpoint(tmp_path / "both.pt", schema=stated).problems == ()


def test_two_sets_of_weights_are_told_apart_by_their_full_names(tmp_path):
    one, two = ({"w": torch.full((2,), value)} for value in (1.0, 2.0))
    torch.save({"generator": one, "discriminator": two}, tmp_path / "gan.pt")
    loaded = load_checkpoint(tmp_path / "gan.pt", {"w": (2,)})
    assert [each["event"] for each in loaded.problems] == ["ambiguous", "extra"]
    told = {"w": TensorSpec((2,), stored="discriminator.w")}
    assert load_checkpoint(tmp_path / "gan.pt", told)["w"].tolist() == [2.0, 2.0]


def test_the_public_names_are_the_loaders():
    assert tensoraudit.load_checkpoint is load_checkpoint
