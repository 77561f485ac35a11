"""From what a factory returned to a `Loaded`: a function, a function with parameters, Flax modules of both kinds.

Flax is only looked for where the user's code has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tensoraudit.probes import calls
from tensoraudit.probes.calls import Signature
from tensoraudit.probes.jax.loaded import PARAMETERS, Loaded
from tensoraudit.probes.jax.names import named_leaves
from tensoraudit.probes.jax.tensors import numbers_of
from tensoraudit.probes.protocol import JobFailed

FORMS = (
    "a function of arrays, a pair (function, parameters), a pair (Flax linen module, variables), a bound linen module, "
    "or an nnx.Module"
)


def read_made(made: Any, what: str) -> Loaded:
    """Return the model that an object of the user's is. Raises JobFailed for anything else."""
    for matches, read in _READERS:
        if matches(made):
            return replace(read(made), made=made)
    raise JobFailed(f"{what} is {_described(made)}, which is no JAX model", remedy=f"Return {FORMS}.")


def is_model(value: Any) -> bool:
    """Whether a value, or a class, is a model by itself."""
    bases = [base for base in (_base("flax.linen"), _base("flax.nnx")) if base is not None]
    return any(issubclass(value, base) if isinstance(value, type) else isinstance(value, base) for base in bases)


def _described(made: Any) -> str:
    if isinstance(made, tuple):
        return f"a tuple of {', '.join(type(each).__name__ for each in made) or 'nothing'}"
    return f"a {type(made).__name__}"


def _base(package: str) -> Any:
    return getattr(sys.modules.get(package), "Module", None)


def _is_linen(made: Any) -> bool:
    base = _base("flax.linen")
    return base is not None and isinstance(made, base)


def _is_nnx(made: Any) -> bool:
    base = _base("flax.nnx")
    return base is not None and isinstance(made, base)


def _is_pair(made: Any) -> bool:
    return isinstance(made, tuple) and len(made) == 2 and callable(made[0]) and not _is_nnx(made[0])


def _signature(function: Any, skip: int = 0) -> Signature:
    """Annotations are left out: for JAX they convert nothing."""
    signature = calls.signature_of(function, skip)
    return Signature(tuple(replace(argument, annotation="") for argument in signature.arguments))


def _name(function: Any) -> str:
    inner = getattr(function, "func", function)  # functools.partial
    return str(getattr(inner, "__qualname__", type(inner).__qualname__))


def _function(made: Any) -> Loaded:
    return Loaded("function", _name(made), lambda _, *args, **kwargs: made(*args, **kwargs), {}, _signature(made))


def _with_parameters(made: Any) -> Loaded:
    function, parameters = made
    return Loaded(
        "function",
        _name(function),
        function,
        parameters,
        _signature(function, skip=1),
        {PARAMETERS: _below(parameters, PARAMETERS)},
    )


def _below(tree: Any, collection: str) -> dict[str, Any]:
    """The leaves of one collection; a tree that already begins with its name does not say it twice."""
    inner = tree[collection] if isinstance(tree, Mapping) and set(tree) == {collection} else tree
    return named_leaves(inner, collection)


def _linen_pair(made: Any) -> Loaded:
    module, variables = made
    if not isinstance(variables, Mapping):
        raise JobFailed(
            f"the variables of the linen module are {_described(variables)}, not a mapping",
            remedy="Return (module, variables) with what module.init gave.",
        )
    return Loaded(
        "linen",
        type(module).__qualname__,
        module.apply,
        variables,
        _signature(type(module).__call__, skip=1),
        {str(name): _below(tree, str(name)) for name, tree in variables.items()},
        classes=tuple(dict.fromkeys((type(module), *_submodules(module)))),
    )


def _submodules(module: Any) -> Iterator[type]:
    """The classes of modules that stand in a module's fields; those made inside `@nn.compact` show in its source."""
    for value in vars(module).values():
        if _is_linen(value) and value is not getattr(module, "parent", None):
            yield type(value)


def _bound_linen(made: Any) -> Loaded:
    if getattr(made, "scope", None) is None:
        raise JobFailed(
            f"{type(made).__name__} is a linen module without variables",
            remedy="Return (module, variables), with variables from module.init or from your checkpoint.",
        )
    return _linen_pair(made.unbind())


def _nnx(made: Any) -> Loaded:
    from flax import nnx

    handed, state = nnx.split(made)
    copy = nnx.merge(handed, state)
    copy.eval()
    evaluated, _ = nnx.split(copy)

    def compute(definition: Any) -> Callable[..., Any]:
        return lambda parameters, *args, **kwargs: nnx.merge(definition, parameters)(*args, **kwargs)

    def changes(parameters: Any, *args: Any, **kwargs: Any) -> list[str]:
        module = nnx.merge(evaluated, parameters)
        module(*args, **kwargs)
        before, after = (named_leaves(each) for each in (parameters, nnx.state(module)))
        return sorted(_place(name) for name in {*before, *after} if not _same(before.get(name), after.get(name)))

    found = list(nnx.iter_graph(made))
    inner = [(".".join(map(str, path)), each) for path, each in found if isinstance(each, nnx.Module)]
    return Loaded(
        "nnx",
        type(made).__qualname__,
        compute(evaluated),
        state,
        _signature(type(made).__call__, skip=1),
        _nnx_collections(state),
        as_made=compute(handed),
        training=any(_trains(each) for _, each in inner),
        changes=changes,
        classes=tuple(dict.fromkeys(type(each) for _, each in inner)),
        modules=tuple((path, type(each).__qualname__) for path, each in inner),
    )


def _place(name: str) -> str:
    return name.removesuffix("/value")


def _same(before: Any, after: Any) -> bool:
    if before is None or after is None:
        return False
    first, second = numbers_of(before), numbers_of(after)
    return first.shape == second.shape and bool(np.array_equal(first, second, equal_nan=first.dtype.kind == "f"))


def _trains(module: Any) -> bool:
    """Whether a module drops out or updates statistics when it is called."""
    return getattr(module, "deterministic", None) is False or getattr(module, "use_running_average", None) is False


def _nnx_collections(state: Any) -> dict[str, dict[str, Any]]:
    """The leaves by the kind of variable, under the names that linen gives to the same kinds."""
    from flax import nnx

    names = {"Param": PARAMETERS, "BatchStat": "batch_stats", "RngKey": "rngs", "RngCount": "rngs"}
    found: dict[str, dict[str, Any]] = {}
    for path, variable in nnx.to_flat_state(state):
        collection = names.get(type(variable).__name__, type(variable).__name__)
        for name, leaf in named_leaves(variable).items():
            inner = [] if name in {"", "value"} else [_place(name)]
            found.setdefault(collection, {})["/".join([collection, *map(str, path), *inner])] = leaf
    return found


def _is_callable(made: Any) -> bool:
    return callable(made) and not isinstance(made, type)


_READERS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Loaded]], ...] = (
    (lambda made: _is_pair(made) and _is_linen(made[0]), _linen_pair),
    (_is_pair, _with_parameters),
    (_is_linen, _bound_linen),
    (_is_nnx, _nnx),
    (_is_callable, _function),
)
