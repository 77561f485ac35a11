"""Which layer of a Keras configuration is called with which tensors. Knows both ways in which Keras writes it.

A tensor is known as (layer, number of its call, number of its output).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tensoraudit.facts import Dim, Unknown

Tensor = tuple[str, int, int]
Typed = tuple[str | Unknown, tuple[Dim, ...] | Unknown]
"""(dtype, shape)."""

UNDECLARED: Final = Unknown("not declared in the configuration")
UNTYPED: Final[Typed] = (UNDECLARED, UNDECLARED)
ANY_SIZE: Final = Unknown("any size")
_MAX_RANK: Final = 64
_MAX_TENSORS: Final = 100_000
"""Of one call."""
_MAX_OUTPUTS: Final = 1_000


@dataclass(slots=True)
class Call:
    """One call of a layer: its configuration, which of its calls it is, the tensors that go in."""

    layer: Mapping[str, Any]
    number: int
    inputs: tuple[Tensor, ...]


@dataclass(slots=True)
class Wiring:
    """All calls in the order of the layers, what is known of tensors, and how many outputs of a call are read."""

    calls: list[Call]
    types: dict[Tensor, Typed]
    widths: dict[tuple[str, int], int]

    def outputs(self, name: str, number: int) -> list[Tensor]:
        """The outputs of a call that something reads, at least one."""
        return [(name, number, index) for index in range(max(self.widths.get((name, number), 0), 1))]


def value_name(tensor: Tensor) -> str:
    """Return what a tensor is called: `dense:0`, of the second call of a layer `dense#1:0`."""
    layer, call, output = tensor
    return f"{layer}#{call}:{output}" if call else f"{layer}:{output}"


def layer_name(layer: Mapping[str, Any]) -> str:
    """Return a layer's name; its class for one without."""
    inner = layer.get("config")
    named = inner.get("name") if isinstance(inner, Mapping) else None
    return str(layer.get("name") or named or layer.get("class_name") or "layer")


def read_wiring(layers: list[Any], outputs: Any) -> Wiring:
    """Read the calls of a functional model; `outputs` is its `output_layers`."""
    wiring = Wiring([], {}, {})
    for layer in layers:
        if not isinstance(layer, Mapping):
            continue
        written = layer.get("inbound_nodes")
        for number, call in enumerate(written if isinstance(written, list) and written else [None]):
            found = list(_tensors(call))
            wiring.types.update({tensor: typed for tensor, typed in found if typed is not UNTYPED})
            wiring.calls.append(Call(layer, number, tuple(tensor for tensor, _ in found)))
    read = [tensor for call in wiring.calls for tensor in call.inputs]
    for name, number, index in (*read, *references(outputs)):
        wiring.widths[name, number] = max(wiring.widths.get((name, number), 0), min(index, _MAX_OUTPUTS) + 1)
    return wiring


def sequential_wiring(layers: list[Any]) -> Wiring:
    """Read the calls of a sequential model: each layer takes what the one before gives."""
    rows = [layer for layer in layers if isinstance(layer, Mapping)]
    calls = [
        Call(layer, 0, ((layer_name(rows[index - 1]), 0, 0),) if index else ()) for index, layer in enumerate(rows)
    ]
    return Wiring(calls, {}, {})


def references(value: Any) -> list[Tensor]:
    """Return the tensors that `input_layers` and `output_layers` name: one `[name, 0, 0]`, or containers of them."""
    return [tensor for tensor, _ in _tensors(value)]


def _tensors(value: Any) -> Iterator[tuple[Tensor, Typed]]:
    """Yield the tensors among the arguments of a call, in their order, with what is written of them."""
    waiting, count = [value], 0
    while waiting and count < _MAX_TENSORS:
        item = waiting.pop()
        count += 1
        if isinstance(item, Mapping):
            if item.get("class_name") == "__keras_tensor__" and isinstance(item.get("config"), Mapping):
                inner = item["config"]
                tensor = _reference(inner.get("keras_history"))
                if tensor is not None:
                    yield tensor, (_dtype(inner.get("dtype")), shape_of(inner.get("shape")))
            else:
                waiting += reversed(list(item.values()))
        elif isinstance(item, list):
            tensor = _reference(item)
            if tensor is None:
                waiting += reversed(item)
                continue
            yield tensor, UNTYPED
            if len(item) == 4 and isinstance(item[3], Mapping):  # arguments by keyword, in Keras 2
                waiting.append(item[3])


def _reference(item: Any) -> Tensor | None:
    if not isinstance(item, list) or len(item) not in (3, 4):
        return None
    name, call, output = item[:3]
    plain = isinstance(name, str) and type(call) is int and type(output) is int and call >= 0 and output >= 0
    return (name, call, output) if plain else None


def _dtype(value: Any) -> str | Unknown:
    return value if isinstance(value, str) else UNDECLARED


def shape_of(value: Any) -> tuple[Dim, ...] | Unknown:
    """Return a shape as a configuration writes it, with null for any size."""
    if not isinstance(value, list) or len(value) > _MAX_RANK:
        return UNDECLARED
    return tuple(size if type(size) is int and size >= 0 else ANY_SIZE for size in value)
