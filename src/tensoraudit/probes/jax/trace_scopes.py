"""Name stacks for nnx modules. Linen fills them itself; nnx does not, so each call of a module opens a scope here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import jax


@contextmanager
def named_modules(classes: Sequence[type]) -> Iterator[None]:
    """While this lasts, calls of nnx modules of these classes happen in a scope that is called after their place."""
    inside: list[str] = []
    paths: dict[int, str] = {}

    def wrapped(call: Any) -> Any:
        def named(module: Any, *args: Any, **kwargs: Any) -> Any:
            if not inside:
                paths.clear()
                paths.update(_paths(module))
            path = paths.get(id(module), "")
            below = path[len(inside[-1]) + 1 :] if inside and inside[-1] and path.startswith(inside[-1] + ".") else path
            inside.append(path)
            try:
                with jax.named_scope(below.replace(".", "/")) if below else ExitStack():
                    return call(module, *args, **kwargs)
            finally:
                inside.pop()

        return named

    own = [each for each in classes if "__call__" in vars(each)]
    before = [vars(each)["__call__"] for each in own]
    try:
        for each, call in zip(own, before):  # noqa: B905 - Python 3.9
            each.__call__ = wrapped(call)  # type: ignore[method-assign]
        yield
    finally:
        for each, call in zip(own, before):  # noqa: B905
            each.__call__ = call  # type: ignore[method-assign]


def _paths(module: Any) -> dict[int, str]:
    from flax import nnx

    return {id(each): ".".join(map(str, path)) for path, each in nnx.iter_graph(module) if isinstance(each, nnx.Module)}
