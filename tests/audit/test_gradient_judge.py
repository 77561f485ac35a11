"""What is made of two sides' gradients: arrays in, verdicts, rows and measurements out."""

from dataclasses import replace

import numpy as np
import pytest

from tensoraudit.audit.gradient_judge import LOSSES, compared, measurements_of, rows_of
from tensoraudit.audit.gradient_sides import Names, SideGradients
from tensoraudit.equivalence.gradient_pairing import Part, Plan
from tensoraudit.equivalence.verdict import Verdict

DRAWS = np.random.default_rng(0)
G = DRAWS.normal(size=(4, 3)).astype(np.float32)
X = DRAWS.normal(size=(2, 3, 5)).astype(np.float32)
PLAN = Plan({"w": (Part("k", ({"transpose": [1, 0]},)),)}, {}, (), {"w": (4, 3)})
NAMES = Names(PLAN, {"x": "inputs"}, {"inputs": (0, 2, 1)})


def side(gradients, missing=None, **more):
    plain = {"repeat": gradients, "oracle": None, "draws": (), "missing": missing or {}, "dtypes": {}}
    return SideGradients("s", gradients, **{**plain, **more})


def reference(**more):
    exact = {"parameter:w": G.astype(np.float64), "input:x": X.astype(np.float64)}
    return side({"parameter:w": G, "input:x": X}, oracle=exact, **more)


def candidate(w=G, x=X, **more):
    return side({"parameter:k": w.T.copy(), "input:inputs": x.transpose(0, 2, 1).copy()}, **more)


def judged(ours, theirs, names=NAMES):
    return {each.name: each for each in compared(ours, theirs, names, None)}


def metrics(judged_):
    return {(row.metric, row.subject): row.value for row in measurements_of(judged_.values(), "jax")}


def test_layouts_are_taken_back_and_equal_gradients_pass():
    found = judged(reference(), candidate())
    assert {name: each.verdict for name, each in found.items()} == {
        "w": Verdict.IDENTICAL,
        "input:x": Verdict.IDENTICAL,
    }
    assert found["w"].notes == ("from k (transpose [1, 0])",)


@pytest.mark.parametrize("factor", [1.01, 1.001, 1 + 2e-5])
def test_a_factor_is_a_loss_and_its_place_is_the_tensor(factor):
    found = judged(reference(), candidate(w=(G * factor).astype(np.float32)))
    assert found["w"].verdict in LOSSES and found["input:x"].verdict is Verdict.IDENTICAL
    values = metrics(found)
    assert values["gradient.error_ratio", "w"] > 8
    assert values["gradient.linf", "w"] == pytest.approx(np.abs(G).max() * (factor - 1), rel=1e-2)
    (row,) = [row for row in rows_of(found.values(), "pytorch/cpu", "c@jax/cpu", "jax") if row.tensor == "w"]
    assert (row.what, row.inputs, row.target) == ("gradient", "s", "jax")


def test_missing_against_a_gradient_breaks_on_either_side():
    theirs = side({"input:inputs": X.transpose(0, 2, 1)}, {"parameter:k": "held back at m.py:3"})
    found = judged(reference(), theirs)
    assert found["w"].verdict is Verdict.BREAK and "held back at m.py:3" in found["w"].reason
    assert metrics(found)["gradient.missing_candidate", "w"] == "gradient"
    ours = side({"input:x": X}, {"parameter:w": "not used"})
    found = judged(ours, candidate())
    assert found["w"].verdict is Verdict.BREAK and metrics(found)["gradient.missing_reference", "w"] == "gradient"


def test_missing_against_zeros_loses_nothing_and_is_said():
    ours = side({"parameter:w": np.zeros_like(G), "input:x": X})
    theirs = side({"input:inputs": X.transpose(0, 2, 1)}, {"parameter:k": "Round has no derivative"})
    found = judged(ours, theirs)
    assert found["w"].verdict is Verdict.EQUIVALENT and "zeros in the reference" in found["w"].reason
    assert metrics(found)["gradient.missing_candidate", "w"] == "zeros"


