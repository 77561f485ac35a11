"""pytorch.trace: every operator with its module, its line and its values."""

import numpy as np
import pytest
import torch

from tensoraudit.probes.protocol import JobFailed

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def trace(job, spec, sample):
    def run(name, inputs=None, **options):
        return job(
            "trace", model=spec(name), inputs=inputs or sample(x=X), **{"select": None, "dtype": "as_is", **options}
        )

    return run


def test_operators_modules_calls_and_lines(trace):
    result = trace("Branches")
    rows = [(event["op"], event["module"], event["call"]) for event in result["events"]]
    assert rows == [
        ("aten.t.default", "body.0", 0),
        ("aten.addmm.default", "body.0", 0),
        ("module", "body.0", 0),
        ("aten.relu.default", "body.1", 0),
        ("module", "body.1", 0),
        ("module", "body", 0),
        ("aten.t.default", "body.0", 1),
        ("aten.addmm.default", "body.0", 1),
        ("module", "body.0", 1),
        ("aten.relu.default", "body.1", 1),
        ("module", "body.1", 1),
        ("module", "body", 1),
        ("aten.mean.dim", "", 0),
        ("module", "", 0),
    ]
    assert [event["index"] for event in result["events"]] == list(range(14))
    assert len({event["key"] for event in result["events"]}) == 14
    assert result["modules"] == {"": 1, "body": 2, "body.0": 2, "body.1": 2}
    mean = result["events"][12]
    assert mean["source"]["path"].endswith("plain_models.py")
    assert mean["source"]["text"] == "return y.mean(1)"
    assert result["events"][7]["source"]["text"] == "y = self.body(y)"


def test_metadata_without_values(trace):
    events = trace("Branches")["events"]
    assert events[1]["outputs"] == [{"dtype": "float32", "shape": [2, 3]}]


def test_selected_values_by_index_and_by_key(trace, session):
    events = trace("Branches")["events"]
    mean = events[12]
    result = trace("Branches", select=[9, mean["key"]])["events"]
    assert [event["index"] for event in result if "file" in event["outputs"][0]] == [9, 12]
    relu, final = (np.array(session.get(result[index]["outputs"][0])) for index in (9, 12))
    assert np.allclose(relu.mean(1), final, atol=1e-7)
    assert (relu >= 0).all()


def test_double_precision_has_the_same_keys_and_double_values(trace, session):
    plain = trace("Branches", select=[12])
    double = trace("Branches", select=[12], dtype="float64")
    assert [event["key"] for event in plain["events"]] == [event["key"] for event in double["events"]]
    a, r = (np.array(session.get(each["events"][12]["outputs"][0])) for each in (plain, double))
    assert r.dtype == np.float64
    assert 0 < np.abs(a - r).max() < 1e-6
    assert double["oracle_reason"] == ""


def test_keys_survive_casts_that_only_one_precision_needs(trace, sample):
    inputs = sample(x=np.float32([[0.2, 0.7]]))
    plain = {event["key"] for event in trace("Casting", inputs)["events"]}
    double = {event["key"] for event in trace("Casting", inputs, dtype="float64")["events"]}
    assert not {key for key in plain ^ double if "_to_copy" not in key}


def test_perturbed_inputs_and_weights(trace, session, sample):
    def final(**options):
        return np.array(session.get(trace("Branches", select=[12], **options)["events"][12]["outputs"][0]))

    assert 0 < np.abs(final() - final(perturb=1)).max() < 1e-6
    ids = sample(ids=np.array([[1, 2]]))
    plain, moved = (trace("Words", ids, select=[0], perturb=seed)["events"][0]["outputs"][0] for seed in (None, 1))
    assert not np.array_equal(session.get(plain), session.get(moved))


def test_over_the_budget_says_how_many_fitted_and_keeps_no_file(trace, session):
    with pytest.raises(JobFailed, match="1 of 3 fitted") as caught:
        trace("Branches", select=[1, 3, 12], budget=40)
    assert caught.value.details["fitted"] == 1
    assert not [path for path in session.folder.iterdir() if path.stat().st_size == 24 and path.name != "t-1.bin"]


def test_a_failing_model_is_a_failed_job_with_its_line(trace, sample):
    with pytest.raises(JobFailed, match="at most four rows") as caught:
        trace("Picky", sample(x=np.ones((5, 3), np.float32)))
    assert caught.value.details["source"]["text"] == 'raise ValueError("at most four rows")'


