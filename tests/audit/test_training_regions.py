"""Each line of a model gets its own answer, through the steps of a scan; and what the answers are made of."""

import re
from pathlib import Path

import pytest

from tensoraudit.audit.conclude import conclude, match_and_settle
from tensoraudit.audit.execute import run_reference
from tensoraudit.audit.observe import collect_facts
from tensoraudit.audit.prepare import choose_samples, describe_reference, identify_artifacts
from tensoraudit.audit.training import measure_training
from tensoraudit.audit.training_regions import anchors_of, calls_of_regions, read_regions, region_rows
from tensoraudit.extract.python_source import read_python_text
from tensoraudit.facts import Call, ClassDef, Site
from tensoraudit.language.load import load_rules, rules_folder
from tensoraudit.options import Options
from tensoraudit.probes.limits import Limits
from tensoraudit.probes.pool import Pool
from tensoraudit.steps import new_audit, run_steps

HERE = Path(__file__).parent
MODELS = HERE / "training_models.py"
STEPS = (
    identify_artifacts,
    describe_reference,
    collect_facts,
    choose_samples,
    run_reference,
    measure_training,
    match_and_settle,
    conclude,
)
"""A scan without conversions."""

CLASS = re.compile(r"class (\w+)")
SAID = re.compile(r"# GCK-((?:\d+ )+)(\w+)$")


@pytest.fixture(scope="module")
def scan():
    rules = load_rules([rules_folder()])
    with Pool(limits=Limits()) as pool:

        def scanned(name):
            audit = new_audit(Options(root=HERE, target=("onnx",)), f"{MODELS}:{name}")
            return run_steps(STEPS, audit.add(pool=pool, rules=rules))

        yield scanned


def said(*classes):
    """What the comments in these classes say: rule and line to state."""
    found, current = {}, None
    for number, line in enumerate(MODELS.read_text().splitlines(), 1):
        started = CLASS.match(line)
        current = started[1] if started else current
        comment = SAID.search(line)
        if comment and current in classes:
            found.update({(f"GCK-{rule}", number): comment[2] for rule in comment[1].split()})
    return found


def told(result, rules):
    """Rule and line to state, of these rules."""
    return {(each.rule, each.where.line): each.state.value for each in result.findings if each.rule in rules}


@pytest.mark.slow
@pytest.mark.parametrize(
    "classes",
    [
        ("Random",),
        ("Cut",),
        ("CutBehind",),
        ("Drawing",),
        ("Effects", "Counting", "Tidy"),
        ("Crowded", "Neighbours"),
        ("Handed", "CountingOutside", "Counting"),
        ("HandWritten", "Dropping", "Keeping"),
        ("Shared",),
        ("Gated", "CountingInGated"),
        ("GatedBesideAnother", "CountingInGated"),
        ("Early", "CountingInGated"),
        ("Partial",),
        ("Wrapped",),
        ("Segments",),
        ("Compiled",),
    ],
    ids=lambda classes: classes[0],
)
def test_each_line_gets_its_own_answer(scan, classes):
    expected = said(*classes)
    assert expected
    result = scan(classes[0])
    found = told(result, {rule for rule, _ in expected})
    assert {place: state for place, state in found.items() if place in expected} == expected


@pytest.mark.slow
@pytest.mark.parametrize(("name", "state"), [("Enabled", "unverified"), ("switched_on", "confirmed")])
def test_checkpointing_that_a_call_switches_on(scan, name, state):
    result = scan(name)
    found = told(result, {"GCK-003", "GCK-005"})
    assert found == dict.fromkeys(said("Enabled"), state)
    reasons = {each.reason for each in result.findings if each.rule in {"GCK-003", "GCK-005"}}
    entered = "is 0 (no region was entered at this line in this step)"
    assert all(entered in reason for reason in reasons) if state == "unverified" else reasons == {""}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Compiled", "compiled_whole"])
def test_compiled_code_settles_nothing_and_is_named(scan, name):
    result = scan(name)
    found = [each for each in result.findings if each.rule == "GCK-003"]
    assert found and {each.state.value for each in found} == {"unverified"}
    assert all("checkpoints in compiled code are not seen" in each.reason for each in found)
    (probe,) = [row for row in result.probes if row.name == "training"]
    assert probe.status == "unsupported" and "torch.compile runs" in probe.reason


