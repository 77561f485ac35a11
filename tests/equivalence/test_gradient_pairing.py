"""Gradients taken back to the reference's parameters, against derivatives that are worked out here."""

import numpy as np
import pytest

from tensoraudit.equivalence.gradient_pairing import Group, gather, layout_words, plan_gradients
from tensoraudit.equivalence.parameter import Pair, Parameter, ParameterPairs, Term
from tensoraudit.equivalence.parameters import pair_parameters

DRAWS = np.random.default_rng(0)


def draw(*shape):
    return DRAWS.normal(size=shape).astype(np.float32)


def paired(reference, candidate, **words):
    """Pair two sides by name and value, and gather the candidate's gradients."""
    pairs = pair_parameters(
        [Parameter(name, each, **words) for name, each in reference.items()],
        [Parameter(name, each, **words) for name, each in candidate.items()],
    )
    groups = [[Group((name,), each.shape) for name, each in side.items()] for side in (reference, candidate)]
    return plan_gradients(pairs, *groups)


def test_a_transposed_kernel_is_taken_back():
    w, g = draw(3, 5), draw(5, 3)
    plan = paired({"fc.weight": w}, {"dense/kernel": w.T.copy()})
    np.testing.assert_array_equal(gather(plan, {"dense/kernel": g})["fc.weight"], g.T)
    assert layout_words(plan, "fc.weight") == "dense/kernel (transpose [1, 0])"


def test_oihw_and_hwio_and_a_square_kernel_that_is_transposed():
    k, s = draw(4, 2, 3, 3), draw(6, 6)
    plan = paired({"conv": k, "square": s}, {"a": k.transpose(2, 3, 1, 0).copy(), "b": s.T.copy()})
    gk, gs = draw(3, 3, 2, 4), draw(6, 6)
    found = gather(plan, {"a": gk, "b": gs})
    np.testing.assert_array_equal(found["conv"], gk.transpose(3, 2, 0, 1))
    np.testing.assert_array_equal(found["square"], gs.T)


def test_a_sum_of_two_biases_gives_both_the_same_gradient():
    """y = x + (b1 + b2): dy/db1 = dy/db2 = dy/db."""
    a, b = draw(4), draw(4)
    pairs = ParameterPairs((Pair("bias", (Term("b1"), Term("b2")), "map", equal=True),), (), ())
    plan = plan_gradients(pairs, [Group(("b1",), (4,)), Group(("b2",), (4,))], [Group(("bias",), (4,))])
    g = draw(4)
    found = gather(plan, {"bias": g})
    np.testing.assert_array_equal(found["b1"], g)
    np.testing.assert_array_equal(found["b2"], g)
    assert a.shape == b.shape


def test_gates_kept_apart_are_put_together():
    """The reference stacks three gates; the candidate has one parameter for each, transposed."""
    steps = [({"gates": {"axis": 0, "of": 3, "order": [k]}}, {"transpose": [1, 0]}) for k in range(3)]
    pairs = ParameterPairs(
        tuple(Pair(f"i{gate}", (Term("w", steps[k]),), "name", equal=True) for k, gate in enumerate("rzn")), (), ()
    )
    plan = plan_gradients(pairs, [Group(("w",), (6, 5))], [Group((f"i{gate}",), (5, 2)) for gate in "rzn"])
    parts = {f"i{gate}": draw(5, 2) for gate in "rzn"}
    expected = np.concatenate([parts[f"i{gate}"].T for gate in "rzn"])
    np.testing.assert_array_equal(gather(plan, parts)["w"], expected)


def test_a_row_of_a_stacked_bias():
    pairs = ParameterPairs(
        (
            Pair(
                "bias",
                (
                    Term("b_ih", ({"reshape": [1, 4]}, {"place": {"axis": 0, "of": 2, "at": 0}})),
                    Term("b_hh", ({"reshape": [1, 4]}, {"place": {"axis": 0, "of": 2, "at": 1}})),
                ),
                "name",
                equal=True,
            ),
        ),
        (),
        (),
    )
    plan = plan_gradients(pairs, [Group(("b_ih",), (4,)), Group(("b_hh",), (4,))], [Group(("bias",), (2, 4))])
    g = draw(2, 4)
    found = gather(plan, {"bias": g})
    np.testing.assert_array_equal(found["b_ih"], g[0])
    np.testing.assert_array_equal(found["b_hh"], g[1])


def test_two_names_of_one_memory_count_once_and_two_copies_add_up():
    w = draw(3, 2)
    tied = Group(("a", "b"), (3, 2))
    same = ParameterPairs((Pair("p", (Term("a"),), "value", equal=True), Pair("q", (Term("b"),), "value")), (), ())
    g, h = draw(3, 2), draw(3, 2)
    apart = plan_gradients(same, [tied], [Group(("p",), w.shape), Group(("q",), w.shape)])
    np.testing.assert_allclose(gather(apart, {"p": g, "q": h})["a"], g + h, rtol=1e-6)
    both = plan_gradients(same, [tied], [Group(("p", "q"), w.shape)])
    np.testing.assert_array_equal(gather(both, {"p": g})["a"], g)


@pytest.mark.parametrize(
    ("pairs", "candidate", "reason"),
    [
        ((), [], "no parameter of the candidate was found for it"),
        ((Pair("p", (Term("a"),), "order", equal=False),), [Group(("p",), (2,))], "by its shape and order only"),
        ((Pair("p", (Term("a"),), "name", equal=True),), [Group(("p",), (2,), trained=False)], "frozen in the cand"),
        ((Pair("p", (Term("a"),), "name", equal=True),), [], "the candidate does not train p"),
    ],
)
def test_what_cannot_be_compared_is_named_with_the_reason(pairs, candidate, reason):
    plan = plan_gradients(ParameterPairs(tuple(pairs), (), ()), [Group(("a",), (2,))], candidate)
    assert reason in plan.unpaired["a"] and not plan.parts


def test_extra_parameters_of_the_candidate_are_named_and_frozen_ones_of_the_reference_are_not_asked_for():
    pairs = ParameterPairs((), ("a",), ("p",))
    plan = plan_gradients(pairs, [Group(("a",), (2,), trained=False)], [Group(("p",), (2,))])
    assert (plan.extra, plan.unpaired, plan.parts) == (("p",), {}, {})


def test_a_missing_gradient_leaves_the_parameter_out():
    w = draw(3, 5)
    plan = paired({"w": w}, {"k": w.T.copy()})
    assert gather(plan, {}) == {}
