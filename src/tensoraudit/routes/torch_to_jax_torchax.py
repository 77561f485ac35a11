"""PyTorch to JAX by torchax: an ExportedProgram, operator by operator, each run by its translation to JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Translation:
    """A program as a JAX function.

    `function(states, inputs)` takes JAX arrays by name and the flat inputs, and returns the flat results; in front of
    them stands what the program writes to. `states` are PyTorch's tensors by name, `trained` the names of parameters,
    and `array` makes a JAX array of one tensor.
    """

    function: Callable[[Mapping[str, Any], Sequence[Any]], Sequence[Any]]
    states: Mapping[str, Any]
    trained: frozenset[str]
    array: Callable[[Any], Any]


def translate(program: Any) -> Translation:
    """Return the JAX function of an ExportedProgram.

    This is torchax's `exported_program_to_jax`, except that weights are given to the graph by name: torchax gives it
    all parameters, then all buffers, then constants, which need not be the order of the graph. An operator without a
    translation shows only when the function is traced. Raises whatever torchax raises.
    """
    torchax = imported()
    lowered = program.run_decompositions().run_decompositions(torchax.decompositions.DECOMPOSITIONS)
    inputs = lowered.graph_signature.input_specs
    used = {node.name for node in lowered.graph.nodes if node.op == "placeholder" and node.users}
    known = {**lowered.constants, **lowered.state_dict}
    given = [None if each.kind.name == "USER_INPUT" else str(each.target) for each in inputs]
    states = {name: known[name] for name, each in zip(given, inputs) if name is not None and each.arg.name in used}  # noqa: B905

    def function(arrays: Mapping[str, Any], leaves: Sequence[Any]) -> Sequence[Any]:
        rest = iter(leaves)
        values = [next(rest) if name is None else arrays.get(name) for name in given]
        return torchax.export.JaxInterpreter(lowered.graph_module).run(*values, enable_io_processing=False)  # type: ignore[no-any-return]

    trained = frozenset(lowered.graph_signature.parameters)
    return Translation(function, states, trained, _copy)


def _copy(tensor: Any) -> Any:
    """torchax would lend PyTorch's memory to JAX, where writes of one side show on the other."""
    return imported().ops.mappings.t2j(tensor.detach(), use_dlpack=False)


def imported() -> Any:
    """Import torchax with what exports.

    torchax 0.0.13 names operator overloads that torch 2.13 no longer has (those for named dimensions), which fails its
    import; while it is imported they get a stand-in, which no graph of this torch can hold.
    """
    with _gone_overloads():
        import torchax
        import torchax.decompositions
        import torchax.export
        import torchax.ops.mappings

        torchax.default_env()  # it loads the translations
    return torchax


@contextmanager
def _gone_overloads() -> Iterator[None]:
    from torch._ops import OpOverloadPacket

    original = OpOverloadPacket.__getattr__

    def lenient(packet: Any, name: str) -> Any:
        try:
            return original(packet, name)
        except AttributeError:
            if name.startswith("_"):
                raise
            return _Gone(f"{packet}.{name}")

    OpOverloadPacket.__getattr__ = lenient
    try:
        yield
    finally:
        OpOverloadPacket.__getattr__ = original


@dataclass(frozen=True)
class _Gone:
    """An overload that this PyTorch does not have; a key in tables that nothing looks up."""

    name: str