@pytest.mark.slow
def test_the_evidence_names_the_line_and_the_tensor(scan):
    result = scan("Random")
    (finding,) = [each for each in result.findings if each.rule == "GCK-003" and each.state.value == "confirmed"]
    rows = {row.metric: row for row in finding.evidence}
    assert {row.subject for row in rows.values()} == {f"training_models.py:{finding.where.line}"}
    assert rows["training.region_gradient_verdict"].detail.startswith("dropping.")


# What the answers are made of, without a model

ROOT = Path("/project")
FILE = str(ROOT / "m.py")


def region(line, *rows, passes=("plain", "autocast"), functions=(), modules=(), recomputed=1, path=FILE):
    return {
        "place": [path, line],
        "entered": 1,
        "recomputed": recomputed,
        "modules": list(modules),
        "functions": [list(each) for each in functions],
        "passes": list(passes),
        "found": {"rows": list(rows), "pairs": []},
    }


def missing(count):
    return ["training.gradients_missing", "model", count, ""]


def gradient(name, verdict):
    return ["training.gradient_verdict", name, verdict, "d"]


def answers(whole, *regions):
    """Line to metric to value and detail."""
    found = read_regions({"rows": whole, "pairs": [], "regions": regions}, lambda result: result["rows"])
    return [{metric: (told.value, told.detail) for metric, told in each.told.items()} for each in found]


def test_a_region_that_was_measured_alone_answers_for_itself():
    one, two = answers([missing(2)], region(1, missing(2)), region(2, missing(0)))
    assert (one["training.region_gradients_missing"], two["training.region_gradients_missing"]) == ((2, ""), (0, ""))


def test_the_only_region_has_the_answer_of_the_model():
    (one,) = answers([missing(2), gradient("w", "drift")], region(1, passes=()))
    assert one["training.region_gradients_missing"] == (2, "")
    assert one["training.region_gradient_verdict"] == ("drift", "w: d")


def test_too_many_regions_share_what_is_wrong_and_are_told_so():
    one, two = answers([missing(2), gradient("w", "noise")], region(1, passes=()), region(2, passes=()))
    assert one == two
    assert one["training.region_gradients_missing"] == (2, "of all regions together: ")
    assert one["training.region_gradient_verdict"] == ("noise", "w: d")


def test_what_only_several_do_together_refutes_none_of_them():
    whole = [gradient("a", "drift"), gradient("b", "break")]
    alone = gradient("a", "drift"), gradient("b", "identical")
    one, two, three = answers(
        whole, region(1, *alone), region(2, gradient("a", "noise")), region(3, gradient("a", "identical"))
    )
    metric = "training.region_gradient_verdict"
    assert one[metric] == ("drift", "a: d")
    assert two[metric] == three[metric] == ("break", "by no line alone, only by several regions together: b: d")


def test_the_worst_verdict_is_the_region_s():
    verdicts = ["identical", "noise", "unverified", "equivalent"]
    (one,) = answers([], region(1, *(gradient(str(n), each) for n, each in enumerate(verdicts))))
    assert one["training.region_gradient_verdict"] == ("unverified", "2: d")


def buffers(*rows):
    return [["training.buffer_verdict", name, verdict, "d"] for name, verdict in rows] + [
        ["training.side_effects", "model", 1, "block.calls"],
        ["training.buffers_differ", "model", len(rows), ""],
    ]


def test_statistics_of_a_normalisation_are_no_side_effect():
    moved = [
        ("bn.running_mean", "drift"),
        ("bn.num_batches_tracked", "break"),
        ("seen", "drift"),
        ("kept", "identical"),
    ]
    (one,) = answers([], region(1, *buffers(*moved)))
    assert one["training.region_side_effects"] == (2, "block.calls, seen")
    assert one["training.region_statistics_verdict"] == ("drift", "bn.running_mean: d")
    (none,) = answers([], region(1, *buffers(("seen", "drift"))))
    assert none["training.region_statistics_verdict"] == ("identical", "the model keeps no running statistics")
    (failed,) = answers([], region(1, ["training.error", "model", "ValueError", ""]))
    assert failed == {"training.region_error": ("ValueError", "")}