def test_attention_shows_its_single_operators(trace, sample):
    before = torch.backends.mha.get_fastpath_enabled()
    result = trace("Attention", sample(x=np.ones((1, 5, 8), np.float32)))
    operators = {event["op"] for event in result["events"]}
    assert "aten._transformer_encoder_layer_fwd.default" not in operators
    assert {"aten.native_layer_norm.default", "aten.relu.default"} <= operators
    assert torch.backends.mha.get_fastpath_enabled() is before
    assert result["settings"]["attention_fast_path"] is False


def test_a_script_gives_its_operators(job, file_spec, script, sample):
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    result = job("trace", model=file_spec("torchscript", script(net)), inputs=sample(input=X))
    operators = [event["op"] for event in result["events"]]
    assert operators[-2:] == ["aten.addmm.default", "aten.relu.default"]
    assert {event["module"] for event in result["events"]} == {""}


def test_an_exported_program_knows_modules_and_lines(job, file_spec, tmp_path, sample, spec):
    from tensoraudit.probes.protocol import LocalSession
    from tensoraudit.probes.pytorch.loading import load

    (tmp_path / "other").mkdir()
    module = load(LocalSession(tmp_path / "other"), spec("Branches")).module.eval()
    torch.export.save(torch.export.export(module, (torch.from_numpy(X),)), tmp_path / "m.pt2")
    result = job("trace", model=file_spec("exported_program", tmp_path / "m.pt2"), inputs=sample(x=X))
    relus = [(event["module"], event["call"]) for event in result["events"] if event["op"] == "aten.relu.default"]
    assert relus == [("body.1", 0), ("body.1", 1)]
    mean = next(event for event in result["events"] if event["op"] == "aten.mean.dim")
    assert mean["source"]["text"] == "return y.mean(1)"
    double = job("trace", model=file_spec("exported_program", tmp_path / "m.pt2"), inputs=sample(x=X), dtype="float64")[
        "events"
    ]
    assert [event["key"] for event in double] == [event["key"] for event in result["events"]]
    assert double[-1]["outputs"][0]["dtype"] == "float64"


def test_the_run_ends_when_all_selected_events_are_saved(trace):
    assert len(trace("Branches", select=[3])["events"]) == 4
    assert len(trace("Branches", select=[3, 9])["events"]) == 10


def test_all_values_share_one_file_and_a_module_the_value_of_its_last_operator(trace, session):
    events = trace("Branches", select="all")["events"]
    kept = [event["outputs"][0] for event in events]
    assert len({each["file"] for each in kept}) == 1
    assert kept[3] == kept[4] == kept[5]  # relu, body.1, body
    assert kept[9]["offset"] != kept[3]["offset"]
    first, second = (np.array(session.get(kept[index])) for index in (3, 9))
    assert not np.array_equal(first, second)


def test_all_values_up_to_the_budget(trace):
    events = trace("Branches", select="all", budget=30)["events"]
    assert len(events) == 14
    assert ["file" in event["outputs"][0] for event in events].count(True) < 14


def test_inputs_follow_the_data_and_leave_out_what_only_weights_go_into(trace):
    result = trace("Branches")
    events = {event["index"]: event for event in result["events"]}
    assert events[0]["inputs"] == [], "the transposed weight"
    assert events[1]["inputs"] == ["input:x"]
    assert events[3]["inputs"] == [f"{events[1]['key']}@0"]
    assert events[7]["inputs"] == [f"{events[3]['key']}@0"]
    assert events[13]["inputs"] == [f"{events[12]['key']}@0"], "a module's output is what its last operator made"
    assert result["outputs"] == {"output": f"{events[12]['key']}@0"}


def test_fingerprints_of_everything_without_saving(trace, session):
    plain = trace("Branches", fingerprints=True)
    saved = trace("Branches", select="all")
    assert plain["bytes"] == 0
    for event, other in zip(plain["events"], saved["events"], strict=True):
        for output, ref in zip(event["outputs"], other["outputs"], strict=True):
            assert "file" not in output
            if event["inputs"]:
                values = np.array(session.get(ref), np.float64)
                assert output["print"]["sum"] == pytest.approx(values.sum(), abs=1e-9)
                assert output["print"]["max"] == values.max()
            else:
                assert "print" not in output


def test_fingerprints_go_on_where_the_budget_for_tensors_ends(trace):
    outputs = [event["outputs"][0] for event in trace("Branches", select="all", fingerprints=True, budget=24)["events"]]
    assert sum("file" in each for each in outputs) < len(outputs)
    assert "print" in outputs[-1]


def test_what_is_written_into_a_part_is_in_the_whole(trace):
    events = trace("Written", fingerprints=True)["events"]
    final = next(event for event in reversed(events) if event["op"] == "aten.mul.Tensor")
    assert len(final["inputs"]) == 1 and "copy_" in final["inputs"][0]