def test_missing_on_both_sides_is_the_same_with_both_reasons():
    theirs = side({"input:inputs": X.transpose(0, 2, 1)}, {"parameter:k": "unused there"})
    found = judged(side({"input:x": X}, {"parameter:w": "unused here"}), theirs)
    assert found["w"].verdict is Verdict.IDENTICAL
    assert "unused here" in found["w"].reason and "unused there" in found["w"].reason
    values = metrics(found)
    assert values["gradient.missing_candidate", "w"] == values["gradient.missing_reference", "w"] == "both"


def test_zeros_against_a_gradient_are_no_missing_one():
    found = judged(reference(), candidate(w=np.zeros_like(G)))
    assert found["w"].verdict in LOSSES
    values = metrics(found)
    assert values["gradient.zero_candidate", "w"] is True and ("gradient.missing_candidate", "w") not in values


def test_what_has_no_partner_is_unverified_with_the_reason_and_never_dropped():
    plan = replace(PLAN, parts={}, unpaired={"w": "no parameter of the candidate was found for it"}, extra=("k",))
    found = judged(reference(), candidate(), replace(NAMES, plan=plan))
    assert (found["w"].verdict, found["k"].verdict) == (Verdict.UNVERIFIED, Verdict.UNVERIFIED)
    assert found["w"].reason == "no parameter of the candidate was found for it"


def test_a_candidate_that_fails_leaves_every_gradient_unverified():
    found = judged(reference(), side({}, error="ValueError: no"))
    assert {each.verdict for each in found.values()} == {Verdict.UNVERIFIED}
    assert {each.reason for each in found.values()} == {"ValueError: no"}


def test_a_side_that_differs_from_itself_is_unverified():
    other = {"parameter:k": (G + 1).T.copy(), "input:inputs": X.transpose(0, 2, 1).copy()}
    assert judged(reference(), candidate(repeat=other))["w"].verdict is Verdict.UNVERIFIED


def test_two_sides_of_a_kink_are_noise_only_where_the_candidate_jumps_as_far():
    """One relu at 0: the reference lets a row through, the candidate does not, and one ULP brings it back."""
    w = G.copy()
    w[2] = 0
    flipped = {"parameter:k": G.T.copy(), "input:inputs": X.transpose(0, 2, 1).copy()}
    found = judged(reference(), candidate(w=w, draws=(flipped,)))
    assert found["w"].verdict is Verdict.NOISE and "at a kink" in found["w"].reason
    found = judged(reference(), candidate(w=w, draws=({**flipped, "parameter:k": w.T.copy()},)))
    assert found["w"].verdict in LOSSES
    half = G.copy()
    half[2] /= 2
    found = judged(reference(), candidate(w=w, draws=({**flipped, "parameter:k": half.T.copy()},)))
    assert found["w"].verdict in LOSSES, "half of the way does not explain it"


def test_of_several_input_sets_the_worst_counts():
    good, bad = compared(reference(), candidate(), NAMES, None), compared(reference(), candidate(w=G * 2), NAMES, None)
    bad = [replace(each, sample="t") for each in bad]
    rows = [row for row in measurements_of([*good, *bad], "jax") if row.metric == "gradient.verdict"]
    assert {row.subject: row.value for row in rows}["w"] in {"drift", "break"}
    assert next(row for row in rows if row.subject == "w").detail.startswith("t: ")


def test_complex_gradients_go_by_their_names():
    parts = {"parameter:f.real": G, "parameter:f.imag": G + 1}
    plan = Plan({"f": (Part("f"),)}, {}, (), {"f": (4, 3)})
    found = judged(side(parts), side(dict(parts)), Names(plan, {}, {}))
    assert {name: each.verdict for name, each in found.items()} == {"f.real": "identical", "f.imag": "identical"}
