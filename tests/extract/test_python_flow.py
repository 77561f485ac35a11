"""What names stand for after branches, against a table written by hand."""

from tensoraudit.extract.python_flow import Flow, merge
from tensoraudit.extract.python_scopes import Bound

A, B, C = Bound(("a",), 1), Bound(("b",), 2), Bound(("c",), 1)


def branch(flow, **names):
    mark = flow.mark()
    for name, bound in names.items():
        flow.set(name, bound)
    return flow.undo(mark)


def test_undo_restores_and_tells_the_last_values():
    flow = Flow()
    flow.set("x", A)
    mark = flow.mark()
    for name, bound in (("x", B), ("y", A), ("x", C)):
        flow.set(name, bound)
    assert flow.undo(mark) == {"x": C, "y": A}
    assert (flow.get("x"), flow.get("y")) == (A, None)


def test_a_name_that_one_of_two_branches_sets_keeps_what_it_was():
    flow = Flow()
    flow.set("x", A)
    flow.join([branch(flow, x=B), branch(flow)], complete=True)
    assert set(flow.get("x").origins) == {"a", "b"}


def test_a_name_that_all_branches_set_loses_what_it_was():
    flow = Flow()
    flow.set("x", A)
    flow.join([branch(flow, x=B), branch(flow, x=C)], complete=True)
    assert flow.get("x").origins == ("b", "c")


def test_branches_that_may_be_skipped_keep_what_it_was():
    flow = Flow()
    flow.set("x", A)
    flow.join([branch(flow, x=B), branch(flow, x=C)], complete=False)
    assert set(flow.get("x").origins) == {"a", "b", "c"}


def test_a_name_that_nothing_set_before_has_only_its_branch():
    flow = Flow()
    flow.join([branch(flow, x=A), branch(flow)], complete=False)
    assert flow.get("x") == A


def test_a_join_can_be_undone():
    flow = Flow()
    flow.set("x", A)
    mark = flow.mark()
    flow.join([branch(flow, x=B)], complete=False)
    flow.undo(mark)
    assert flow.get("x") == A


def test_a_literal_survives_only_when_it_is_the_same_value_of_the_same_type():
    assert merge([A, C]).literal == 1
    assert merge([A, B]).literal is None
    assert merge([Bound(("a",), 1), Bound(("a",), True)]).literal is None
