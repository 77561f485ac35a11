"""Name the leaves of a pytree by their place in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax


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
