"""A `.pt2` of PyTorch as a JAX model, by torchax: its weights are the parameters, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from tensoraudit.probes.calls import Signature, flatten
from tensoraudit.probes.converted import Declared
from tensoraudit.probes.jax.loaded import PARAMETERS, Loaded, Spec
from tensoraudit.probes.jax.names import in_order
from tensoraudit.probes.jax.tensors import taken
from tensoraudit.probes.protocol import JobFailed
from tensoraudit.routes.conversion_causes import TORCHAX, refusal
from tensoraudit.routes.export_log import ExportLog

BUFFERS = "buffers"


def load_torchax(spec: Spec) -> Loaded:
    """Load the program and translate it. Names of inputs, outputs and weights are those of PyTorch.

    `made` is what the program declares. Raises JobFailed.
    """
    from tensoraudit.probes.pytorch.model_files import load_exported_program

    loaded = load_exported_program(spec)
    translation = _translate(loaded.program)
    program = _Program(loaded)
    groups = {name: PARAMETERS if name in translation.trained else BUFFERS for name in translation.states}
    parameters: dict[str, dict[str, Any]] = {PARAMETERS: {}, BUFFERS: {}}
    for name, tensor in translation.states.items():
        parameters[groups[name]][name] = _array(name, tensor, translation.array)

    def apply(given: Any, *args: Any, **kwargs: Any) -> Any:
        states = {name: given[group][name] for name, group in groups.items()}
        return program.outputs(translation.function(states, program.leaves(args, kwargs)))

    return Loaded(
        "torchax",
        Path(spec["path"]).stem,
        apply,
        parameters,
        program.signature,
        {group: {f"{group}/{name}": leaf for name, leaf in found.items()} for group, found in parameters.items()},
        training=loaded.training,
        made=program.declared({f"{groups[name]}/{name}": each for name, each in translation.states.items()}),
    )


def _translate(program: Any) -> Any:
    from tensoraudit.routes.torch_to_jax_torchax import translate

    try:
        with ExportLog().listen():
            return translate(program)
    except Exception as problem:
        cause, details = refusal(problem, TORCHAX, "translate")
        raise JobFailed(cause, **details) from problem


def _array(name: str, tensor: Any, to_array: Callable[[Any], Any]) -> Any:
    if str(tensor.dtype) in {"torch.int64", "torch.uint64"}:
        return jnp.asarray(taken(name, tensor.detach().numpy()))
    return to_array(tensor)


class _Program:
    """How an ExportedProgram is called: its arguments by name, its flat leaves, the containers of its results."""

    def __init__(self, loaded: Any) -> None:
        from torch.utils import _pytree

        from tensoraudit.probes.pytorch.arguments import signature_of
        from tensoraudit.probes.pytorch.samples import containers, read_samples

        self._program = loaded.program
        spec = loaded.program.call_spec
        self._in, self._out, self._pytree = spec.in_spec, spec.out_spec, _pytree
        read = signature_of(loaded.module)
        known = containers(list(read_samples(loaded, read, "")))
        self.signature = Signature(read.arguments, {**read.containers, **known})
        self._names = [argument.name for argument in read.arguments]

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the flat leaves of a call. Raises JobFailed for what the program was not exported for."""
        from torch.fx._pytree import tree_flatten_spec

        given = {**dict(zip(self._names, args)), **kwargs}  # noqa: B905 - Python 3.9
        leaves = list(tree_flatten_spec(self._arranged([given[name] for name in self._names]), self._in))
        for name, value, leaf in zip(self._flat_inputs(), self._declared_inputs(), leaves):  # noqa: B905
            _check(name, value, leaf)
        return leaves

    def _arranged(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The values of all arguments, in their order, as the program's own (args, kwargs)."""
        positional, named = self._in.children_specs if hasattr(self._in, "children_specs") else self._in.children()
        return tuple(values[: positional.num_children]), dict(zip(named.context, values[positional.num_children :]))  # noqa: B905

    def outputs(self, flat: Sequence[Any]) -> Any:
        """Return the results in their containers; in front of them stand the tensors that the program writes to."""
        own = list(flat)[len(flat) - self._out.num_leaves :]
        return in_order(self._pytree.tree_unflatten(own, self._out))

    def _flat_inputs(self) -> list[str]:
        numbers = self._pytree.tree_unflatten(list(range(self._in.num_leaves)), self._in)
        values = [*numbers[0], *numbers[1].values()]
        return [flat for name, value in zip(self._names, values) for flat, _ in flatten(value, name)]  # noqa: B905

    def _declared_inputs(self) -> Iterator[Any]:
        """What the graph says of each input: a fake tensor with its sizes, or the value that the export froze."""
        kinds = [each for each in self._program.graph_signature.input_specs if each.kind.name == "USER_INPUT"]
        nodes = {node.name: node for node in self._program.graph.nodes if node.op == "placeholder"}
        for each in kinds:
            yield each.arg.value if hasattr(each.arg, "value") else nodes[each.arg.name].meta.get("val")

    def declared(self, weights: Mapping[str, Any]) -> Declared:
        """Return the dtypes of inputs, outputs and weights by their flat names, and the bounds of sizes that vary."""
        inputs = dict(zip(self._flat_inputs(), self._declared_inputs()))  # noqa: B905
        results = [getattr(each, "meta", {}).get("val") for each in self._program.graph.output_node().args[0]]
        outputs = _dtypes(dict(flatten(self.outputs(results), "output")))
        largest = {name: self._largest(each) for name, each in inputs.items() if hasattr(each, "shape")}
        return Declared(_dtypes(inputs), outputs, _dtypes(weights), largest=largest)

    def _largest(self, value: Any) -> dict[int, int]:
        """The largest sizes of the dimensions that vary within bounds, by axis."""
        ranges = self._program.range_constraints
        sizes = {
            axis: ranges.get(getattr(getattr(size, "node", None), "expr", None))
            for axis, size in enumerate(value.shape)
        }
        return {axis: int(found.upper) for axis, found in sizes.items() if found is not None and found.upper.is_Integer}


def _dtypes(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(each.dtype).removeprefix("torch.") for name, each in values.items() if hasattr(each, "dtype")}


def _check(name: str, declared: Any, leaf: Any) -> None:
    """The program's own module checks its inputs; its translation would compute something for others too."""
    if not hasattr(declared, "shape"):
        if declared != leaf and not hasattr(leaf, "shape"):
            raise JobFailed(f"{name} was {declared!r} when the program was exported, and is {leaf!r} now")
        return
    fixed = [size if isinstance(size, int) else None for size in declared.shape]
    sizes = list(getattr(leaf, "shape", ()))
    if len(sizes) != len(fixed) or any(want not in (None, size) for want, size in zip(fixed, sizes)):  # noqa: B905
        raise JobFailed(
            f"{name} has the shape {sizes}, but the program was exported for {list(map(str, declared.shape))}",
            remedy="Export it with these dimensions dynamic.",
        )
