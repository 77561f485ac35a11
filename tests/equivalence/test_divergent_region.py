"""The first diverging operation, told by the flow of data."""

import pytest

from tensoraudit.equivalence.divergent_region import Flow, first_entries
from tensoraudit.equivalence.value_alignment import Print, Value

FULL = Print(10, 10, 1.0, 5.0, -1.0, 2.0)
CONSTANT = Print(10, 10, 0.0, 0.0, 0.0, 0.0)


def values(*rows):
    """Values from `name: inputs` rows; a name that starts with `z` is constant, with `o` has no print."""
    made = [Value("x", "input", print=FULL)]
    for row in rows:
        name, _, inputs = row.partition(":")
        known = CONSTANT if name.startswith("z") else None if name.startswith("o") else FULL
        made.append(Value(name, "op", print=known, inputs=tuple(inputs.split())))
    return made


def entry_names(region):
    return [entry.value.name for entry in region.entries]


def test_the_first_value_behind_the_agreed_ones_is_the_entry():
    flow = Flow(values("a:x", "b:a", "c:b", "d:c"))
    region = flow.region(["d"], {"a", "b"})
    assert entry_names(region) == ["c"]
    assert [value.name for value in region.values] == ["c", "d"]
    assert region.entries[0].behind == {"b"}
    assert region.rests_on == ("b",)


def test_nothing_diverges_where_the_outputs_agree():
    assert not Flow(values("a:x", "b:a")).region([], {"a", "b"}).values


def test_a_value_that_the_other_side_lacks_is_redeemed_by_what_is_made_from_it():
    flow = Flow(values("a:x", "inner:a", "b:inner", "c:b"))
    region = flow.region(["c"], {"a", "b"})
    assert entry_names(region) == ["c"]


def test_what_only_feeds_the_wrong_part_late_gives_way_to_the_later_front():
    """A mask made at the start, used by the faulty layer alone."""
    flow = Flow(values("mask:x", "a:x", "b:a", "wrong:b", "c:wrong mask"))
    region = flow.region(["c"], {"a", "b"})
    assert set(entry_names(region)) == {"mask", "wrong"}
    ours, theirs = first_entries(region.entries, region.entries, {"b": ("b",), "x": ("x",)})
    assert ours.value.name == theirs.value.name == "wrong"


def test_a_redeemer_is_named_so_that_it_can_be_looked_at():
    flow = Flow(values("a:x", "inner:a", "side:inner", "c:inner"))
    region = flow.region(["c"], {"a", "side"})
    assert set(region.rests_on) == {"a", "side"}


def test_a_drifted_value_redeems_nothing_and_is_not_redeemed():
    flow = Flow(values("a:x", "inner:a", "norm:inner", "b:norm"))
    region = flow.region(["norm"], {"a", "b"}, {"norm"})
    assert entry_names(region) == ["inner"]


def test_the_search_looks_through_lists_and_not_at_constants():
    flow = Flow(values("a:x", "opaque:a", "b:opaque zero", "zero:x"))
    region = flow.region(["b"], {"a"})
    assert entry_names(region) == ["b"]
    assert region.entries[0].behind == {"a"}


def test_a_skip_connection_is_no_entry():
    flow = Flow(values("a:x", "wrong:a", "sum:a wrong"))
    assert entry_names(flow.region(["sum"], {"a"})) == ["wrong"]


def test_entries_behind_the_same_values_are_chosen_on_both_sides():
    """The reference fuses q and k with v behind them; the candidate's q k product also reads agreed values alone."""
    ours = Flow(values("q:x", "k:q", "h:k", "v:h", "out:q k v")).region(["out"], {"q", "k", "h"})
    theirs = Flow(values("q:x", "k:q", "h:k", "qk:q k", "v:h", "out:qk v")).region(["out"], {"q", "k", "h"})
    assert set(entry_names(theirs)) == {"qk", "v"}
    first, second = first_entries(ours.entries, theirs.entries, {name: (name,) for name in "qkh"})
    assert (first.value.name, second.value.name) == ("v", "v")


def test_without_a_common_front_each_side_names_its_own_latest():
    ours = Flow(values("a:x", "b:a")).region(["b"], {"a"})
    first, second = first_entries(ours.entries, (), {})
    assert first.value.name == "b" and second is None


def test_many_paths_between_two_values_are_walked_once():
    rows = ["l0:x", "r0:x"]
    rows += [f"{side}{i}:l{i - 1} r{i - 1}" for i in range(1, 200) for side in "lr"]
    flow = Flow(values(*rows))
    assert entry_names(flow.region(["l199"], {"l0", "r0"})) == ["l1", "r1"]
    assert flow.front(flow.values["l199"], {"l0", "r0"}) == {"l0", "r0"}
    assert len(flow.above(["l199"])) == 2 * 199 + 2


@pytest.mark.parametrize("roots", [["gone"], []])
def test_unknown_roots_give_no_region(roots):
    assert not Flow(values("a:x")).region(roots, set()).values


def test_padding_in_front_of_the_wrong_operation_is_looked_through():
    x, a, wrong = values("a:x", "wrong:a")
    padded = Value("p", "pad", print=Print(14, 14, FULL.total, FULL.squares, -1.0, 2.0), inputs=("a",))
    behind = Value("wrong", "conv", print=FULL, inputs=("p",))
    assert entry_names(Flow([x, a, padded, behind]).region(["wrong"], {"a"})) == ["wrong"]
    other = Value("p", "concat", print=Print(14, 14, FULL.total + 1, FULL.squares + 1, -1.0, 2.0), inputs=("a",))
    assert entry_names(Flow([x, a, other, behind]).region(["wrong"], {"a"})) == ["p"]
    assert entry_names(Flow([x, a, wrong]).region(["wrong"], {"a"})) == ["wrong"]
