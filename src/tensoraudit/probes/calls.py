"""A model's arguments: their names from its signature, and the road between a flat mapping and a call.

Shared by the workers: Python 3.9, standard library only.

A flat name is the argument's name, then the keys into nested containers: `states.0`, `batch.ids.1`. The same holds for
results, whose root is `output`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensoraudit.probes.protocol import JobFailed

_NUMBERS = {
    "int": int,
    "float": float,
    "bool": bool,
    "Optional[int]": int,
    "Optional[float]": float,
    "Optional[bool]": bool,
}


@dataclass(frozen=True)
class Argument:
    """One parameter of forward. `kind` is "positional", "keyword", "args" or "kwargs"."""

    name: str
    required: bool
    annotation: str
    kind: str = "positional"


@dataclass(frozen=True)
class Call:
    """Arguments in the structure of a call, and flat."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    leaves: dict[str, Any]


@dataclass(frozen=True)
class Signature:
    """The arguments of a model, and which containers stand under which flat name (`tuple`, `list`, `dict`)."""

    arguments: tuple[Argument, ...]
    containers: Mapping[str, str] = field(default_factory=dict)

    def named(self, kind: str) -> Argument | None:
        """Return the `*args` or `**kwargs` parameter."""
        return next((argument for argument in self.arguments if argument.kind == kind), None)

    def bind(self, leaves: Mapping[str, Any]) -> Call:
        """Arrange flat leaves as a call, by position where possible.

        Raises JobFailed naming unknown and missing arguments.
        """
        values = {name: self._number(name, value) for name, value in unflatten(leaves, self.containers).items()}
        self._check(values)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        open_position = True
        for argument in self.arguments:
            if argument.kind == "args":
                args.extend(values.get(argument.name, ()) if open_position else ())
            elif argument.name not in values or argument.kind == "kwargs":
                open_position = open_position and argument.kind != "positional"
            elif argument.kind == "positional" and open_position:
                args.append(values[argument.name])
            else:
                kwargs[argument.name] = values[argument.name]
        known = {argument.name for argument in self.arguments}
        kwargs.update({name: value for name, value in values.items() if name not in known})
        return Call(tuple(args), kwargs, self._ordered(values))

    def structure(self, leaves: Mapping[str, Any]) -> dict[str, Any]:
        """Return anything that hangs on flat names in the containers of the arguments, by argument."""
        return unflatten(leaves, self.containers)

    def _ordered(self, values: Mapping[str, Any]) -> dict[str, Any]:
        names = [argument.name for argument in self.arguments if argument.name in values]
        names += [name for name in values if name not in names]
        return {flat: leaf for name in names for flat, leaf in flatten(values[name], name)}

    def _check(self, values: Mapping[str, Any]) -> None:
        known = {argument.name for argument in self.arguments}
        extra = [] if self.named("kwargs") else sorted(set(values) - known)
        missing = [argument.name for argument in self.arguments if argument.required and argument.name not in values]
        if extra or missing:
            parts = [f"it has no argument {', '.join(extra)}"] if extra else []
            parts += [f"the inputs lack {', '.join(missing)}"] if missing else []
            takes = ", ".join(argument.name for argument in self.arguments) or "nothing"
            raise JobFailed(
                f"the inputs do not fit the model's forward: {' and '.join(parts)}",
                remedy=f"Name the inputs after the arguments of forward: {takes}.",
            )

    def _number(self, name: str, value: Any) -> Any:
        """A number for an argument that is annotated as one (TorchScript insists on those)."""
        annotation = next((argument.annotation for argument in self.arguments if argument.name == name), "")
        wanted = _NUMBERS.get(annotation)
        shape = getattr(value, "shape", None)
        if wanted is None or shape is None:
            return value  # before anything looks at the sizes, which a tracer may watch
        return wanted(value.item()) if all(size == 1 for size in shape) else value  # a size may be open while tracing


def signature_of(function: Callable[..., Any], skip: int = 0) -> Signature:
    """Read the arguments of a function; `skip` leaves out that many at the front (parameters that the audit binds).

    What has no readable signature takes anything.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return Signature((Argument("args", False, "", "args"), Argument("kwargs", False, "", "kwargs")))
    return Signature(tuple(_argument(parameter) for parameter in parameters[skip:]))


def _argument(parameter: inspect.Parameter) -> Argument:
    kinds: dict[Any, str] = {
        inspect.Parameter.VAR_POSITIONAL: "args",
        inspect.Parameter.VAR_KEYWORD: "kwargs",
        inspect.Parameter.KEYWORD_ONLY: "keyword",
    }
    annotation = parameter.annotation
    text = "" if annotation is parameter.empty else getattr(annotation, "__name__", None) or str(annotation)
    kind = kinds.get(parameter.kind, "positional")
    required = parameter.default is parameter.empty and kind in {"positional", "keyword"}
    return Argument(parameter.name, required, text if isinstance(annotation, type) else str(text), kind)


def flatten(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested tuples, lists and dicts with their flat names."""
    for key, inner in children(value):
        yield from flatten(inner, f"{name}.{key}")
    if not _is_container(value):
        yield name, value


def _is_container(value: Any) -> bool:
    return isinstance(value, (tuple, list, Mapping)) or _is_record(value)


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def children(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a container with their keys; nothing for a leaf."""
    if isinstance(value, Mapping):
        yield from ((str(key), inner) for key, inner in value.items())
    elif _is_record(value):
        yield from ((each.name, getattr(value, each.name)) for each in dataclasses.fields(value))
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from zip(value._fields, value)  # noqa: B905 - Python 3.9
    elif isinstance(value, (tuple, list)):
        yield from ((str(index), inner) for index, inner in enumerate(value))


def containers_of(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield the kind of every container below a value under its flat name."""
    if _is_container(value):
        yield name, "dict" if isinstance(value, Mapping) else "list" if isinstance(value, list) else "tuple"
    for key, inner in children(value):
        yield from containers_of(inner, f"{name}.{key}")


def unflatten(leaves: Mapping[str, Any], containers: Mapping[str, str]) -> dict[str, Any]:
    """Put leaves back into containers, by argument.

    Keys that count from 0 make a tuple, others a dict, unless `containers` knows better.
    """
    tree: dict[str, Any] = {}
    for name, leaf in leaves.items():
        *path, last = name.split(".")
        node = tree
        for key in path:
            node = node.setdefault(key, _Branch())
        node[last] = leaf
    return {name: _close(value, name, containers) for name, value in tree.items()}


class _Branch(dict):  # type: ignore[type-arg]
    """An inner node of the tree, apart from dicts that are leaves' own values."""


def _close(value: Any, name: str, containers: Mapping[str, str]) -> Any:
    if not isinstance(value, _Branch):
        return value
    inner = {key: _close(each, f"{name}.{key}", containers) for key, each in value.items()}
    counted = all(key.isdigit() for key in inner)
    kind = containers.get(name, "tuple" if counted else "dict")
    if kind == "dict":
        return inner
    items: Sequence[Any] = [inner[key] for key in sorted(inner, key=int)] if counted else list(inner.values())
    return list(items) if kind == "list" else tuple(items)
