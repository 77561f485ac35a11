"""State of training in trees of plain values, honest and otherwise."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tensoraudit.checkpoints.training_state import find_training_state, optimizer_of, plain_value


class Tensor(NamedTuple):
    dtype: str
    shape: tuple[int, ...]


ADAM = {"step": Tensor("float32", ()), "exp_avg": Tensor("float32", (3,)), "exp_avg_sq": Tensor("float32", (3,))}


def test_several_optimizers_and_nested_counters() -> None:
    one = {"state": {0: ADAM}, "param_groups": [{"lr": 1.0, "params": [0]}]}
    tree = {
        "optimizer_states": [one, one | {"momentum": 3}],
        "loops": {"epoch": 4, "global_step": 9},
        "lr_schedulers": [{"last_epoch": 2, "_step_count": 3}],
    }
    found = find_training_state(tree)
    assert [state.path for state in found.training.optimizers] == [("optimizer_states", "0"), ("optimizer_states", "1")]
    assert [state.extra for state in found.training.optimizers] == [(), ("momentum",)]
    assert (found.training.step, found.training.epoch) == (9, 4)
    assert found.training.scheduler == {"last_epoch": 2, "_step_count": 3}
    place = found.place_of(("optimizer_states", 0, "state", 0, "exp_avg"))
    assert place == ("optimizer", ("optimizer_states", "0"), "state.0.exp_avg")
    assert found.place_of(("model", "w.b")) == ("model", ("model",), "w.b")


def old_optimizer(*addresses: int) -> dict[str, Any]:
    """As torch before 1.6 wrote it: parameters by the `id` that they had in that process."""
    last, *others = reversed(addresses)
    groups = [{"lr": 0.1, "params": others[::-1]}, {"lr": 0.2, "params": [last]}]
    return {"state": {each: dict(ADAM) for each in sorted(addresses)}, "param_groups": groups}


def test_addresses_of_an_old_optimizer_become_positions() -> None:
    tree = {"optimizer": old_optimizer(139832181926640, 139832181927280, 139832181926000)}
    (optimizer,) = find_training_state(tree).training.optimizers
    assert (optimizer.keyed, optimizer.parameters) == ("position", 3)
    assert [group["params"] for group in optimizer.groups] == [[0, 1], [2]]
    assert list(tree["optimizer"]["state"]) == [2, 0, 1]


@pytest.mark.parametrize(
    "groups",
    [
        [{"params": [1, 0]}],  # positions, in an order that says something
        [{"params": [139832181926640, 139832181926640]}],
        [{"params": [139832181926640, "w"]}],
        [{"params": [139832181926640]}, {"lr": 0.1}],
        [{"params": None}],
        ["params"],
    ],
)
def test_what_are_no_addresses_stays(groups: list[Any]) -> None:
    node = {"state": {139832181926640: dict(ADAM)}, "param_groups": groups}
    before = repr(node)
    find_training_state({"optimizer": node})
    assert repr(node) == before


def test_what_stands_higher_counts() -> None:
    tree = {"inner": {"step": 1, "deeper": {"step": 2}}, "step": 3, "last_step": 4}
    assert find_training_state(tree).training.step == 3
    assert find_training_state({"step": True, "flag": False}).training.step is None


def test_a_counter_may_be_a_tensor_but_not_beside_weights_alone() -> None:
    seen: list[object] = []

    def number(leaf: object) -> int | None:
        seen.append(leaf)
        return 7 if leaf == "a tensor" else None

    tree = {"model": {"w": 1.5, "step": "a tensor"}, "step": "a tensor", "epoch": "a word", "loss": "a tensor"}
    found = find_training_state(tree, number)
    assert (found.training.step, found.training.epoch) == (7, None)
    assert seen == ["a tensor", "a word"]  # of nothing else a value is read
    assert found.place_of(("step",)) == ("other", (), "step")
    assert found.place_of(("model", "step")) == ("model", ("model",), "step")


@pytest.mark.parametrize(
    ("leaf", "unread"),
    [
        (Tensor("int64", ()), ("epoch",)), (Tensor("float16", (1, 1)), ("epoch",)), (Tensor("int64", (2,)), ()),
        (Tensor("int64", (0,)), ()), (Tensor("bool", ()), ()), (Tensor("complex64", ()), ()), ("a word", ()),
        (None, ()),
    ],
)  # fmt: skip
def test_a_counter_that_cannot_be_read_is_there(leaf: object, unread: tuple[str, ...]) -> None:
    tree = {"model": {"w": 1.5, "step": Tensor("int64", ())}, "current_epoch": leaf}
    found = find_training_state(tree, lambda _: None)
    assert (found.training.epoch, found.training.step, found.training.unread) == (None, None, unread)
    assert found.place_of(("current_epoch",))[0] == ("other" if unread else "model")


def test_a_counter_that_is_read_under_another_name_is_not_unread() -> None:
    found = find_training_state({"model": {"w": 1.5}, "step": Tensor("int64", ()), "global_step": 3}, lambda _: None)
    assert (found.training.step, found.training.unread) == (3, ())


def test_flat_names_of_an_optimizer() -> None:
    flat = {f"state.a.b.{name}": value for name, value in ADAM.items()} | {"param_groups.a.b.lr": 0.5}
    found = optimizer_of(flat, ("optim",))
    assert found is not None
    assert (found.keyed, found.parameters, found.kind) == ("name", 1, "adam")
    assert found.groups == ({"params": ["a.b"], "lr": 0.5},)


@pytest.mark.parametrize(
    ("key", "value", "names"),
    [
        ("a", Tensor("uint8", (5056,)), ("torch",)), ("a", Tensor("uint8", (16,)), ("cuda",)),
        ("a", [Tensor("uint8", (16,))], ("cuda",)), ("a", ["MT19937", Tensor("uint32", (624,)), 5, 0, 0.0], ("numpy",)),
        ("a", [3, [7] * 625, None], ("python",)), ("prng_key", Tensor("uint32", (2,)), ("jax",)),
        ("rng_states", {"np": {"bit_generator": "PCG64", "state": 1}, "cuda": b"x"}, ("numpy", "cuda")),
        ("random_seed", 7, ()), ("weights", Tensor("uint8", (99,)), ()),
    ],
)  # fmt: skip
def test_generators(key: str, value: Any, names: tuple[str, ...]) -> None:
    assert find_training_state({key: value}).training.rng == names


def test_trees_that_loop_and_multiply_end() -> None:
    looped: dict[str, Any] = {}
    looped |= {f"rng_{number}": looped for number in range(50)}
    assert find_training_state(looped).training.rng == ()
    wide: Any = {"last_epoch": 1, "_step_count": 1}
    for _ in range(8):
        wide = {f"scheduler_{number}": wide for number in range(1_000)}
    found = find_training_state({"lr_scheduler": wide})
    assert found.training.scheduler is not None
    assert str(plain_value(wide)).count("scheduler_") <= 20_000


def test_values_as_json() -> None:
    value = {"t": Tensor("float32", (2, 3)), 1: [b"x", "y" * 2_000], "deep": [[[[[[[1]]]]]]]}
    found = plain_value(value)
    assert found["t"] == "tensor float32[2, 3]" and found["1"][0] == "<bytes>" and len(found["1"][1]) == 1_000
    assert found["deep"] == [[[[["..."]]]]]
