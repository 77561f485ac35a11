"""Sample inputs that come with a model: `sample_inputs()` beside the factory, or an ExportedProgram's examples.

1. Looked for, in this order: `sample_inputs` on the factory, `<factory>_sample_inputs` in its file or module,
   `sample_inputs` there.
2. It returns a tuple (by position), a dict (by name), a tensor or array, or a list of several of these. A dict whose
   keys are no arguments is the one argument of a model that takes a dict.
3. Dimensions that differ between samples are dynamic. `dynamic_shapes()` beside it, {argument: {axis: name}}, adds
   more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.pytorch.arguments import Signature, containers_of, flatten
from tensoraudit.probes.pytorch.loaded import Loaded
from tensoraudit.probes.pytorch.tensors import to_leaf
from tensoraudit.probes.pytorch.user_code import user_error

Sample = dict[str, Any]
"""Values by argument, in their containers."""

Dynamic = dict[str, dict[str, str]]
"""Flat name -> axis (as text, for JSON) -> name of the dimension."""


def read_samples(loaded: Loaded, signature: Signature, attribute: str) -> list[Sample]:
    """Return the model's own samples by argument; none when it brings none.

    Raises JobFailed when the function fails or returns something that is no sample.
    """
    if loaded.program is not None and loaded.program.example_inputs is not None:
        args, kwargs = loaded.program.example_inputs
        return [{**_by_position(tuple(args), signature, "the example inputs"), **kwargs}]
    function = _beside(loaded, attribute, "sample_inputs")
    if function is None:
        return []
    given = _call(function, "sample_inputs()")
    several = given if isinstance(given, list) else [given]
    if not several:
        raise JobFailed("sample_inputs() returns an empty list", remedy="Return at least one sample.")
    return [_sample(each, signature) for each in several]


def _beside(loaded: Loaded, attribute: str, name: str) -> Callable[[], Any] | None:
    last = attribute.rpartition(".")[2]
    own = getattr(loaded.factory, name, None)
    if inspect.isclass(loaded.factory) and inspect.isfunction(own):
        own = getattr(loaded.module, name)
    for found in (own, *(getattr(loaded.home, each, None) for each in (f"{last}_{name}", name))):
        if callable(found):
            return found  # type: ignore[no-any-return]
    return None


def _call(function: Callable[[], Any], what: str) -> Any:
    try:
        return function()
    except (Exception, SystemExit) as problem:
        raise user_error(problem, f"{what} fails", "Mend it, or give the inputs with --inputs or --input.") from problem


def _sample(given: Any, signature: Signature) -> Sample:
    what = "sample_inputs()"
    if isinstance(given, Mapping):
        names = {argument.name for argument in signature.arguments}
        if set(given) <= names or signature.named("kwargs"):
            return {str(name): _leaves(value, f"{what}: {name}") for name, value in given.items()}
        given = (dict(given),)
    elif not isinstance(given, tuple) or hasattr(given, "_fields"):
        given = (given,)
    return _by_position(given, signature, what)


def _by_position(given: tuple[Any, ...], signature: Signature, what: str) -> Sample:
    names = [argument.name for argument in signature.arguments if argument.kind == "positional"]
    rest = signature.named("args")
    if len(given) > len(names) and rest is None:
        raise JobFailed(
            f"{what} gives {len(given)} arguments, but forward takes {len(names)} ({', '.join(names)})",
            remedy="Return one value for each argument of forward, in their order; return several samples as a list.",
        )
    values = {name: _leaves(value, f"{what}: {name}") for name, value in zip(names, given)}  # noqa: B905 - Python 3.9
    if rest is not None and len(given) > len(names):
        values[rest.name] = _leaves(tuple(given[len(names) :]), what)
    return values


def _leaves(value: Any, where: str) -> Any:
    """The same containers with every array as a tensor."""
    if isinstance(value, Mapping):
        return {key: _leaves(each, f"{where}.{key}") for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_leaves(each, where) for each in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_leaves(each, f"{where}.{index}") for index, each in enumerate(value))
    try:
        return to_leaf(value)
    except TypeError as problem:
        raise JobFailed(
            f"{where}: {problem}", remedy="Samples hold tensors, arrays, numbers, strings and None."
        ) from problem


def flat(sample: Sample) -> dict[str, Any]:
    """Return a sample's leaves by flat name."""
    return {name: leaf for argument, value in sample.items() for name, leaf in flatten(value, argument)}