SOURCE = """
import functools
from torch.utils.checkpoint import checkpoint
run = functools.partial(checkpoint, use_reentrant=False)
class Own(Function):
    pass
def f(x):
    x = checkpoint(g, x)
    x = checkpoint(h, x)
    x = run(k, x)
    count(x)
    return x
"""


def rows_for(line, *regions, heard=()):
    """The rows that the fact of a line of SOURCE gets, by metric."""
    facts = read_python_text(SOURCE, path="m.py").facts
    asked = [fact for fact in facts if isinstance(fact, (Call, ClassDef)) and fact.at.line == line]
    lines = [{"place": [FILE, number], "ran": ran, "again": again} for number, ran, again in heard]
    anchors = anchors_of(asked, ROOT)
    rows = region_rows(
        read_regions({"rows": [], "pairs": [], "regions": regions}, lambda result: result["rows"]),
        lines,
        anchors=anchors,
        calls=anchors_of(calls_of_regions(facts, anchors), ROOT),
        root=ROOT,
    )
    return {metric.partition(".")[2]: value for metric, subject, value, _ in rows if subject == f"m.py:{line}"}


def test_a_call_answers_for_its_line():
    found = rows_for(8, region(8, missing(3), modules=["g"]), region(9, missing(0)))
    assert found == {"region_recomputations": 1, "region_modules": ["g"], "region_gradients_missing": 3}
    assert rows_for(8, region(9, missing(0))) == {"region_recomputations": 0}


def test_a_call_that_ran_and_began_nothing():
    assert rows_for(8, heard=[(8, True, [])]) == {"line_recomputed": False, "region_recomputations": 0}
    assert rows_for(8, heard=[(8, False, [])]) == {"region_recomputations": 0}


def test_a_class_answers_for_where_it_is_applied():
    made = region(11, missing(2), functions=[(FILE, "Own")])
    assert rows_for(5, region(8, missing(0)), made)["region_gradients_missing"] == 2
    elsewhere = region(11, missing(2), functions=[("/other.py", "Own")])
    assert rows_for(5, elsewhere) == {"region_recomputations": 0}


def test_a_partial_answers_for_the_calls_of_its_name():
    assert rows_for(4, region(8, missing(1)), region(10, missing(2)))["region_gradients_missing"] == 2
    assert rows_for(4, region(8, missing(1))) == {"region_recomputations": 0}


ALL = [region(8, missing(0)), region(9, missing(4)), region(10, missing(0))]


def test_a_statement_answers_for_the_regions_that_ran_it_again():
    found = rows_for(11, *ALL, heard=[(11, True, [[FILE, 8], [FILE, 9]])])
    assert (found["line_recomputed"], found["region_gradients_missing"]) == (True, 4)


@pytest.mark.parametrize(
    ("regions", "heard", "expected"),
    [
        (ALL, (11, True, []), {"line_recomputed": False, "region_recomputations": 0}),
        (ALL[:2], (11, True, []), {"region_recomputations": 0}),
        ([{**each, "recomputed": 0} for each in ALL], (11, True, []), {"region_recomputations": 0}),
        ([], (11, True, []), {"region_recomputations": 0}),
        (ALL, (11, False, []), {"region_recomputations": 0}),
        (ALL, (11, False, [["/other.py", 3]]), {"region_recomputations": 0}),
    ],
    ids=["ran once", "a call was left out", "nothing recomputed", "no region", "did not run", "no region of ours"],
)
def test_a_statement_that_did_not_run_again_is_cleared_only_where_every_checkpoint_was_entered(
    regions, heard, expected
):
    assert rows_for(11, *regions, heard=[heard]) == expected


def test_places_of_facts():
    facts = [
        Call("f", {}, False, 0, (), 0, Site(**site), "source")
        for site in ({"path": "m.py", "line": 3}, {"path": "n.ipynb", "line": 3, "cell": 2}, {"path": "m.py"})
    ]
    assert [(each.subject, each.place) for each in anchors_of(facts, ROOT)] == [("m.py:3", (FILE, 3))]
