"""Dotted names as the source writes them. Nothing here resolves a name."""

from __future__ import annotations

import ast

from tensoraudit.extract.python_origins import LONGEST


def target_text(node: ast.expr) -> str | None:
    """Return `a.b.c` when `node` is a plain dotted name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(names)])


def written(node: ast.expr) -> str:
    """Return a dotted expression as written, calls as `f()` and items as `x[]`; any other root is `?`.

    At most about `LONGEST` characters are walked, so that a chain of calls does not become quadratic.
    """
    if isinstance(node, ast.Name):
        return node.id
    parts: list[str] = []
    suffix, length = "", 0
    while length <= LONGEST:
        if isinstance(node, ast.Attribute):
            parts.append(f"{node.attr}{suffix}")
            suffix, length, node = "", length + len(parts[-1]) + 1, node.value
        elif isinstance(node, ast.Name):
            break
        elif isinstance(node, ast.Call):
            suffix, length, node = f"(){suffix}", length + 2, node.func
        elif isinstance(node, ast.Subscript):
            suffix, length, node = f"[]{suffix}", length + 2, node.value
        else:
            break
    parts.append(f"{node.id if isinstance(node, ast.Name) else '?'}{suffix}")
    return ".".join(reversed(parts))
