"""jax.parameters: every parameter with what it means, and every Flax module with its configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax

from tensoraudit.probes.jax.call_recorder import Listener
from tensoraudit.probes.jax.devices import device_of, pinned, seed_everything
from tensoraudit.probes.jax.flax_layers import parameter
from tensoraudit.probes.jax.forward import forward_error
from tensoraudit.probes.jax.loaded import Loaded
from tensoraudit.probes.jax.loading import Model, open_model, read_input
from tensoraudit.probes.jax.tensors import dtype_name, is_array, is_key, numbers_of
from tensoraudit.probes.protocol import JobFailed, Session

BUDGET = 512 << 20
"""Bytes of the modules' inputs and outputs that are saved, when the caller gives no budget."""


def parameters(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Return the model's parameters by collection, and its Flax modules; see `pytorch.parameters` for the rows.

    Without `inputs` nothing runs, and the classes of linen modules, which exist only while they run, are not known.
    Raises JobFailed when the model cannot be loaded or run.
    """
    session.pack()
    device = device_of("cpu")
    model = open_model(session, params["model"])
    listener = Listener(session, int(params.get("budget") or BUDGET))
    with pinned(device):
        if params.get("inputs") is not None:
            _run(model, listener, read_input(session, params["inputs"]), int(params.get("seed", 0)))
    classes = {path: str(row["class"]) for path, row in listener.rows.items()}
    classes = {**{path.replace(".", "/"): name for path, name in model.loaded.modules}, **classes}
    rows = list(_rows(model.loaded, classes))
    if params.get("values"):
        for row, leaf in rows:
            row["tensor"] = session.put(numbers_of(leaf))
    return {"parameters": [row for row, _ in rows], "modules": list(listener.rows.values())}


def _rows(loaded: Loaded, classes: Mapping[str, str]) -> Iterator[tuple[dict[str, Any], Any]]:
    for leaves in loaded.collections.values():
        for name, leaf in leaves.items():
            if is_array(leaf) and not is_key(leaf):
                path = tuple(name.split("/"))[1:] or (name,)
                row = {"name": name, "shape": list(leaf.shape), "dtype": dtype_name(leaf)}
                yield {**row, **parameter(path, tuple(leaf.shape), classes)}, leaf


def _run(model: Model, listener: Listener, leaves: Mapping[str, Any], seed: int) -> None:
    """Once, operation by operation, so that modules have values."""
    bound = model.signature.bind(leaves)
    seed_everything(seed)
    apply, paths = _nnx(model.loaded) if model.loaded.kind == "nnx" else (model.loaded.apply, {})
    try:
        with listener.listening(paths):
            jax.block_until_ready(apply(model.loaded.parameters, *bound.args, **bound.kwargs))
    except Exception as problem:
        error = forward_error(problem)
        raise JobFailed(f"the model fails: {error['type']}: {error['message']}", source=error["source"]) from problem
    listener.finish()


def _nnx(loaded: Loaded) -> tuple[Callable[..., Any], dict[type, Callable[[Any], str]]]:
    """A call of an nnx module whose inner modules can be told: their classes, and how to find the path of each."""
    from flax import nnx

    module = nnx.merge(nnx.split(loaded.made)[0], loaded.parameters)
    module.eval()
    inner = {id(each): ("/".join(map(str, path)), each) for path, each in nnx.iter_graph(module)}
    kinds = {type(each) for _, each in inner.values() if isinstance(each, nnx.Module)}

    def path_of(each: Any) -> str:
        return inner[id(each)][0] if id(each) in inner else type(each).__name__

    return lambda _, *args, **kwargs: module(*args, **kwargs), dict.fromkeys(kinds, path_of)
