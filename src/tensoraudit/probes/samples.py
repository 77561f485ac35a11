"""Sample inputs that the user writes beside a factory: `sample_inputs()` and `dynamic_shapes()`.

1. Looked for, in this order: `sample_inputs` on the factory, `<factory>_sample_inputs` in its file or module,
   `sample_inputs` there.
2. It returns a tuple (by position), a dict (by name), a tensor or array, or a list of several of these. A dict whose
   keys are no arguments is the one argument of a model that takes a dict.
3. Dimensions that differ between samples are dynamic. `dynamic_shapes()` beside it, {argument: {axis: name}}, adds
   more.

Shared by the workers: Python 3.9, standard library only. An array is whatever has a `shape`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensoraudit.probes.calls import Signature, containers_of, flatten
from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.user_code import user_error

Sample = dict[str, Any]
"""Values by argument, in their containers."""

Dynamic = dict[str, dict[str, str]]
"""Flat name -> axis (as text, for JSON) -> name of the dimension."""


@dataclass(frozen=True)
class Beside:
    """Where functions of the user's may stand: on `factory`, or in the module `home`, by the factory's name.

    `model` is what the factory made, for functions of its class.
    """

    home: Any
    factory: Any
    model: Any
    attribute: str
    framework: str

    def find(self, name: str) -> Callable[[], Any] | None:
        """Return the function of this name, if there is one."""
        last = self.attribute.rpartition(".")[2]
        own = getattr(self.factory, name, None)
        if inspect.isclass(self.factory) and inspect.isfunction(own):
            own = getattr(self.model, name)
        for found in (own, *(getattr(self.home, each, None) for each in (f"{last}_{name}", name))):
            if callable(found):
                return found  # type: ignore[no-any-return]
        return None

    def call(self, function: Callable[[], Any], what: str) -> Any:
        """Call a function of the user's. Raises JobFailed with their line."""
        remedy = "Mend it, or give the inputs with --inputs or --input."
        try:
            return function()
        except (Exception, SystemExit) as problem:
            raise user_error(problem, f"{what} fails", self.framework, remedy) from problem


def own_samples(beside: Beside, signature: Signature, to_leaf: Callable[[Any], Any]) -> list[Sample]:
    """Return the samples that stand beside a factory, by argument; none when it has none.

    `to_leaf` makes a leaf of an array or number, and raises TypeError for anything else. Raises JobFailed when the
    function fails or returns something that is no sample.
    """
    function = beside.find("sample_inputs")
    if function is None:
        return []
    given = beside.call(function, "sample_inputs()")
    several = given if isinstance(given, list) else [given]
    if not several:
        raise JobFailed("sample_inputs() returns an empty list", remedy="Return at least one sample.")
    return [_sample(each, signature, to_leaf) for each in several]


def _sample(given: Any, signature: Signature, to_leaf: Callable[[Any], Any]) -> Sample:
    what = "sample_inputs()"
    if isinstance(given, Mapping):
        names = {argument.name for argument in signature.arguments}
        if set(given) <= names or signature.named("kwargs"):
            return {str(name): leaves(value, f"{what}: {name}", to_leaf) for name, value in given.items()}
        given = (dict(given),)
    elif not isinstance(given, tuple) or hasattr(given, "_fields"):
        given = (given,)
    return by_position(given, signature, what, to_leaf)


def by_position(given: tuple[Any, ...], signature: Signature, what: str, to_leaf: Callable[[Any], Any]) -> Sample:
    """Return the values of a call by argument. Raises JobFailed when there are too many."""
    names = [argument.name for argument in signature.arguments if argument.kind == "positional"]
    rest = signature.named("args")
    if len(given) > len(names) and rest is None:
        raise JobFailed(
            f"{what} gives {len(given)} arguments, but forward takes {len(names)} ({', '.join(names)})",
            remedy="Return one value for each argument of forward, in their order; return several samples as a list.",
        )
    values = {name: leaves(value, f"{what}: {name}", to_leaf) for name, value in zip(names, given)}  # noqa: B905 - Python 3.9
    if rest is not None and len(given) > len(names):
        values[rest.name] = leaves(tuple(given[len(names) :]), what, to_leaf)
    return values


def leaves(value: Any, where: str, to_leaf: Callable[[Any], Any]) -> Any:
    """Return the same containers with every leaf made by `to_leaf`."""
    if isinstance(value, Mapping):
        return {key: leaves(each, f"{where}.{key}", to_leaf) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(leaves(each, where, to_leaf) for each in value))
    if isinstance(value, (list, tuple)):
        return type(value)(leaves(each, f"{where}.{index}", to_leaf) for index, each in enumerate(value))
    try:
        return to_leaf(value)
    except TypeError as problem:
        raise JobFailed(
            f"{where}: {problem}", remedy="Samples hold tensors, arrays, numbers, strings and None."
        ) from problem


def flat(sample: Sample) -> dict[str, Any]:
    """Return a sample's leaves by flat name."""
    return {name: leaf for argument, value in sample.items() for name, leaf in flatten(value, argument)}


def containers(samples: Sequence[Sample]) -> dict[str, str]:
    """Return which containers the samples use, by flat name."""
    return {
        name: kind
        for sample in samples
        for argument, value in sample.items()
        for name, kind in containers_of(value, argument)
    }


def dynamic_dims(beside: Beside, samples: Sequence[Sample]) -> Dynamic:
    """Return the dynamic dimensions: declared, or different between the samples.

    Dimensions that have equal sizes in every sample get one name, because they move together.
    """
    declared = _declared(beside, samples)
    names: dict[tuple[int, ...], str] = {}
    found: Dynamic = {}
    for name, axis, sizes in _differing([flat(sample) for sample in samples]):
        label = names.setdefault(sizes, _label(name, axis, set(names.values())))
        found.setdefault(name, {})[str(axis)] = label
    return {name: {**found.get(name, {}), **declared.get(name, {})} for name in {**found, **declared}}


def _label(name: str, axis: int, taken: set[str]) -> str:
    label = "batch" if axis == 0 else f"{name.replace('.', '_')}_{axis}"
    return label if label not in taken else f"{name.replace('.', '_')}_{axis}"


def _rank(value: Any) -> int | None:
    return None if getattr(value, "shape", None) is None else len(value.shape)


def _differing(samples: Sequence[dict[str, Any]]) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    for name, first in (samples[0] if samples else {}).items():
        rank = _rank(first)
        if rank is None or any(_rank(sample.get(name)) != rank for sample in samples):
            continue
        for axis in range(rank):
            sizes = tuple(int(sample[name].shape[axis]) for sample in samples)
            if len(set(sizes)) > 1:
                yield name, axis, sizes


def _declared(beside: Beside, samples: Sequence[Sample]) -> Dynamic:
    function = beside.find("dynamic_shapes")
    if function is None:
        return {}
    given = beside.call(function, "dynamic_shapes()")
    known = flat(samples[0]) if samples else {}
    found: Dynamic = {}
    for name, axes in _axes(given, ""):
        if known and name not in known:
            raise JobFailed(
                f"dynamic_shapes() names {name}, but the samples have {', '.join(known)}",
                remedy="Return {argument: {axis: name}} for arguments of the samples.",
            )
        for axis, dim in axes.items():
            real = axis + (_rank(known.get(name)) or 0) if axis < 0 else axis
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
