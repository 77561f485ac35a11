"""Name the leaves of a pytree by their place in it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import jax

from tensoraudit.probes.calls import children


def named_leaves(tree: Any, root: str = "", separator: str = "/") -> dict[str, Any]:
    """Return the leaves by name, in JAX's own order: `dense/kernel`. A tree that is one leaf has the root's name."""
    pairs, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {separator.join([root, *_keys(path)] if root else _keys(path)): leaf for path, leaf in pairs}


def _keys(path: Iterable[Any]) -> list[str]:
    return [_key(entry) for entry in path]


def _key(entry: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(entry, attribute):
            return str(getattr(entry, attribute))
    return str(entry).strip(".[]'")


def in_order(value: Any) -> Any:
    """Return the arrays of a result of PyTorch or Keras in containers that JAX knows and whose order it keeps.

    JAX sorts the keys of a plain dict. What is no array becomes None, so that the others keep their names.
    """
    inner = list(children(value))
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return tuple(in_order(each) for _, each in inner)
    if inner:
        return OrderedDict((key, in_order(each)) for key, each in inner)
    return value if hasattr(value, "shape") else None
