"""What calls that only pack, unpack or pass on their arguments return, as data: `list(x)`, `zip(a, b)`,
`nn.Sequential(*layers)`, `d.items()`, `copy.deepcopy(model)`. Knows origins alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tensoraudit.extract.known_results import TENSOR
from tensoraudit.extract.python_origins import UNKNOWN, Origins, any_item, bare, callee, each, holding, item, unite

Arguments = Sequence[Origins]
"""The origins of the positional arguments; those of a starred one stand for the container that is unpacked."""

PARTIAL_MAKER: Final = "functools.partial"
PARTIAL: Final = "functools.partial()"

GROWS: Final = {"append": "", "add": "", "appendleft": "", "extend": "*"}
"""Methods that put their argument, or (`*`) each item of it, into a container."""

READS: Final = frozenset(
    {
        "copy", "count", "eval", "forward", "get", "get_submodule", "index", "items", "keys", "modules",
        "named_children", "parameters", "to", "train", "values",
    }
)  # fmt: skip
"""Methods that leave a container holding what it held."""


def taken(origins: Origins, step: str) -> Origins:
    """Return the origins of an item (see `python_origins.item`); an item of a tensor is a tensor."""
    if len(origins) == 1:
        return origins if origins[0] == TENSOR else item(origins[0], step)
    return unite([(origin,) if origin == TENSOR else item(origin, step) for origin in origins])


def made_of(functions: Origins, receivers: Origins, arguments: Arguments, starred: bool) -> Origins | None:
    """Return the origins of what a call makes of its arguments, or of its receiver; None for every other call."""
    if len(functions) != 1:
        return None
    name = callee(functions[0])
    make = _MAKERS.get(name)
    if make is not None:
        return make(arguments, starred)
    head, _, method = name.rpartition(".")
    take = _METHODS.get(method)
    if take is None or len(receivers) != 1 or "<" not in receivers[0] or bare(receivers[0]) != head:
        return None
    return take(receivers[0], arguments)


def may_make(functions: Origins, receivers: Origins) -> bool:
    """Tell whether `made_of` may know what a call returns: a cheap answer for the many of which it knows nothing."""
    if len(functions) != 1:
        return False
    return functions[0] in _MAKERS or functions[0] == PARTIAL_MAKER or (len(receivers) == 1 and "<" in receivers[0])


def partially(function: Origins, positional: int) -> Origins:
    """Return the origin of `functools.partial(function, ...)`. One with positional arguments, which those of a later
    call stand behind, is written `partial()<function,>`."""
    if function == UNKNOWN:
        return (PARTIAL,)
    held = each(PARTIAL, function)
    return (f"{held[:-1]},>" if positional and held != PARTIAL else held,)


def grown(origin: str, method: str, argument: Origins) -> str | None:
    """Return the container `origin` after `method` put `argument` into it; None when it was no such method."""
    step = GROWS.get(method)
    if step is None or "<" not in origin:
        return None
    added = taken(argument, "*") if step else argument
    return unite([(origin,), (each(bare(origin), added),)])[0]


def _copy_as(head: str) -> Callable[[Arguments, bool], Origins]:
    def make(arguments: Arguments, starred: bool) -> Origins:
        if not arguments:
            return (each(head, ()),)
        return (head,) if starred or len(arguments) > 1 else (each(head, taken(arguments[0], "*")),)

    return make


def _mapping_as(head: str) -> Callable[[Arguments, bool], Origins]:
    def make(arguments: Arguments, starred: bool) -> Origins:
        if not arguments:
            return (each(head, ()),)
        known = [origin for origin in arguments[0] if "<" in origin] if len(arguments) == 1 and not starred else []
        return (each(head, unite([any_item(origin) for origin in known])) if known else head,)

    return make


def _enumerate(arguments: Arguments, starred: bool) -> Origins:
    if starred or not arguments:
        return ("enumerate()",)
    return (each("enumerate()", (holding("tuple()", [("int()",), taken(arguments[0], "*")]),)),)


def _zip(arguments: Arguments, starred: bool) -> Origins:
    if starred or not arguments:
        return ("zip()",)
    return (each("zip()", (holding("tuple()", [taken(argument, "*") for argument in arguments]),)),)


def _sequential(arguments: Arguments, starred: bool) -> Origins:
    head = "torch.nn.Sequential()"
    if starred:
        whole = len(arguments) == 1
        return (each(head, taken(arguments[0], "*")) if whole else head,)
    if len(arguments) == 1 and bare(arguments[0][0]) in ("collections.OrderedDict()", "dict()", "?"):
        return (head,)
    return (holding(head, arguments),)


def _first(arguments: Arguments, starred: bool) -> Origins:
    return arguments[0] if arguments and not starred else UNKNOWN


def _next(arguments: Arguments, starred: bool) -> Origins:
    return taken(_first(arguments, starred), "*")


def _prepared(arguments: Arguments, starred: bool) -> Origins:
    if starred or not arguments:
        return UNKNOWN
    return arguments[0] if len(arguments) == 1 else (holding("tuple()", arguments),)


_MAKERS: Final[Mapping[str, Callable[[Arguments, bool], Origins]]] = {
    "list": _copy_as("list()"),
    "tuple": _copy_as("tuple()"),
    "set": _copy_as("set()"),
    "frozenset": _copy_as("frozenset()"),
    "sorted": _copy_as("list()"),
    "reversed": _copy_as("reversed()"),
    "iter": _copy_as("iter()"),
    "collections.deque": _copy_as("collections.deque()"),
    "torch.nn.ModuleList": _copy_as("torch.nn.ModuleList()"),
    "torch.nn.ParameterList": _copy_as("torch.nn.ParameterList()"),
    "torch.nn.ModuleDict": _mapping_as("torch.nn.ModuleDict()"),
    "torch.nn.Sequential": _sequential,
    "enumerate": _enumerate,
    "tqdm.tqdm": _first,
    "tqdm.auto.tqdm": _first,
    "zip": _zip,
    "next": _next,
    "copy.deepcopy": _first,
    "copy.copy": _first,
    "accelerate.Accelerator().prepare": _prepared,
}
"""Callables that return what they are given, or a container of it. `Accelerator.prepare` wraps: what it returns has the
methods of what it was given."""

_METHODS: Final[Mapping[str, Callable[[str, Arguments], Origins]]] = {
    "values": lambda receiver, _: (each("dict_values()", any_item(receiver)),),
    "items": lambda receiver, _: (each("dict_items()", (holding("tuple()", [UNKNOWN, any_item(receiver)]),)),),
    "copy": lambda receiver, _: (receiver,),
    "pop": lambda receiver, _: any_item(receiver),
    "get": lambda receiver, arguments: unite([any_item(receiver), *arguments[1:2]]),
}
"""Methods of containers whose items are known."""