def containers(samples: list[Sample]) -> dict[str, str]:
    """Return which containers the samples use, by flat name."""
    return {
        name: kind
        for sample in samples
        for argument, value in sample.items()
        for name, kind in containers_of(value, argument)
    }


def dynamic_dims(loaded: Loaded, samples: list[Sample], attribute: str) -> Dynamic:
    """Return the dynamic dimensions: declared, symbolic in an ExportedProgram, or different between the samples.

    Dimensions that have equal sizes in every sample get one name, because they move together.
    """
    if loaded.program is not None:
        return _symbolic(loaded.program, samples)
    declared = _declared(loaded, samples, attribute)
    names: dict[tuple[int, ...], str] = {}
    found: Dynamic = {}
    for name, axis, sizes in _differing([flat(sample) for sample in samples]):
        label = names.setdefault(sizes, _label(name, axis, set(names.values())))
        found.setdefault(name, {})[str(axis)] = label
    return {name: {**found.get(name, {}), **declared.get(name, {})} for name in {**found, **declared}}


def _label(name: str, axis: int, taken: set[str]) -> str:
    label = "batch" if axis == 0 else f"{name.replace('.', '_')}_{axis}"
    return label if label not in taken else f"{name.replace('.', '_')}_{axis}"


def _differing(samples: list[dict[str, Any]]) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    for name, first in (samples[0] if samples else {}).items():
        shapes = [getattr(sample.get(name), "shape", None) for sample in samples]
        if not isinstance(first, torch.Tensor) or any(shape is None or len(shape) != first.dim() for shape in shapes):
            continue
        for axis in range(first.dim()):
            sizes = tuple(int(shape[axis]) for shape in shapes if shape is not None)
            if len(set(sizes)) > 1:
                yield name, axis, sizes


def _declared(loaded: Loaded, samples: list[Sample], attribute: str) -> Dynamic:
    function = _beside(loaded, attribute, "dynamic_shapes")
    if function is None:
        return {}
    given = _call(function, "dynamic_shapes()")
    known = flat(samples[0]) if samples else {}
    found: Dynamic = {}
    for name, axes in _axes(given, ""):
        if known and name not in known:
            raise JobFailed(
                f"dynamic_shapes() names {name}, but the samples have {', '.join(known)}",
                remedy="Return {argument: {axis: name}} for arguments of the samples.",
            )
        for axis, dim in axes.items():
            count = known[name].dim() if isinstance(known.get(name), torch.Tensor) else 0
            real = axis + count if axis < 0 else axis
            label = dim if isinstance(dim, str) else getattr(dim, "__name__", None) or _label(name, real, set())
            found.setdefault(name, {})[str(real)] = label
    return found


def _axes(value: Any, name: str) -> Iterator[tuple[str, Mapping[int, Any]]]:
    """The {axis: dimension} mappings in nested containers, by flat name."""
    if isinstance(value, Mapping) and name and all(isinstance(key, int) for key in value):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _axes(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _axes(inner, f"{name}.{index}" if name else str(index))


def _symbolic(program: Any, samples: list[Sample]) -> Dynamic:
    inputs = set(program.graph_signature.user_inputs)
    nodes = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in inputs]
    names = list(flat(samples[0])) if samples else [node.name for node in nodes]
    found: Dynamic = {}
    for name, node in zip(names, nodes):  # noqa: B905 - Python 3.9
        for axis, size in enumerate(getattr(node.meta.get("val"), "shape", ())):
            if not isinstance(size, int):
                found.setdefault(name, {})[str(axis)] = str(size)
    return found
