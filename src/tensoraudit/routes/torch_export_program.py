"""PyTorch to an ExportedProgram (`.pt2`) by torch.export: what torchax and other compilers start from."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tensoraudit.routes.source import chain

_FIXED = re.compile(r"You marked (\w+) as dynamic but your code specialized it to be a constant \((\d+)\)")

MAX_KNOWN = 64
"""Entries of a constant whose values torch.export follows."""


def export(
    module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Mapping[str, Any] | None, path: str
) -> tuple[Any, dict[str, Any]]:
    """Write the `.pt2` file; return the program and the options used.

    `dynamic_shapes` has names of dimensions in the structure of the arguments. Equal names become one
    `torch.export.Dim`, with which the exporter refuses what it would have to fix. Raises whatever torch.export raises.
    """
    import torch

    # Without gradients the program would keep that its weights need none.
    with torch.enable_grad(), _known_sizes():
        program = _exported(module, args, dict(kwargs), dynamic_shapes)
    _drop_numbers(program.graph_module.graph)
    torch.export.save(program, path)
    return program, {"strict": False, "dynamic_shapes": dynamic_shapes}


def _exported(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any) -> Any:
    """Export with one `Dim` for each name; where the code bounds a size (a table of 512 positions), with sizes whose
    bounds torch finds itself. `DYNAMIC` refuses a fixed size too, but has no names to say which."""
    import torch

    def attempt(shapes: Any) -> Any:
        return torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=False)

    if dynamic_shapes is None:
        return attempt(None)
    named: dict[str, Any] = {}
    try:
        return attempt(_dims(dynamic_shapes, named))
    except torch._dynamo.exc.UserError as problem:
        bounded = getattr(torch.export.Dim, "DYNAMIC", None)
        if bounded is None or _FIXED.search(str(problem)):
            raise
        return attempt(_dims(dynamic_shapes, dict.fromkeys(named, bounded)))


def _drop_numbers(graph: Any) -> None:
    """Delete reads of single constants, which stay in the graph when their value was known: torch 2.13 writes them to
    a file that it cannot read again."""
    for node in reversed(list(graph.nodes)):
        if str(node.target) in {"aten.item.default", "aten._local_scalar_dense.default"} and not node.users:
            graph.erase_node(node)
    graph.eliminate_dead_code()


@contextmanager
def _known_sizes() -> Iterator[None]:
    """Let constants stay known through operators while they are traced, not only if they are single numbers: converted
    graphs compute their shapes in small tensors."""
    from torch._subclasses import fake_tensor

    before = getattr(fake_tensor, "CONSTANT_NUMEL_LIMIT", None)
    if before is None:
        yield
        return
    fake_tensor.CONSTANT_NUMEL_LIMIT = MAX_KNOWN
    try:
        yield
    finally:
        fake_tensor.CONSTANT_NUMEL_LIMIT = before


def _dims(value: Any, known: dict[str, Any]) -> Any:
    """The same containers with a `Dim` for every name."""
    import torch

    if isinstance(value, str):
        return known.setdefault(value, torch.export.Dim(_dim_name(value)))
    if isinstance(value, Mapping):
        return {key: _dims(each, known) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_dims(each, known) for each in value)
    return value


def _dim_name(label: str) -> str:
    plain = re.sub(r"\W", "_", label)
    return plain if plain.isidentifier() else f"dim_{plain}"


def fixed_dims(problem: BaseException, dynamic: Mapping[str, Mapping[int, str]]) -> dict[str, dict[str, int]]:
    """Return the dimensions that were to vary and that the code fixes, with their sizes, as {name: {axis: size}}."""
    sizes = {name: int(size) for name, size in _FIXED.findall("\n".join(str(each) for each in chain(problem)))}
    found = {
        name: {str(axis): sizes[_dim_name(label)] for axis, label in axes.items() if _dim_name(label) in sizes}
        for name, axes in dynamic.items()
    }
    return {name: axes for name, axes in found.items() if axes}


def return_plain(module: Any, plain: Callable[[Any], Any]) -> None:
    """Let a module return what `plain` makes of its results: a file with a class of its own (transformers' ModelOutput)
    loads only where that class is imported."""
    original = module.forward

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        return plain(original(*args, **kwargs))

    module.forward = forward
