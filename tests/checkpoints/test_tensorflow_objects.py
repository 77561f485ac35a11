"""Object graphs by hand: what optimisers keep, and graphs made to hurt."""

from __future__ import annotations

import time

import pytest

from tensoraudit.artifacts.protobuf import WireError
from tensoraudit.checkpoints.tensorflow_objects import full_names, kept_states, read_graph
from tensoraudit.errors import InputError


def number(field, value):
    out = bytearray((field << 3,))
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def message(field, content):
    return bytes((field << 3 | 2,)) + number(0, len(content))[1:] + content


def child(target, name):
    return message(1, number(1, target) + message(2, name.encode()))


def value(key, full=""):
    return message(2, message(1, b"VARIABLE_VALUE") + message(2, full.encode()) + message(3, key.encode()))


def slot(variable, name, target):
    return message(3, number(1, variable) + message(2, name.encode()) + number(3, target))


def graph(*nodes):
    return read_graph(b"".join(message(1, b"".join(node)) for node in nodes), "graph")


def test_slots():
    nodes = graph(
        [child(1, "model"), child(2, "optimizer")],
        [child(3, "w")],
        [slot(3, "m", 4), slot(3, "v", 5), child(6, "beta_1")],
        [value("model/w", "dense/kernel")],
        [value("m")],
        [value("v")],
        [value("optimizer/beta_1")],
    )
    [state] = kept_states(nodes, "graph")
    assert (state.path, state.keyed, state.parameters) == ("optimizer", "name", ("model/w",))
    assert state.fields == {"m": ("m",), "v": ("v",)} and state.scalars == {"beta_1": "optimizer/beta_1"}
    assert full_names(nodes) == {"model/w": "dense/kernel"}


def test_lists_keep_the_order_of_their_numbers():
    many = [child(4 + place, str(place)) for place in range(12)]
    nodes = graph(
        [child(1, "o")],
        [child(2, "_trainable_variables"), child(3, "_momentums"), child(2, "_variables")],
        list(reversed(many)),
        many,
        *[[value(f"k{place}")] for place in range(12)],
    )
    [state] = kept_states(nodes, "graph")
    assert state.parameters == tuple(f"k{place}" for place in range(12)) == state.fields["momentums"]
    assert (state.path, state.keyed) == ("o", "position")


def test_numbers_of_nodes_that_are_not_there_and_circles():
    nodes = graph([child(0, "self"), child(9, "gone"), child(1, "o")], [slot(7, "m", 8), child(0, "up")])
    [state] = kept_states(nodes, "graph")
    assert (state.path, state.parameters, state.fields) == ("o", ("",), {"m": ("",)})
    assert list(kept_states([], "graph")) == []


def test_what_hangs_nowhere_is_no_optimiser():
    assert list(kept_states(graph([], [slot(0, "m", 0)]), "graph")) == []


def test_many_optimisers_of_one_long_list():
    """Each names the same list of 20,000: a small file would list a billion variables."""
    long = [child(0, str(place)) for place in range(20_000)]
    nodes = graph(
        [child(2 + place, f"o{place}") for place in range(1_000)],
        long,
        *[[child(1, "_trainable_variables"), child(1, "_m"), child(1, "_v")]] * 1_000,
    )
    start = time.process_time()
    with pytest.raises(InputError, match="more than 2,000,000 pieces"):
        list(kept_states(nodes, "graph"))
    assert time.process_time() - start < 15


def test_many_names_of_slots_for_many_variables():
    slots = [slot(place, f"s{place}", place) for place in range(20_000)]
    [state] = kept_states(graph([child(1, "o")], slots, *[[value(f"k{n}")] for n in range(20_000)]), "graph")
    assert len(state.fields) == 16 and all(len(keys) == len(state.parameters) for keys in state.fields.values())


def test_a_deep_chain():
    nodes = graph(*[[child(place + 1, "n")] for place in range(50_000)], [slot(0, "m", 0)])
    [state] = kept_states(nodes, "graph")
    assert state.path == ""


def test_too_many_pieces_and_damage():
    with pytest.raises(InputError, match="more than 2,000,000 pieces"):
        read_graph(b"\x0a\x00" * 2_000_001, "graph")
    with pytest.raises(WireError):
        read_graph(b"\x0a\x7f", "graph")
